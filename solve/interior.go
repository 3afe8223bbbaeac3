package solve

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/space"
)

// interior is the primal-dual interior point method with Mehrotra's predictor and corrector (Kim, Koh,
// Boyd and Gorinevsky, l1 trend filtering, 2009; Nocedal and Wright, Numerical Optimization, section
// 16.6) for a problem with r(K b) where r is a sum over coordinates,
//
//	r(z) = sum_i w_i |z_i|,    z_i >= 0 for some i.
//
// With z = m - n, m and n >= 0, and the multiplier u of K b = z the conditions are
//
//	A*A b - A* y + K* u = 0,   K b = m - n,   m (w - u) = 0,   n (w + u) = 0,
//
// where n_i = 0 where z_i >= 0. The products are driven to 0 by Newton
// steps, each of which takes two solves with
//
//	[ A*A  K* ]
//	[ K    -J ],    J = m/(w - u) + n/(w + u),
//
// which has a small band where A*A = c I and K takes differences of neighbours ([banded.Saddle]), and else is
// factorized as a dense matrix. Some 10 to 30 steps solve the problem whatever the condition of A and K
// is: gradient steps on the dual need as many as that condition, which for differences of order k of n
// numbers grows like n^(2k). The estimate is b, and z = prox_{eta r}(z + eta u) has exact zeros.
type interior struct {
	p      Problem
	norm2  float64 // of A, at most
	k      space.Rows
	system saddleSystem
	w      []float64
	oneWay []bool // z_i >= 0
}

// interiorSteps is the number of steps after which the method gives up.
const interiorSteps = 200

// interiorPoint reports that the method applies, with a banded matrix.
func interiorPoint(p Problem) bool { return polyhedral(p) && sequence(p) != nil }

// smallInterior reports that it applies with a small dense one.
func smallInterior(p Problem) bool { return polyhedral(p) && smallSaddle(p) }

// polyhedral reports that r(K b) is a sum of w_i |z_i| and z_i >= 0, with finite weights.
func polyhedral(p Problem) bool {
	if p.K == nil || p.Loss != nil && !loss.Quadratic(p.Loss) || prox.StructureOf(p.R).Sparse == nil || prox.StructureOf(p.R).Groups != nil {
		return false
	}
	q, _ := p.K.Dims()
	w, quadratic, _ := prox.StructureOf(p.R).Sparse(q)
	some := false
	for i, v := range w {
		if math.IsInf(v, 1) || quadratic != nil && quadratic[i] != 0 {
			return false
		}
		some = some || v > 0
	}
	return some || w == nil
}

func newInterior(ctx context.Context, p Problem, o Options) (Method, error) {
	p = p.withK()
	if o.Whole { // a method whose iterations have a derivative
		if linops.StructureOf(p.A).Columns.Value > 0 {
			return newDual(ctx, p, o)
		}
		return newAlternating(ctx, p, o)
	}
	s := &interior{p: p}
	if polyhedral(p) {
		if err := s.prepare(ctx); err != nil {
			return nil, err
		}
	}
	if s.system == nil {
		return nil, fmt.Errorf("solve: interior-point needs r(K b) with a sum r of w |z_i| and z_i >= 0, and a sparse K whose rows read neighbours, such as differences of a sequence, with A*A = c I; or at most %d rows and columns of K together; use dual, admm or primal-dual", mostSaddle)
	}
	s.weigh()
	return s, nil
}

// prepare makes the system, unless there is none.
func (s *interior) prepare(ctx context.Context) (err error) {
	if band := sequence(s.p); band != nil {
		s.norm2 = linops.StructureOf(s.p.A).Columns.Value
		s.k, _ = linops.RowsOf(s.p.K)
		s.system = &bandedSystem{band: band, c: s.norm2}
		return nil
	}
	if !smallSaddle(s.p) {
		return nil
	}
	if s.norm2, err = normBound(ctx, s.p); err != nil {
		return err
	}
	s.system, s.k = newDenseSystem(s.p)
	return s.p.Device.Err()
}

// weigh reads the weights of r.
func (s *interior) weigh() {
	q := len(s.k.Indptr) - 1
	w, _, positive := prox.StructureOf(s.p.R).Sparse(q)
	s.w, s.oneWay = make([]float64, q), make([]bool, q)
	copy(s.w, w)
	copy(s.oneWay, positive)
}

// Name is "interior-point".
func (s *interior) Name() string { return "interior-point" }

// Problem is the problem that it solves.
func (s *interior) Problem() Problem { return s.p }

// Release does nothing.
func (s *interior) Release() {}

// Traits gives as scratch the argument of the proximal operator, its value and the multiplier.
func (s *interior) Traits() Traits {
	q := len(s.w)
	return Traits{
		Norm2: s.norm2, Scratch: []int{q, q, q}, Steps: interiorSteps,
		Settled: func(w *Work) bool {
			r := w.Own.(*interiorRun)
			return r.stuck || r.products <= smallProduct*r.first
		},
		Argument: func(w *Work) array.Batch { return w.Scratch[0] },
		Dual:     func(w *Work) array.Batch { return w.Scratch[2] },
		Reweight: func(_ context.Context, r prox.Prox) (Method, error) {
			other := *s
			other.p.R = r
			if !polyhedral(other.p) {
				return nil, fmt.Errorf("solve: interior-point needs finite weights")
			}
			other.weigh()
			return &other, nil
		},
		Choices: []Choice{s.system.choice()},
	}
}

