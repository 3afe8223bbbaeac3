package interior

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/internal/parallel"
	"surepipe/prox"
	"surepipe/solve/engine"
	"surepipe/space"
)

// shortOfEdge is the share of the way to the nearest inequality that a step takes at most.
const shortOfEdge = 0.995

// The size of the products, relative to the first, at which the zeros of K b are told from other
// entries, and beyond which nothing is gained, and the share of the right-hand side of a Newton step that may be left.
var (
	productsWith = smallness{told: 1e-20, end: 1e-26, left: 1e-8}
	// Where the multiplier is eliminated digits are lost, and a step that makes good for what the one before has left
	// costs less than a second solve with a large factor.
	productsWithout = smallness{told: 1e-9, end: 1e-12, left: 1e-5}
	// Iterations leave what they are allowed to ([leftOver]).
	productsIterated = smallness{told: 1e-9, end: 1e-12, left: math.Inf(1), near: true}
)

// leastEnd is the part of the gap by K b - z, relative to the first products, beyond which there are rounding errors.
const leastEnd = 1e-12

type smallness struct {
	told, end, left float64
	near            bool    // steps start near an estimate, where one is known
	most            float64 // of the products that then tell the zeros of K b; 0 for told
}

// Where steps start near an estimate K b - z is small from the beginning, and larger products tell the zeros of K b: a
// share nearTold of the tolerance, up to the most.
const nearTold = 0.3

// leastShare is the share of the mean of the products that each has at least. Far below it a pair would stay at an
// edge, and no step leads on; larger shares would blur which entries of K b are 0.
const leastShare = 1e-8

// mostTarget is the largest share of the products that a step aims at.
const mostTarget = 0.3

// A step by iterations may leave leftOver of the products in the duality gap, by what it leaves of A*A b - A* y + K* u,
// or sharesLeft as often those that are predicted, and a direction that only predicts forPrediction times that.
const (
	leftOver      = 4
	sharesLeft    = 5
	forPrediction = 20
)

const (
	// mostSlow is the number of steps in a row that may leave nine tenths of the products, nearSlow where iterations
	// solve for a step, and lateSlow where these are so small already that rounding errors are the reason: below the
	// root of what tells the zeros of K b.
	mostSlow = 40
	nearSlow = 12
	lateSlow = 8
)

type interiorRun struct {
	b, u, aty        []float64
	pairs            inequalities
	j                scaling
	rb, rz, db, du   []float64
	work, fix, fixu  []float64
	normal           []float64
	factor           saddleFactor
	stuck            bool
	near             bool    // the steps started near an estimate
	products, pieces float64 // the sum of the products and their number
	// their sum at the start, at the last step that made it less, and where the zeros of K b are told
	first, last, told float64
	eta               float64 // the step of the proximal operator
	slow              int     // steps since then
}

func (s *interior) newRun(y array.Batch) *interiorRun {
	q, dim := len(s.k.Indptr)-1, s.dim()
	vector := func(n int) []float64 { return make([]float64, n) }
	r := &interiorRun{b: vector(dim), u: vector(q), pairs: s.conditions.new(), j: scaling{diag: vector(q)},
		rb: vector(dim), rz: vector(q), db: vector(dim), du: vector(q), work: vector(dim + q), fix: vector(dim),
		fixu: vector(q), normal: vector(dim), factor: s.system.factor()}
	aty := y.Device().Alloc(1, dim)
	defer aty.Free()
	s.P.A.Adjoint(aty, y)
	r.aty = aty.ToHost()
	return r
}

func (s *interior) dim() int {
	_, dim := s.P.A.Dims()
	return dim
}

// Init starts at the unpenalized fit, or near it, with a multiplier of 0 and all inequalities about as far from
// equality as K b is large, where it does not go on from a solve before. A small matrix is factorized so fast that
// it matters little where it starts; with a large one it starts at an estimate with its multiplier, if both are known,
// and anew where that leads nowhere.
func (s *interior) Init(w *engine.Work, b0 array.Batch) error {
	if before, ok := w.Kept.(*interiorRun); ok {
		before.factor = s.system.factor()
		w.Own, w.C = before, engine.Coefficients{Eta: before.eta}
		return w.Device().Err()
	}
	r := s.newRun(w.Y)
	var u []float64
	if s.system.small().near && !w.Dual.IsZero() && !b0.IsZero() {
		copy(r.b, b0.ToHost())
		u = w.Dual.ToHost()
	}
	s.begin(w, r, u)
	return w.Device().Err()
}

// begin starts at b with a multiplier that is known, and else far from all inequalities.
func (s *interior) begin(w *engine.Work, r *interiorRun, u []float64) {
	clear(r.u)
	if r.near, r.stuck, r.slow, r.last = u != nil, false, 0, 0; !r.near {
		s.system.start(r.b, r.aty)
	}
	s.residuals(r)
	size := 0.0
	for _, v := range r.rz {
		size += math.Abs(v) / float64(len(r.rz))
	}
	if !(size > 0) {
		size = 1
	}
	weight := s.conditions.mean()
	if !(weight > 0) {
		weight = math.Max(s.norm2, math.SmallestNonzeroFloat64) * size
	}
	r.pairs.start(r.rz, size, weight)
	r.first, _ = r.pairs.products()
	r.told = s.system.small().told * r.first
	if r.near {
		r.told = math.Max(r.told, math.Min(nearTold*s.tol, s.system.small().most)*r.first)
		copy(r.u, u)
		r.pairs.center(r.rz, r.u, size, weight)
	}
	r.products, r.pieces = r.pairs.products()
	w.Own = r
	// About the ratio of z and u where the noise decides.
	r.eta = size / weight
	w.C = engine.Coefficients{Eta: r.eta}
}

