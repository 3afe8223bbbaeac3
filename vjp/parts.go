package vjp

import (
	"context"
	"math"
	"slices"
	"sync/atomic"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/lowrank"
	"surepipe/vjp/system"
)

// parts solves a completion on the rows and columns of the matrix that occur, and each of their connected parts by
// itself ([lowrank.Connected]).
type parts struct {
	*lowrank.Connected
	p       Problem
	o       Options
	make    func(p Problem) (Solver, error)
	solvers []Solver
	// from is where the entries of each part begin in the order of the parts, and of the whole after the last;
	// order is that order, nil where it is that of y.
	from  []int
	order array.Index
	free  []func()
}

// newParts is the solver of a problem with parts; make makes those of the parts.
func newParts(p Problem, o Options, c *lowrank.Connected, make func(p Problem) (Solver, error)) (_ Solver, err error) {
	s := &parts{Connected: c, p: p, o: o, make: make, from: []int{0}}
	defer func() {
		if err != nil {
			s.Release()
		}
	}()
	var order []int
	for k := range c.Parts {
		own, release, err := c.Problem(k)
		if err != nil {
			return nil, err
		}
		s.free = append(s.free, release)
		solver, err := make(own)
		if err != nil {
			return nil, err
		}
		s.solvers = append(s.solvers, solver)
		order = append(order, c.Parts[k].Entries...)
		s.from = append(s.from, len(order))
	}
	if !slices.IsSorted(order) {
		index := p.Device.NewIndex(order)
		s.order, s.free = index, append(s.free, index.Free)
	}
	return s, p.Device.Err()
}

func (s *parts) Name() string     { return s.solvers[0].Name() }
func (s *parts) Problem() Problem { return s.p }

func (s *parts) Release() {
	for _, solver := range s.solvers {
		solver.Release()
	}
	for _, free := range s.free {
		free()
	}
}

func (s *parts) Reweight(ctx context.Context, r prox.Prox) (Solver, error) {
	p := s.p
	p.R = r
	if !prox.StructureOf(r).Nuclear.Known {
		return s.make(p)
	}
	again := *s
	again.p, again.solvers, again.free = p, nil, nil
	for k, solver := range s.solvers {
		one, err := solver.Reweight(ctx, s.Regularizer(r, k))
		if err != nil {
			again.Release()
			return nil, err
		}
		again.solvers = append(again.solvers, one)
	}
	return &again, nil
}

func (s *parts) Again(ctx context.Context, p Problem) (Solver, error) {
	return s.solvers[0].Again(ctx, p)
}

func (s *parts) Solve(ctx context.Context, y array.Batch) (*Solution, error) {
	return s.SolveFrom(ctx, y, From{})
}

func (s *parts) SolveFrom(ctx context.Context, y array.Batch, from From) (*Solution, error) {
	run := &partsRun{parts: s, y: s.ordered(y)}
	done := false
	defer func() {
		if !done { // also where A or the regularizer panics
			run.holders.Store(1)
			run.release()
		}
	}()
	var start []float64
	if from.Factors == nil && !from.B.IsZero() {
		start = from.B.ToHost()
	}
	paths := from.Path.Parts(len(s.solvers))
	for k, solver := range s.solvers {
		own := From{Path: paths[k], Factors: from.Factors.Part(k, len(s.solvers))}
		if start != nil {
			own.B = y.Device().Put(s.Take(start, k), 1, s.Parts[k].Shape().Len())
		}
		sol, err := solver.SolveFrom(ctx, run.part(run.y, k), own)
		own.B.Free()
		if err != nil {
			return nil, err
		}
		run.sols = append(run.sols, sol)
	}
	sol, err := run.join()
	done = err == nil
	return sol, err
}

func (s *parts) ordered(v array.Batch) array.Batch {
	dev := v.Device()
	out := dev.Alloc(v.K(), v.N())
	if s.order == nil {
		dev.Copy(out, v)
	} else {
		dev.Gather(out, v, s.order)
	}
	return out
}

func (s *parts) reorder(dst, v array.Batch) {
	if s.order == nil {
		dst.Device().Copy(dst, v)
	} else {
		dst.Device().Scatter(dst, v, s.order)
	}
}

