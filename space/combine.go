package space

import (
	"slices"

	"surepipe/array"
)

// ProductOf returns the product of spaces, the vectors (u_1, u_2, ...) with u_i in T_i, with E =
// diag(E_1, E_2, ...). Releasing it releases the parts. A product of sets of coordinates has the
// form of one set, and one of clusters and sets that of clusters. It panics without parts.
func ProductOf(parts ...Space) Space {
	if len(parts) == 0 {
		panic("space: a product of no spaces")
	}
	at, on := []int{0}, []int{0} // where each part begins in R^p, and among the coordinates
	s := &space{name: "a product"}
	regular := true
	for i, t := range parts {
		p, n := t.Dims()
		at, on = append(at, at[i]+p), append(on, on[i]+n)
		s.dim += t.Dim()
		regular = regular && t.Form().Orthonormal
		s.Own(t)
	}
	s.p, s.n = at[len(parts)], on[len(parts)]
	if s.form = joined(parts, at, s.n); s.form.Kind == General {
		s.form = Form{Kind: Product, Orthonormal: regular, Parts: parts}
	}
	s.embed = func(dst, c array.Batch) {
		for i, t := range parts {
			t.Embed(dst.Cols(at[i], at[i+1]), c.Cols(on[i], on[i+1]))
		}
	}
	s.coordinates = func(dst, z array.Batch) {
		for i, t := range parts {
			t.Coordinates(dst.Cols(on[i], on[i+1]), z.Cols(at[i], at[i+1]))
		}
	}
	s.project = func(dst, z array.Batch) {
		for i, t := range parts {
			t.Project(dst.Cols(at[i], at[i+1]), z.Cols(at[i], at[i+1]))
		}
	}
	return s
}

// joined is the form of a product whose parts are sets of coordinates and clusters; the zero Form
// for any other. The parts begin at some coordinates of R^p, and have n coordinates together.
func joined(parts []Space, at []int, n int) Form {
	subset, all := true, Rows{Indptr: []int{0}}
	for i, t := range parts {
		f := t.Form()
		var rows Rows
		switch f.Kind {
		case Whole:
			rows = unitRows(nil, at[i+1]-at[i])
		case Subset:
			rows = unitRows(f.Set, len(f.Set))
		case Cluster:
			subset, rows = false, f.Average()
		default:
			return Form{}
		}
		base := len(all.Indices)
		for _, j := range rows.Indices {
			all.Indices = append(all.Indices, at[i]+j)
		}
		all.Values = append(all.Values, rows.Values...)
		for _, end := range rows.Indptr[1:] {
			all.Indptr = append(all.Indptr, base+end)
		}
	}
	switch {
	case !subset:
		return Form{Kind: Cluster, Orthonormal: true, Average: func() Rows {
			return Rows{all.Indptr, slices.Clone(all.Indices), slices.Clone(all.Values)}
		}}
	case n == at[len(parts)]:
		return Form{Kind: Whole, Orthonormal: true}
	}
	return Form{Kind: Subset, Orthonormal: true, Set: all.Indices}
}

func unitRows(set []int, n int) Rows {
	r := Rows{Indptr: make([]int, n+1), Indices: make([]int, n), Values: make([]float64, n)}
	for i := range n {
		r.Indptr[i+1], r.Indices[i], r.Values[i] = i+1, i, 1
		if set != nil {
			r.Indices[i] = set[i]
		}
	}
	return r
}
