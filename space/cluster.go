package space

import (
	"fmt"
	"math"

	"surepipe/array"
)

// cluster is the vectors that are constant up to sign on disjoint sets.
type cluster struct {
	p           int
	rows        Rows
	sums        array.CSR   // n x p, the signs of the coordinates of each set
	of          array.Index // the set of each coordinate, any for those outside of the sets
	root, share array.Batch // 1 x n: 1/sqrt(m_i) and 1/m_i
	sign        array.Batch // 1 x p, 0 outside of the sets; the zero Batch where all are 1
}

// Clusters returns the vectors of R^p that are constant up to sign on disjoint sets of coordinates,
// and 0 outside of them: set i has the coordinates indices[indptr[i]:indptr[i+1]] and is not empty.
// sign has the sign of each of the p coordinates, 1 or -1; nil stands for ones. Column i of E is
//
//	sign_j/sqrt(m_i) for the m_i coordinates j of set i, else 0.
//
// The slices are not kept. It panics if the sets break these rules.
func Clusters(dev array.Device, p int, indptr, indices []int, sign []float64) Space {
	n := len(indptr) - 1
	s := &cluster{p: p, rows: Rows{append([]int(nil), indptr...), append([]int(nil), indices...),
		make([]float64, len(indices))}}
	of, signs, entries := make([]int, p), make([]float64, p), make([]float64, len(indices))
	root, share := make([]float64, n), make([]float64, n)
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
			entries[indptr[i]+u], s.rows.Values[indptr[i]+u] = signs[j], signs[j]*root[i]
		}
	}
	s.sums = dev.NewCSR(n, p, s.rows.Indptr, s.rows.Indices, entries)
	s.of = dev.NewIndex(of)
	s.root, s.share = dev.Alloc(1, n), dev.Alloc(1, n)
	dev.Upload(s.root, root)
	dev.Upload(s.share, share)
	if !plain {
		s.sign = dev.Alloc(1, p)
		dev.Upload(s.sign, signs)
	}
	return s
}

func (s *cluster) Dims() (p, n int) { return s.p, s.Dim() }
func (s *cluster) Dim() int         { return len(s.rows.Indptr) - 1 }

func (s *cluster) Embed(dst, c array.Batch) {
	check("clusters", dst, s.p, c, s.Dim())
	t := dst.Device().Alloc(c.K(), c.N())
	defer t.Free()
	if s.Dim() > 0 {
		dst.Device().Mul(t, c, s.root)
	}
	s.spread(dst, t)
}

// spread sets every coordinate to the number of its set, times its sign.
func (s *cluster) spread(dst, c array.Batch) {
	dev := dst.Device()
	if s.Dim() == 0 {
		dev.Fill(dst, 0)
		return
	}
	dev.Gather(dst, c, s.of)
	if !s.sign.IsZero() {
		dev.Mul(dst, dst, s.sign)
	}
}

func (s *cluster) Coordinates(dst, z array.Batch) {
	check("clusters", dst, s.Dim(), z, s.p)
	if s.Dim() > 0 {
		dst.Device().MulCSR(dst, s.sums, z)
		dst.Device().Mul(dst, dst, s.root)
	}
}

// Project takes means without a root: those of a few small integers are exact.
func (s *cluster) Project(dst, z array.Batch) {
	check("clusters", dst, s.p, z, s.p)
	means := dst.Device().Alloc(z.K(), s.Dim())
	defer means.Free()
	if s.Dim() > 0 {
		dst.Device().MulCSR(means, s.sums, z)
		dst.Device().Mul(means, means, s.share)
	}
	s.spread(dst, means)
}

func (s *cluster) Form() Form {
	return Form{Kind: Cluster, Orthonormal: true, Average: s.rows}
}

func (s *cluster) Bytes() int64 {
	return s.sums.Bytes() + s.of.Bytes() + s.root.Bytes() + s.share.Bytes() + s.sign.Bytes()
}

func (s *cluster) Release() {
	s.sums.Free()
	s.of.Free()
	s.root.Free()
	s.share.Free()
	s.sign.Free()
}
