package space

import "surepipe/array"

// preimage is {u : K u in T} for an orthogonal K.
type preimage struct {
	t        Space
	forward  func(dst, z array.Batch)
	backward func(dst, z array.Batch)
}

// Preimage returns the vectors u with K u in T, for an orthogonal matrix K of the given products,
// forward z -> K z and backward z -> K* z. Column i of its E is K* times that of T. T is still the
// caller's, and must outlive the result, as must K.
func Preimage(t Space, forward, backward func(dst, z array.Batch)) Space {
	return &preimage{t, forward, backward}
}

func (s *preimage) Dims() (p, n int) { return s.t.Dims() }
func (s *preimage) Dim() int         { return s.t.Dim() }

func (s *preimage) Embed(dst, c array.Batch) {
	p, n := s.Dims()
	check("a preimage", dst, p, c, n)
	t := dst.Device().Alloc(dst.K(), p)
	defer t.Free()
	s.t.Embed(t, c)
	s.backward(dst, t)
}

func (s *preimage) Coordinates(dst, z array.Batch) {
	p, n := s.Dims()
	check("a preimage", dst, n, z, p)
	t := dst.Device().Alloc(dst.K(), p)
	defer t.Free()
	s.forward(t, z)
	s.t.Coordinates(dst, t)
}

func (s *preimage) Project(dst, z array.Batch) {
	p, _ := s.Dims()
	check("a projection", dst, p, z, p)
	t := dst.Device().Alloc(dst.K(), p)
	defer t.Free()
	s.forward(t, z)
	s.t.Project(t, t)
	s.backward(dst, t)
}

func (s *preimage) Form() Form   { return Form{Orthonormal: s.t.Form().Orthonormal} }
func (s *preimage) Bytes() int64 { return 0 }
func (s *preimage) Release()     {}
