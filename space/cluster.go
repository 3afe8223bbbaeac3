package space

import (
	"fmt"
	"math"

	"surepipe/array"
)

// cluster is the vectors that are constant up to sign on disjoint sets.
type cluster struct {
	p      int
	rows   Rows
	on     array.CSR   // E*, n x p
	of     array.Index // the set of each coordinate, any where the weight is 0
	weight array.Batch // 1 x p: the entry of E in the coordinate's row
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
	of, weight := make([]int, p), make([]float64, p)
	for i := range n {
		set := indices[indptr[i]:indptr[i+1]]
		if len(set) == 0 {
			panic(fmt.Sprintf("space: set %d of %d is empty", i, n))
		}
		for u, j := range set {
			if j < 0 || j >= p || weight[j] != 0 {
				panic(fmt.Sprintf("space: set %d of %d has coordinate %d, want each of 0 to %d once at most", i, n, j,
					p-1))
			}
			weight[j] = 1 / math.Sqrt(float64(len(set)))
			if sign != nil {
				weight[j] *= sign[j]
			}
			of[j] = i
			s.rows.Values[indptr[i]+u] = weight[j]
		}
	}
	s.on = dev.NewCSR(n, p, s.rows.Indptr, s.rows.Indices, s.rows.Values)
	s.of = dev.NewIndex(of)
	s.weight = dev.Alloc(1, p)
	dev.Upload(s.weight, weight)
	return s
}

func (s *cluster) Dims() (p, n int) { return s.p, s.Dim() }
func (s *cluster) Dim() int         { return len(s.rows.Indptr) - 1 }

func (s *cluster) Embed(dst, c array.Batch) {
	check("clusters", dst, s.p, c, s.Dim())
	dev := dst.Device()
	if s.Dim() == 0 {
		dev.Fill(dst, 0)
		return
	}
	dev.Gather(dst, c, s.of)
	dev.Mul(dst, dst, s.weight)
}

func (s *cluster) Coordinates(dst, z array.Batch) {
	check("clusters", dst, s.Dim(), z, s.p)
	if s.Dim() > 0 {
		dst.Device().MulCSR(dst, s.on, z)
	}
}

func (s *cluster) Project(dst, z array.Batch) { project(s, dst, z) }

func (s *cluster) Form() Form {
	return Form{Kind: Cluster, Orthonormal: true, Average: s.rows}
}

func (s *cluster) Bytes() int64 { return s.on.Bytes() + s.of.Bytes() + s.weight.Bytes() }

func (s *cluster) Release() {
	s.on.Free()
	s.of.Free()
	s.weight.Free()
}
