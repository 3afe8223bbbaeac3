package prox

import (
	"math"

	"surepipe/array"
	"surepipe/prox/internal/vector"
	"surepipe/space"
)

// diagonal is the derivative of a separable prox: J z = d ∘ z. Its model's space are the
// coordinates where d is not 0.
type diagonal struct {
	d         array.Batch
	curvature func(j int) float64 // r_j'' where d_j is not 0; nil for 0
	t         float64
	// The margin of the model: the distance of v_j to the nearest kink of entry j, or margin.
	kink   func(j int, v float64) float64
	margin func(v array.Batch) float64
	jacobian
}

func newDiagonal(d array.Batch, t float64) *diagonal {
	j := &diagonal{d: d, t: t}
	j.jacobian.build = j.model
	j.Hold(d)
	return j
}

func (j *diagonal) Apply(dst, z array.Batch) {
	vector.CheckApply("a separable prox", j.d.N(), dst, z)
	dst.Device().Mul(dst, j.d, z)
}

func (j *diagonal) Diagonal() array.Batch { return j.d }

func (j *diagonal) model() *Model {
	set, q, nonzero := []int{}, []float64{}, false
	for i, x := range j.d.Read() {
		if x == 0 {
			continue
		}
		set = append(set, i)
		if j.curvature != nil {
			q = append(q, j.curvature(i))
			nonzero = nonzero || q[len(q)-1] != 0
		}
	}
	dev := j.d.Device()
	m := &Model{Space: space.Coordinates(dev, j.d.N(), set), Margin: j.margins()}
	if nonzero {
		m.Curvature = NewDiagonalCurvature(dev, q, j.t)
	}
	return m
}

// multiple is a multiple of the identity, J z = s z. It holds no memory until its diagonal is asked
// for. Its model's space is all of R^n, or {0}.
type multiple struct {
	s      float64
	q, t   float64 // s = 1/(1 + t q)
	dev    array.Device
	n      int
	margin func(v array.Batch) float64
	d      array.Batch
	jacobian
}

// newMultiple returns J = s I at v, whose model has the given margin; nil stands for +Inf.
func newMultiple(s float64, v array.Batch, margin func(v array.Batch) float64) *multiple {
	if margin == nil {
		margin = endless
	}
	return multipleOf(s, v.Device(), v.N(), margin)
}

func multipleOf(s float64, dev array.Device, n int, margin func(v array.Batch) float64) *multiple {
	j := &multiple{s: s, dev: dev, n: n, margin: margin}
	j.jacobian.build = j.model
	return j
}

// NewMultiple returns the derivative J = s I at v for s = 0 or 1, whose model, {0} or all of R^n, has the given
// margin; nil stands for +Inf.
func NewMultiple(s float64, v array.Batch, margin func(v array.Batch) float64) Derivative {
	return newMultiple(s, v, margin)
}

// NewDiagonal returns the derivative J = diag(d) of a regularizer, which owns d. model makes its model when it is first
// asked for.
func NewDiagonal(d array.Batch, model func() *Model) Derivative {
	j := newDiagonal(d, 0)
	j.build = model
	return j
}

// NewProjection returns the derivative J of a regularizer without curvature, the orthogonal projection on the
// tangent space t, which it owns, for a model with the given margin. It is diagonal where t is a set of
// coordinates.
func NewProjection(dev array.Device, t space.Space, margin func(v array.Batch) float64) Derivative {
	p, n := t.Dims()
	switch f := t.Form(); {
	case f.Kind == space.Whole || f.Kind == space.Subset && (n == 0 || n == p):
		t.Release()
		return multipleOf(float64(min(n, 1)), dev, p, margin)
	case f.Kind == space.Subset:
		mask := make([]float64, p)
		for _, j := range f.Set {
			mask[j] = 1
		}
		t.Release()
		d := dev.Alloc(1, p)
		dev.Upload(d, mask)
		j := newDiagonal(d, 0)
		j.margin = margin
		return j
	}
	return &projection{Space: t, model: Model{Space: t, Margin: margin}}
}

// projection is the orthogonal projection on a space.
type projection struct {
	space.Space
	model Model
}

func (j *projection) Apply(dst, z array.Batch) {
	n, _ := j.Dims()
	vector.CheckApply("a projection", n, dst, z)
	j.Project(dst, z)
}

func (j *projection) Diagonal() array.Batch { return array.Batch{} }
func (j *projection) Model() *Model         { return &j.model }

func endless(array.Batch) float64 { return math.Inf(1) }

func (j *multiple) Apply(dst, z array.Batch) {
	vector.CheckApply("a multiple of the identity", j.n, dst, z)
	switch j.s {
	case 0:
		j.dev.Fill(dst, 0)
	case 1:
		j.dev.Copy(dst, z)
	default:
		j.dev.Lin(dst, j.s, z, 0, array.Batch{})
	}
}

func (j *multiple) Diagonal() array.Batch {
	return j.keep(&j.d, func() array.Batch {
		d := j.dev.Alloc(1, j.n)
		j.dev.Fill(d, j.s)
		return d
	})
}

func (j *multiple) model() *Model {
	switch {
	case j.s == 0:
		return &Model{Space: space.Coordinates(j.dev, j.n, nil), Margin: j.margin}
	case j.q == 0:
		return &Model{Space: space.All(j.n), Margin: j.margin}
	}
	return &Model{Space: space.All(j.n), Curvature: &uniformCurvature{q: j.q, t: j.t, n: j.n}, Margin: j.margin}
}

func (j *diagonal) margins() func(v array.Batch) float64 {
	if j.kink == nil {
		return j.margin
	}
	kink := j.kink
	return func(v array.Batch) float64 {
		least := math.Inf(1)
		for j, x := range v.Read() {
			least = min(least, kink(j, x))
		}
		return least
	}
}