// partsRun holds the solutions of the parts, and y in their order, for the solution and its linearization.
type partsRun struct {
	*parts
	y       array.Batch
	sols    []*Solution
	holders atomic.Int32
}

func (r *partsRun) part(v array.Batch, k int) array.Batch { return v.Cols(r.from[k], r.from[k+1]) }

func (r *partsRun) release() {
	if r.holders.Add(-1) > 0 {
		return
	}
	for _, sol := range r.sols {
		sol.Release()
	}
	r.y.Free()
}

func (r *partsRun) join() (*Solution, error) {
	dev, d := r.y.Device(), r.y.N()
	_, p := r.p.A.Dims()
	var whole []float64 // b, where it is to be written down
	if !r.o.Compact && p <= solve.MostWritten {
		whole = make([]float64, p)
	}
	n := len(r.sols)
	factors, residuals, convergence := make([]func() *Factors, n), make([]float64, n), make([]Convergence, n)
	inOrder, misfit := dev.Alloc(1, d), dev.Alloc(1, d)
	defer array.Free(inOrder, misfit)
	for k, sol := range r.sols {
		mu := r.part(inOrder, k)
		f, err := r.estimate(mu, whole, k)
		if err != nil {
			return nil, err
		}
		rest := r.part(misfit, k)
		dev.Lin(rest, 1, r.part(r.y, k), -1, mu)
		factors[k], residuals[k], convergence[k] = f, solve.Norm(rest), sol.Convergence
	}
	out := &Solution{Convergence: r.Convergence(convergence, residuals, r.o.Sigma2),
		Choices: append([]Choice{r.Choice}, r.sols[r.largest()].Choices...)}
	mu := dev.Alloc(1, d)
	r.reorder(mu, inOrder)
	if r.sols[0].Linearization != nil {
		out.Linearization = r.linearize()
	}
	if r.holders.Add(1); whole == nil {
		out.Implied = r.Join(factors, mu, floats.Dot(residuals, residuals), r.release)
		return out, dev.Err()
	}
	out.B, out.MuHat = dev.Alloc(1, p), mu
	dev.Upload(out.B, whole)
	r.release()
	return out, dev.Err()
}

// largest is the part with the most entries, whose choices are those of the whole.
func (r *partsRun) largest() (most int) {
	for k := range r.sols {
		if r.from[k+1]-r.from[k] > r.from[most+1]-r.from[most] {
			most = k
		}
	}
	return most
}

// estimate sets mu to that of the k-th part and writes b down in whole, or where that is nil returns its factors.
func (r *partsRun) estimate(mu array.Batch, whole []float64, k int) (func() *Factors, error) {
	sol, dev := r.sols[k], mu.Device()
	if low := sol.Implied; low != nil && low.Factors != nil {
		host := make([]float64, mu.N())
		low.MuHat(host, 0)
		dev.Upload(mu, host)
		return low.Factors, nil
	}
	dev.Copy(mu, sol.MuHat)
	b := sol.B.ToHost()
	if whole != nil {
		r.Place(whole, b, k)
		return nil, nil
	}
	f, err := solve.FactorsOf(b, r.Parts[k].Shape())
	return func() *Factors { return f }, err
}

func (r *partsRun) linearize() *linearization {
	r.holders.Add(1)
	b := &blocks{partsRun: r}
	for _, sol := range r.sols {
		b.of = append(b.of, sol.Linearization.(*linearization))
	}
	l := newLinearization(b.of[0].kind, r.p.A, b)
	l.tol = system.Tolerance(r.o.Tol)
	for _, part := range b.of {
		l.iterative, l.together = l.iterative || part.iterative, max(l.together, part.together)
	}
	return l
}

// blocks are a block-diagonal derivative.
type blocks struct {
	system.Base
	*partsRun
	of []*linearization
}

