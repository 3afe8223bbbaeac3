package space

import (
	"fmt"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/internal/lists"
)

// Clusters returns the vectors of R^p that are constant up to sign on disjoint sets of coordinates,
// and 0 outside of them: set i has the coordinates indices[indptr[i]:indptr[i+1]] and is not empty.
// sign has the sign of each of the p coordinates, 1 or -1; nil stands for ones. Column i of E is
//
//	sign_j/sqrt(m_i) for the m_i coordinates j of set i, else 0.
//
// The slices are not kept. It panics if the sets break these rules.
func Clusters(dev array.Device, p int, indptr, indices []int, sign []float64) Space {
	n := len(indptr) - 1
	indptr = slices.Clone(indptr)
	of, signs, entries := make([]int, p), make([]float64, p), make([]float64, len(indices))
	root, share := make([]float64, n), make([]float64, n) // 1/sqrt(m_i) and 1/m_i
	plain := len(indices) == p
	for i := range n {
		set := indices[indptr[i]:indptr[i+1]]
		if len(set) == 0 {
			panic(fmt.Sprintf("space: set %d of %d is empty", i, n))
		}
		share[i] = 1 / float64(len(set))
		root[i] = 1 / math.Sqrt(float64(len(set)))
		for u, j := range set {
			if j < 0 || j >= p || signs[j] != 0 {
				panic(fmt.Sprintf("space: set %d of %d has coordinate %d, want each of 0 to %d once at most", i, n, j,
					p-1))
			}
			if of[j], signs[j] = i, 1; sign != nil {
				signs[j] = sign[j]
			}
			plain = plain && signs[j] == 1
			entries[indptr[i]+u] = signs[j]
		}
	}
	sums, setOf := dev.NewCSR(n, p, indptr, indices, entries), dev.NewIndex(of)
	roots, shares := upload(dev, root), upload(dev, share)
	var signOf array.Batch // 0 outside of the sets; the zero Batch where all are 1
	if !plain {
		signOf = upload(dev, signs)
	}
	// spread sets every coordinate to the number of its set, times its sign.
	spread := func(dst, c array.Batch) {
		dst.Device().Gather(dst, c, setOf)
		if !signOf.IsZero() {
			dst.Device().Mul(dst, dst, signOf)
		}
	}
	short := lists.Map(indices, func(j int) int32 { return int32(j) })
	average := func() Rows {
		rows := Rows{indptr, lists.Map(short, func(j int32) int { return int(j) }), slices.Clone(entries)}
		for i := range n {
			root := 1 / math.Sqrt(float64(indptr[i+1]-indptr[i]))
			for u := indptr[i]; u < indptr[i+1]; u++ {
				rows.Values[u] *= root
			}
		}
		return rows
	}
	s := &space{name: "clusters", p: p, n: n, dim: n, form: Form{Kind: Cluster, Orthonormal: true, Average: average}}
	s.Hold(sums, setOf, roots, shares, signOf)
	s.embed = func(dst, c array.Batch) {
		t := dst.Device().Alloc(c.K(), n)
		defer t.Free()
		dst.Device().Mul(t, c, roots)
		spread(dst, t)
	}
	s.coordinates = func(dst, z array.Batch) {
		dst.Device().MulCSR(dst, sums, z)
		dst.Device().Mul(dst, dst, roots)
	}
	// Means without a root: those of a few small integers are exact.
	s.project = func(dst, z array.Batch) {
		if n == 0 {
			dst.Device().Fill(dst, 0)
			return
		}
		means := dst.Device().Alloc(z.K(), n)
		defer means.Free()
		dst.Device().MulCSR(means, sums, z)
		dst.Device().Mul(means, means, shares)
		spread(dst, means)
	}
	return s
}

func upload(dev array.Device, values []float64) array.Batch {
	b := dev.Alloc(1, len(values))
	dev.Upload(b, values)
	return b
}
