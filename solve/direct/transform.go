package direct

import (
	"math"
	"slices"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/solve/engine"
)

// transformed is N = T* diag(n) T with a transform T, T*T = I, that diagonalizes A*A and the penalty:
// the cosine transform, or that of Fourier, of real images.
type transformed struct {
	p       engine.Problem
	parts   []part
	t       transform
	a       []float64   // the eigenvalues of A*A
	n       []float64   // and those of N
	inverse array.Batch // 1/n, for each of T's rows
	shared  bool        // t belongs to another one

	diagonalOf func(h []float64) []float64 // the diagonal of T* diag(h) T, nil where it is constant
}

// part are rows of K.
type part struct {
	k           linops.Operator
	rows        int
	eigenvalues []float64 // of k*k
}

// transform has one row for each eigenvalue, or several.
type transform interface {
	linops.Operator
	Load(dev array.Device)
	Release()
}

// parts divides K into operators on top of each other, each with one c; nil where that is not possible.
func (s *quadratic) parts() []part {
	ops := []linops.Operator{linops.Identity(len(s.q))}
	if s.p.K != nil {
		ops = linops.Above(s.p.K)
	}
	parts, at := make([]part, len(ops)), 0
	for i, k := range ops {
		n, _ := k.Dims()
		if c, even := common(s.q[at : at+n]); !even || math.IsInf(c, 1) {
			return nil
		}
		parts[i] = part{k: k, rows: n}
		at += n
	}
	return parts
}

// diagonalizedBy is what one transform knows of an operator.
type diagonalizedBy func(s linops.Structure) linops.Spectrum

func byCosines(s linops.Structure) linops.Spectrum { return s.Cosines }
func byWaves(s linops.Structure) linops.Spectrum   { return s.Circulant }

// images is the shape of those whose transform diagonalizes A*A and all parts; 0 x 0 for none.
// Multiples of the identity do not need one.
func (s *quadratic) images(by diagonalizedBy) (shape array.Shape) {
	if c, even := common(s.q); even && c == 0 {
		return shape // least squares decide ranks
	}
	parts := s.parts()
	if parts == nil {
		return shape
	}
	for _, part := range append(parts, part{k: s.p.A}) {
		known := linops.StructureOf(part.k)
		if known.Columns.Known {
			continue
		}
		spectrum := by(known)
		if !spectrum.Known() || shape.Len() > 0 && spectrum.Shape != shape {
			return array.Shape{}
		}
		shape = spectrum.Shape
	}
	return shape
}

func (s *quadratic) transforms() bool {
	return s.images(byCosines).Len() > 0 || s.images(byWaves).Len() > 0
}

func newTransformed(s *quadratic) (closedForm, engine.Choice, error) {
	f, by := &transformed{p: s.p, parts: s.parts()}, byCosines
	shape := s.images(by)
	if shape.Len() > 0 {
		cosines := imaging.NewDCT2D(shape.Rows, shape.Cols)
		f.t, f.diagonalOf = cosines, cosines.DiagonalOf
	} else {
		by = byWaves
		shape = s.images(by)
		places := lists.Upto(shape.Len())
		t, err := imaging.NewFourier(shape.Rows, shape.Cols, places, imaging.FourierLayout{})
		if err != nil {
			return nil, engine.Choice{}, err
		}
		f.t = t
	}
	f.t.Load(s.p.Device)
	f.a = eigenvalues(s.p.A, by)
	for i, part := range f.parts {
		f.parts[i].eigenvalues = eigenvalues(part.k, by)
	}
	if !f.weigh(s.q) {
		f.Release()
		return nil, engine.Choice{}, nil
	}
	return newNormal(s.p, f), engine.Choice{}, nil
}

func eigenvalues(a linops.Operator, by diagonalizedBy) []float64 {
	known := linops.StructureOf(a)
	if !known.Columns.Known {
		return by(known).Values()
	}
	_, n := a.Dims()
	return slices.Repeat([]float64{known.Columns.Value}, n)
}

// weigh returns false where an eigenvalue is 0.
func (f *transformed) weigh(q []float64) bool {
	f.n = slices.Clone(f.a)
	at := 0
	for _, part := range f.parts {
		if part.rows > 0 {
			for j, v := range part.eigenvalues {
				f.n[j] += q[at] * v
			}
		}
		at += part.rows
	}
	rows, _ := f.t.Dims()
	host := make([]float64, rows)
	for i := range host {
		v := f.n[i*len(f.n)/rows]
		if !(v > 0) || math.IsInf(v, 1) {
			return false
		}
		host[i] = 1 / v
	}
	f.inverse = f.p.Device.Alloc(1, rows)
	f.p.Device.Upload(f.inverse, host)
	return true
}

func (f *transformed) reweight(q []float64) (normalFactor, error) {
	other := *f
	if other.shared = true; !other.weigh(q) {
		return nil, nil
	}
	return &other, nil
}

func (f *transformed) Release() {
	f.inverse.Free()
	if !f.shared {
		f.t.Release()
	}
}

func (f *transformed) solve(dst, g array.Batch) {
	dev := dst.Device()
	t := dev.Alloc(g.K(), f.inverse.N())
	defer t.Free()
	f.t.Forward(t, g)
	dev.Mul(t, t, f.inverse)
	f.t.Adjoint(dst, t)
}

// lengths are roots of the mean eigenvalue: those of N's diagonal differ at the border of an image at most.
func (f *transformed) lengths() []float64 {
	sum := 0.0
	for _, v := range f.n {
		sum += v
	}
	return slices.Repeat([]float64{math.Sqrt(sum / float64(len(f.n)))}, len(f.n))
}

// traces are sums over the eigenvalues h = a/n of H. Its diagonal is known where A commutes with
// shifts, and where A = I.
func (f *transformed) traces() hatOf {
	h := hatOf{HatTraces: engine.HatTraces{Margin: math.Inf(1)}}
	values := make([]float64, len(f.n))
	for i, n := range f.n {
		values[i] = f.a[i] / n
		h.Trace += values[i]
		h.Frobenius2 += values[i] * values[i]
	}
	known := linops.StructureOf(f.p.A)
	switch {
	case known.Identity && f.diagonalOf != nil:
		h.diagonal = f.diagonalOf(values)
	case f.diagonalOf == nil && (known.Identity || known.Commutes):
		h.diagonal = slices.Repeat([]float64{h.Trace / float64(len(values))}, len(values))
	}
	return h
}