// Apply puts together what the parts set. left sums up.
func (b *blocks) Apply(ctx context.Context, dst, w array.Batch, goal system.Goal, left []float64) error {
	if len(b.of) == 1 {
		return b.of[0].solve(ctx, dst, w, goal, left)
	}
	dev := w.Device()
	sorted, images := b.ordered(w), dev.Alloc(w.K(), w.N())
	defer array.Free(sorted, images)
	own := make([]float64, len(left))
	clear(left)
	for k, part := range b.of {
		// Contiguous, as kernels are made for.
		x, image := dev.Alloc(w.K(), part.d), dev.Alloc(w.K(), part.d)
		dev.Copy(x, b.part(sorted, k))
		// left_i <= share ||v_i||^2/sqrt(2d) for the sum, of which the part is to have its own.
		of := goal
		of.Form *= math.Sqrt(float64(part.d) / float64(w.N()))
		err := part.solve(ctx, image, x, of, own)
		dev.Copy(b.part(images, k), image)
		array.Free(x, image)
		if err != nil {
			return err
		}
		floats.Add(left, own)
	}
	b.reorder(dst, images)
	return dev.Err()
}

func (b *blocks) Moments() hutch.Moments {
	if len(b.of) == 1 {
		return b.of[0].Moments()
	}
	return hutch.Moments{}
}

func (b *blocks) Closed() Closed {
	sum := Closed{Known: true, Margin: math.Inf(1), SpaceMargin: math.Inf(1), Neighbours: true}
	all, diagonal := make([]Closed, len(b.of)), true
	for k, part := range b.of {
		c := part.Closed()
		all[k] = c
		sum.Known, sum.Neighbours = sum.Known && c.Known, sum.Neighbours && c.Neighbours
		diagonal = diagonal && c.Diagonal != nil
		sum.Trace, sum.Frobenius2 = sum.Trace+c.Trace, sum.Frobenius2+c.Frobenius2
		sum.Low, sum.High = sum.Low+c.Low, sum.High+c.High
		sum.Margin, sum.SpaceMargin = min(sum.Margin, c.Margin), min(sum.SpaceMargin, c.SpaceMargin)
		sum.DiagonalFlops += c.DiagonalFlops
	}
	if !sum.Known {
		sum.Trace, sum.Frobenius2, sum.Low, sum.High, sum.Margin = 0, 0, 0, 0, 0
	}
	if diagonal {
		sum.Diagonal = func() ([]float64, error) {
			out := make([]float64, b.y.N())
			for k, c := range all {
				part, err := c.Diagonal()
				if err != nil {
					return nil, err
				}
				for i, e := range b.Parts[k].Entries {
					out[e] = part[i]
				}
			}
			return out, nil
		}
	}
	if slices.ContainsFunc(all, func(c Closed) bool { return c.Control != nil }) {
		sum.Control = func(signs, image array.Batch) { b.control(all, signs, image) }
	}
	return sum
}

// control improves images part by part, where a part can.
func (b *blocks) control(all []Closed, signs, image array.Batch) {
	dev := signs.Device()
	sorted, images := b.ordered(signs), b.ordered(image)
	defer array.Free(sorted, images)
	for k, c := range all {
		if c.Control == nil {
			continue
		}
		own, improved := dev.Alloc(signs.K(), b.of[k].d), dev.Alloc(signs.K(), b.of[k].d)
		dev.Copy(own, b.part(sorted, k))
		dev.Copy(improved, b.part(images, k))
		c.Control(own, improved)
		dev.Copy(b.part(images, k), improved)
		array.Free(own, improved)
	}
	b.reorder(image, images)
}

func (b *blocks) Steps() (most, failed int) {
	for _, part := range b.of {
		steps, short := part.Steps()
		most, failed = max(most, steps), failed+short
	}
	return most, failed
}

func (b *blocks) Bytes() int64 {
	bytes := b.y.Bytes()
	for _, part := range b.of {
		bytes += part.Bytes()
	}
	return bytes
}

// ProbeBytes are those of one part at a time, and a probe and its image in the order of the parts.
func (b *blocks) ProbeBytes() (most int64) {
	for _, part := range b.of {
		most = max(most, part.ProbeBytes())
	}
	if len(b.of) > 1 {
		most += 4 * 8 * int64(b.y.N())
	}
	return most
}

func (b *blocks) Release() { b.release() }