// side is one of the two inequalities of every coordinate: x >= 0 with the multiplier s.
type side struct {
	x, s, dx, ds, rest []float64
	sign               float64 // of x in z, and of -u in s
}

func newSide(q int, sign float64) *side {
	return &side{make([]float64, q), make([]float64, q), make([]float64, q), make([]float64, q), make([]float64, q), sign}
}

// interiorRun is one solve.
type interiorRun struct {
	b, u, aty        []float64
	plus, minus      *side
	j, rb, rz, db    []float64
	du, work, fix    []float64
	fixu, normal     []float64
	factor           saddleFactor
	stuck            bool
	products, pieces float64 // the sum of the products and their number
	first, last, eta float64 // their sum at the start, and at the last step that made it less; the step of the proximal operator
	slow             int     // steps since then
}

func (s *interior) newRun(y array.Batch) *interiorRun {
	q, dim := len(s.w), s.dim()
	vector := func(n int) []float64 { return make([]float64, n) }
	r := &interiorRun{b: vector(dim), u: vector(q), plus: newSide(q, 1), minus: newSide(q, -1), j: vector(q),
		rb: vector(dim), rz: vector(q), db: vector(dim), du: vector(q), work: vector(dim + q), fix: vector(dim), fixu: vector(q), normal: vector(dim), factor: s.system.factor()}
	aty := y.Device().Alloc(1, dim)
	defer aty.Free()
	s.p.A.Adjoint(aty, y)
	r.aty = aty.ToHost()
	return r
}

func (s *interior) dim() int {
	_, dim := s.p.A.Dims()
	return dim
}

// each calls f for the inequalities.
func (s *interior) each(r *interiorRun, f func(v *side, i int)) {
	for i := range s.w {
		f(r.plus, i)
		if !s.oneWay[i] {
			f(r.minus, i)
		}
	}
}

// Init starts at the unpenalized fit, with a multiplier of 0 and all inequalities about as far from
// equality as K b is large. Where it starts matters little.
func (s *interior) Init(w *Work, _ array.Batch) error {
	r := s.newRun(w.Y)
	s.system.start(r.b, r.aty)
	s.residuals(r)
	size := 0.0
	for _, v := range r.rz {
		size += math.Abs(v) / float64(len(r.rz))
	}
	least := 0.0
	for _, v := range s.w {
		least += v / float64(len(s.w))
	}
	if !(size > 0) {
		size = 1
	}
	if !(least > 0) {
		least = math.Max(s.norm2, math.SmallestNonzeroFloat64) * size
	}
	s.each(r, func(v *side, i int) {
		v.x[i] = math.Max(v.sign*r.rz[i], 0) + size
		v.s[i] = s.w[i] + 0.01*least
	})
	w.Own = r
	// About the ratio of z and u where the noise decides.
	r.eta = size / least
	w.C = Coefficients{Eta: r.eta}
	return w.Device().Err()
}

// residuals sets rb = A*A b - A* y + K* u and rz = K b - m + n.
func (s *interior) residuals(r *interiorRun) {
	s.system.normal(r.rb, r.b)
	for j, v := range r.aty {
		r.rb[j] -= v
	}
	for i := range r.rz {
		v := r.minus.x[i] - r.plus.x[i]
		for t := s.k.Indptr[i]; t < s.k.Indptr[i+1]; t++ {
			v += s.k.Values[t] * r.b[s.k.Indices[t]]
			r.rb[s.k.Indices[t]] += s.k.Values[t] * r.u[i]
		}
		r.rz[i] = v
	}
}

// Step takes a step of the method.
func (s *interior) Step(ctx context.Context, w *Work, record bool) (prox.Derivative, error) {
	r := w.Own.(*interiorRun)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !r.stuck {
		s.advance(r)
	}
	dev := w.Device()
	dev.Upload(w.B, r.b)
	dev.Upload(w.Scratch[2], r.u)
	for i := range r.u {
		r.work[i] = r.plus.x[i] - r.minus.x[i] + w.C.Eta*r.u[i]
	}
	dev.Upload(w.Scratch[0], r.work[:len(r.u)])
	return w.Prox(ctx, s.p.R, w.Scratch[1], w.Scratch[0], record)
}

// Measure lets the duality gap decide.
func (s *interior) Measure(w *Work) (float64, Coefficients) {
	return 0, Coefficients{Eta: w.Own.(*interiorRun).eta}
}

// recorded is the method whose iterations have a derivative.
func (s *interior) recorded(ctx context.Context, o Options) (Method, error) {
	o.Whole = true
	return newInterior(ctx, s.p, o)
}

// Reverse is not offered: another method's iterations are differentiated.
func (s *interior) Reverse(context.Context, array.Batch, *Adjoint, prox.Derivative) error {
	return fmt.Errorf("solve: the steps of interior-point have no derivative")
}
