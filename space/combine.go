package space

import "surepipe/array"

// product is (T_1, T_2, ...).
type product struct {
	parts  []Space
	at, on []int // where part i begins in R^p, and among the coordinates
	dim    int
	form   Form
}

// ProductOf returns the product of spaces, the vectors (u_1, u_2, ...) with u_i in T_i, with E =
// diag(E_1, E_2, ...). Releasing it releases the parts. A product of sets of coordinates has the
// form of one set, and one of clusters and sets that of clusters. It panics without parts.
func ProductOf(parts ...Space) Space {
	if len(parts) == 0 {
		panic("space: a product of no spaces")
	}
	s := &product{parts: parts, at: []int{0}, on: []int{0}}
	regular := true
	for i, t := range parts {
		p, n := t.Dims()
		s.at, s.on = append(s.at, s.at[i]+p), append(s.on, s.on[i]+n)
		s.dim += t.Dim()
		regular = regular && t.Form().Orthonormal
	}
	s.form = s.joined()
	if s.form.Kind == General {
		s.form = Form{Kind: Product, Orthonormal: regular, Parts: parts}
	}
	return s
}

// joined is the form of a product whose parts are sets of coordinates and clusters; the zero Form
// for any other.
func (s *product) joined() Form {
	p, n := s.Dims()
	subset, all := true, Form{Orthonormal: true, Set: make([]int, 0, n)}
	all.Average.Indptr = append(all.Average.Indptr, 0)
	for i, t := range s.parts {
		f := t.Form()
		rows := f.Average
		switch f.Kind {
		case Whole:
			rows = unitRows(nil, s.at[i+1]-s.at[i])
		case Subset:
			rows = unitRows(f.Set, len(f.Set))
		case Cluster:
			subset = false
		default:
			return Form{}
		}
		base := len(all.Average.Indices)
		for _, j := range rows.Indices {
			all.Average.Indices = append(all.Average.Indices, s.at[i]+j)
		}
		all.Average.Values = append(all.Average.Values, rows.Values...)
		for _, end := range rows.Indptr[1:] {
			all.Average.Indptr = append(all.Average.Indptr, base+end)
		}
	}
	switch {
	case !subset:
		all.Kind, all.Set = Cluster, nil
	case n == p:
		all = Form{Kind: Whole, Orthonormal: true}
	default:
		all.Kind, all.Set, all.Average = Subset, all.Average.Indices, Rows{}
	}
	return all
}

// unitRows are the rows of the identity at n coordinates, all of them where set is nil.
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

func (s *product) Dims() (p, n int) { return s.at[len(s.parts)], s.on[len(s.parts)] }
func (s *product) Dim() int         { return s.dim }

func (s *product) Embed(dst, c array.Batch) {
	p, n := s.Dims()
	check("a product", dst, p, c, n)
	for i, t := range s.parts {
		t.Embed(dst.Cols(s.at[i], s.at[i+1]), c.Cols(s.on[i], s.on[i+1]))
	}
}

func (s *product) Coordinates(dst, z array.Batch) {
	p, n := s.Dims()
	check("a product", dst, n, z, p)
	for i, t := range s.parts {
		t.Coordinates(dst.Cols(s.on[i], s.on[i+1]), z.Cols(s.at[i], s.at[i+1]))
	}
}

func (s *product) Project(dst, z array.Batch) {
	p, _ := s.Dims()
	check("a product", dst, p, z, p)
	for i, t := range s.parts {
		t.Project(dst.Cols(s.at[i], s.at[i+1]), z.Cols(s.at[i], s.at[i+1]))
	}
}

func (s *product) Form() Form { return s.form }

func (s *product) Bytes() int64 {
	bytes := int64(0)
	for _, t := range s.parts {
		bytes += t.Bytes()
	}
	return bytes
}

func (s *product) Release() {
	for _, t := range s.parts {
		t.Release()
	}
}