// residuals sets rb = A*A b - A* y + K* u and rz = K b - z.
func (s *interior) residuals(r *interiorRun) {
	s.system.normal(r.rb, r.b)
	addScaled(r.rb, -1, r.aty)
	clear(r.rz)
	s.couple(1, r.rb, r.rz, r.b, r.u)
	r.pairs.image(r.rz, r.u)
}

// couple adds sign times K* u to g, and sign times K b to z.
func (s *interior) couple(sign float64, g, z, b, u []float64) {
	addProduct(z, s.k, sign, b)
	addProduct(g, s.adjoint, sign, u)
}

// addProduct adds times m x to dst.
func addProduct(dst []float64, m space.Rows, times float64, x []float64) {
	parallel.Ranges(len(dst), parallel.Share, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			sum := 0.0
			for t := m.Indptr[i]; t < m.Indptr[i+1]; t++ {
				sum += m.Values[t] * x[m.Indices[t]]
			}
			dst[i] += times * sum
		}
	})
}

func (s *interior) Step(ctx context.Context, w *engine.Work, record bool) (prox.Derivative, error) {
	r := w.Own.(*interiorRun)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.j.ctx = ctx; !r.stuck {
		// Where regions are large rounding errors decide whether steps from near lead on.
		if s.advance(r); r.stuck && r.near && s.system.small().most > 0 {
			s.begin(w, r, nil)
		}
	}
	dev := w.Device()
	dev.Upload(w.B, r.b)
	dev.Upload(w.Scratch[2], r.u)
	at := r.work[:len(r.u)] // K b + eta u
	scaled(at, w.C.Eta, r.u)
	addProduct(at, s.k, 1, r.b)
	dev.Upload(w.Scratch[0], at)
	return w.Prox(ctx, s.P.R, w.Scratch[1], w.Scratch[0], record)
}

// advance takes a step with Mehrotra's predictor and corrector.
func (s *interior) advance(r *interiorRun) {
	s.residuals(r)
	if r.slow++; r.products < 0.9*r.last || r.last == 0 {
		r.slow, r.last = 0, r.products
	}
	small, slow := s.system.small(), mostSlow
	if small.near {
		slow = nearSlow
	}
	if r.products <= math.Sqrt(r.told*r.first) {
		slow = lateSlow
	}
	missing := math.Abs(floats.Dot(r.u, r.rz)) // in the duality gap, by K b - z
	if r.products <= small.end*r.first && missing <= max(small.end, leastEnd)*r.first || r.slow > slow {
		r.stuck = true // as near as numbers come
		return
	}
	r.pairs.scale(&r.j, r.u)
	allowed := leftOver * r.products / math.Max(floats.Norm(r.b, 2), floats.Norm(r.aty, 2)/s.norm2)
	r.j.allowed = forPrediction * allowed
	if !r.factor.factorize(&r.j) {
		r.stuck = true
		return
	}
	r.pairs.predict()
	s.direction(r)
	before := r.products
	near := r.pairs.reach(0)
	share := r.pairs.after(near) / before
	r.j.allowed = math.Min(1, sharesLeft*share) * allowed
	r.pairs.correct(r.du, math.Min(share*share*share, mostTarget)*before/r.pieces)
	s.direction(r)
	s.move(r, r.pairs.reach(1-shortOfEdge))
}

// direction solves for a Newton step, with one step of iterative refinement where that is needed.
func (s *interior) direction(r *interiorRun) {
	scaled(r.db, -1, r.rb)
	scaled(r.du, -1, r.rz)
	r.pairs.toRight(r.du, r.u)
	scaled(r.fix, 1, r.db)
	scaled(r.fixu, 1, r.du)
	r.factor.solve(r.db, r.du, r.work)
	s.system.normal(r.normal, r.db)
	left := s.system.small().left
	allowed, allowedU := left*largest(r.normal, r.fix), left*largest(r.fixu)
	addScaled(r.fix, -1, r.normal)
	s.couple(-1, r.fix, r.fixu, r.db, r.du)
	r.j.add(r.fixu, r.du)
	if !(largest(r.fix) <= allowed && largest(r.fixu) <= allowedU) {
		r.factor.solve(r.fix, r.fixu, r.work)
		floats.Add(r.db, r.fix)
		floats.Add(r.du, r.fixu)
	}
	r.pairs.recover(r.u, r.du)
}

// largest is the largest |x_i|, and not a number where one is none.
func largest(vectors ...[]float64) (most float64) {
	for _, x := range vectors {
		most = larger(most, parallel.Shares(len(x), func(lo, hi int) float64 { return larger(0, x[lo:hi]) }))
	}
	return most
}

func larger(most float64, x []float64) float64 {
	for _, v := range x {
		if v = math.Abs(v); v > most || v != v {
			most = v
		}
	}
	return most
}

// scaled sets dst = c x, and addScaled dst += c x, on all processors.
func scaled(dst []float64, c float64, x []float64) {
	parallel.Ranges(len(x), parallel.Share, func(lo, hi int) { floats.ScaleTo(dst[lo:hi], c, x[lo:hi]) })
}

func addScaled(dst []float64, c float64, x []float64) {
	parallel.Ranges(len(x), parallel.Share, func(lo, hi int) { floats.AddScaled(dst[lo:hi], c, x[lo:hi]) })
}

// move takes the step, unless it is not finite or leads nowhere.
func (s *interior) move(r *interiorRun, step float64) {
	if !(largest(r.db) < math.Inf(1)) || !(step > 1e-12) {
		r.stuck = true
		return
	}
	addScaled(r.b, step, r.db)
	addScaled(r.u, step, r.du)
	r.pairs.move(r.u, step)
	r.products, r.pieces = r.pairs.products()
	r.pairs.keep(r.u, leastShare*r.products/r.pieces, r.eta)
}
