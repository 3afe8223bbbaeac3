package solve

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/internal/banded"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/space"
)

// interior is the primal-dual interior point method with Mehrotra's predictor and corrector (Kim, Koh,
// Boyd and Gorinevsky, l1 trend filtering, 2009; Nocedal and Wright, Numerical Optimization, section
// 16.6) for a problem with r(K b) where A*A = c I, K is sparse and r a sum over coordinates,
//
//	r(z) = sum_i w_i |z_i| + q_i/2 z_i^2,    z_i >= 0 for some i.
//
// With z = m - n, m and n >= 0, and the multiplier u of K b = z the conditions are
//
//	c b - A* y + K* u = 0,   K b = m - n,   m (w + q z - u) = 0,   n (w + u) = 0,
//
// where n = 0 where z_i >= 0 and q_i = 0 elsewhere but with n = 0. The products are driven to 0 by Newton
// steps, each of which takes two solves with
//
//	[ c I  K* ]
//	[ K   -J  ],    J = m/(w - u) + n/(w + u),
//
// a matrix with a small band ([banded.Saddle]). Some 20 to 40 steps solve the problem whatever the
// condition of K is: gradient steps on the dual need as many as that condition, which for differences of
// order k of n numbers grows like n^(2k). The estimate is b, and z = prox_{eta r}(z + eta u) has
// exact zeros.
type interior struct {
	p      Problem
	c      float64 // A*A = c I
	k      space.Rows
	band   *banded.Saddle
	w      []float64
	oneWay []bool // z_i >= 0
}

// interiorSteps is the number of steps after which the method gives up.
const interiorSteps = 200

// sequence is the band of a problem with A*A = c I and differences of neighbours; nil where it is none.
func sequence(p Problem) *banded.Saddle {
	if p.K == nil || !(linops.StructureOf(p.A).Columns.Value > 0) {
		return nil
	}
	rows, ok := linops.Neighbours(p.K, banded.MostWidth)
	_, dim := p.A.Dims()
	if !ok || dim == 0 || len(rows.Indptr) < 2 {
		return nil
	}
	if band := banded.New(banded.Rows(rows), dim); band.Width() <= banded.MostWidth {
		return band
	}
	return nil
}

// interiorPoint reports that the method applies.
func interiorPoint(p Problem) bool {
	if p.K == nil || p.Loss != nil || prox.StructureOf(p.R).Sparse == nil || prox.StructureOf(p.R).Groups != nil {
		return false
	}
	q, _ := p.K.Dims()
	w, quadratic, _ := prox.StructureOf(p.R).Sparse(q)
	for i, v := range w {
		if math.IsInf(v, 1) || quadratic != nil && quadratic[i] != 0 {
			return false
		}
	}
	return sequence(p) != nil
}

func newInterior(ctx context.Context, p Problem, o Options) (Method, error) {
	p = p.withK()
	if !interiorPoint(p) {
		return nil, fmt.Errorf("solve: interior-point needs r(K b) with a sum r of |z_i| and z_i >= 0, a sparse K whose rows read neighbours, such as differences of a sequence, and A*A = c I; use dual, admm or primal-dual")
	}
	if o.Whole {
		return newDual(ctx, p, o) // whose iterations have a derivative
	}
	s := &interior{p: p, c: linops.StructureOf(p.A).Columns.Value, band: sequence(p)}
	s.k, _ = linops.RowsOf(p.K)
	s.weigh()
	return s, nil
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
		Norm2: s.c, Scratch: []int{q, q, q}, Steps: interiorSteps,
		Settled: func(w *Work) bool {
			r := w.Own.(*interiorRun)
			return r.stuck || r.products <= smallProduct*r.first
		},
		Argument: func(w *Work) array.Batch { return w.Scratch[0] },
		Dual:     func(w *Work) array.Batch { return w.Scratch[2] },
		Reweight: func(_ context.Context, r prox.Prox) (Method, error) {
			other := *s
			other.p.R = r
			if !interiorPoint(other.p) {
				return nil, fmt.Errorf("solve: interior-point needs finite weights")
			}
			other.weigh()
			return &other, nil
		},
		Choices: []Choice{{Part: "system", Chosen: fmt.Sprintf("a saddle point matrix with %d diagonals", 2*s.band.Width()+1), Reason: "K's rows read neighbours: its factors take time and memory in proportion to its size"}},
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
	fixu             []float64
	lu               banded.LU
	stuck            bool
	products, pieces float64 // the sum of the products and their number
	first, eta       float64 // their sum at the start; the step of the proximal operator
}

func (s *interior) newRun(y array.Batch) *interiorRun {
	q, dim := len(s.w), s.dim()
	vector := func(n int) []float64 { return make([]float64, n) }
	r := &interiorRun{b: vector(dim), u: vector(q), plus: newSide(q, 1), minus: newSide(q, -1), j: vector(q),
		rb: vector(dim), rz: vector(q), db: vector(dim), du: vector(q), work: vector(dim + q), fix: vector(dim), fixu: vector(q)}
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
	for i, v := range r.aty {
		r.b[i] = v / s.c
	}
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
		least = s.c * size
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

// residuals sets rb = c b - A* y + K* u and rz = K b - m + n.
func (s *interior) residuals(r *interiorRun) {
	for j := range r.rb {
		r.rb[j] = s.c*r.b[j] - r.aty[j]
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

// alongBand is the multiplier u of K b = 0 at the best fit, for a problem that interior points could
// solve; zero where there is none, or K's rows depend on each other.
func alongBand(p Problem, y array.Batch) array.Batch {
	band := sequence(p)
	if band == nil || p.Loss != nil {
		return array.Batch{}
	}
	q, dim := p.K.Dims()
	var lu banded.LU
	if !band.Factorize(&lu, linops.StructureOf(p.A).Columns.Value, make([]float64, q)) || lu.Least < banded.LeastPivot {
		return array.Batch{}
	}
	aty := p.Device.Alloc(1, dim)
	defer aty.Free()
	p.A.Adjoint(aty, y)
	host := make([]float64, q)
	lu.Solve(aty.ToHost(), host, make([]float64, dim+q))
	u := p.Device.Alloc(1, q)
	p.Device.Upload(u, host)
	return u
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

// Reverse is not offered: another method's iterations are differentiated.
func (s *interior) Reverse(context.Context, array.Batch, *Adjoint, prox.Derivative) error {
	return fmt.Errorf("solve: the steps of interior-point have no derivative")
}
