package pipeline

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/risk/warning"
	"surepipe/vjp"
)

const (
	// checkProbes is the number of probes that are repeated with a larger step.
	checkProbes = 8
	// mostJump is the factor by which the squared norm of differences may fall with the larger step:
	// that of a jump falls by CheckFactor.
	mostJump = 3
)

// monteCarlo is the estimate by differences: a pipeline whose solver evaluates the black box.
func (e *evaluations) monteCarlo(ctx context.Context, o Options) (Risk, error) {
	if err := checkStep(e.box.Step(e.y, o.Sigma2), e.y); err != nil {
		return Risk{}, err
	}
	dev := array.Device(array.NewHost())
	if c := o.compare; c != nil {
		dev = c.Projection.Device()
	}
	s := &blackSolver{evaluations: e, dev: dev, eps: e.box.Step(e.y, o.Sigma2), seed: o.Seed}
	o.Parallel, o.Observe, o.Logger = 1, nil, nil
	p, err := New(s, o)
	if err != nil {
		return Risk{}, err
	}
	r, err := p.estimate(ctx, e.sample, e.y)
	if err != nil {
		if ctx.Err() != nil {
			return Risk{}, ctx.Err()
		}
		return Risk{}, own(err)
	}
	// The derivative of a convex program has a plausible trace; this derivative may be any matrix.
	r.Implausible = false
	r.Convergence.Error = math.NaN()
	if sigma := math.Sqrt(o.Sigma2); sigma > 0 && s.eps > sigma {
		r.Doubts = append(r.Doubts, warning.LargeStep.With(
			"the step of the differences, eps = %.3g, is above the noise, sigma = %.3g: what bends within the "+
				"noise does not show in them, and SURE from them is not reliable; expected about %g sigma = %.3g",
			s.eps, sigma, DefaultStep, DefaultStep*sigma))
	}
	return r, s.doubt(ctx, &r)
}

// Step is the step of the differences of MonteCarlo at y, with sigma2 or 0 where it is not known: Eps
// or its default.
func (b *BlackBox) Step(y []float64, sigma2 float64) float64 {
	switch {
	case b.Eps > 0:
		return b.Eps
	case sigma2 > 0:
		return DefaultStep * math.Sqrt(sigma2)
	}
	if sd := stat.PopStdDev(y, nil); sd > 0 {
		return DefaultStep * sd
	}
	return DefaultStep
}

// blackSolver is a black box as a solver: its estimate is the value, and its derivative the
// differences. All of it is on the host.
type blackSolver struct {
	*evaluations
	dev  array.Device
	eps  float64
	seed uint64

	mu   sync.Mutex
	last *secants
}

func (s *blackSolver) Name() string { return s.box.Name }

func (s *blackSolver) Problem() vjp.Problem {
	return vjp.Problem{A: linops.Identity(s.box.D), Device: s.dev}
}

func (s *blackSolver) Solve(ctx context.Context, y array.Batch) (*vjp.Solution, error) {
	value, err := s.at(ctx, y.ToHost())
	if err != nil {
		return nil, err
	}
	dev := y.Device()
	b, mu := dev.Alloc(1, len(value)), dev.Alloc(1, len(value))
	dev.Upload(b, value)
	dev.Upload(mu, value)
	l := &secants{solver: s, value: value, known: map[int][2]float64{}}
	l.Plain = vjp.Plain{Images: l.VJP}
	s.mu.Lock()
	s.last = l
	s.mu.Unlock()
	return &vjp.Solution{B: b, MuHat: mu, Convergence: vjp.Convergence{Converged: true, Closed: true,
		Error: math.NaN()}, Linearization: l}, nil
}

func (s *blackSolver) SolveFrom(ctx context.Context, y array.Batch, _ vjp.From) (*vjp.Solution, error) {
	return s.Solve(ctx, y)
}

// Reweight is an error: every call of the black box has its weights.
func (s *blackSolver) Reweight(context.Context, prox.Prox) (vjp.Solver, error) {
	return nil, errors.New("pipeline: a black box has no regularizer")
}

// Again is an error: a black box has no other problem.
func (s *blackSolver) Again(context.Context, vjp.Problem) (vjp.Solver, error) {
	return nil, errors.New("pipeline: a black box has no other problem")
}

func (s *blackSolver) Release() {}

// secants are the differences of the black box from its value at y, as a matrix.
type secants struct {
	vjp.Plain
	solver *blackSolver
	value  []float64

	once   sync.Once
	probes [][]float64 // the first ones of the trace, which are checked
	mu     sync.Mutex
	known  map[int][2]float64 // of these, <v, M v> and ||M v||^2
}

// VJP sets dst_i = (f(y + h v_i) - f(y)) / h, where no entry of h v_i is larger than eps. Differences
// have no transpose: a quadratic form has the same value.
func (l *secants) VJP(ctx context.Context, dst, v array.Batch) error {
	k, d := v.K(), v.N()
	values := v.ToHost()
	rows := make([][]float64, k)
	g, ctx := errgroup.WithContext(ctx)
	for i := range k {
		row := values[i*d : (i+1)*d]
		if i > 0 && slices.Equal(row, values[:d]) {
			continue // a single probe arrives twice
		}
		g.Go(func() (err error) {
			rows[i], err = l.difference(ctx, row, l.solver.eps)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, row := range rows {
		if row == nil {
			row = rows[0]
		}
		l.note(values[i*d:(i+1)*d], row)
		dst.Device().Upload(dst.Rows(i, i+1), row)
	}
	return nil
}

// difference is (f(y + h v) - f(y)) / h with h max |v_i| = eps.
func (l *secants) difference(ctx context.Context, v []float64, eps float64) ([]float64, error) {
	largest := floats.Norm(v, math.Inf(1))
	if largest == 0 {
		return make([]float64, len(v)), nil
	}
	h := eps / largest
	f, err := l.solver.at(ctx, step(l.solver.y, h, v))
	if err != nil {
		return nil, err
	}
	return lists.Make(len(f), func(i int) float64 { return (f[i] - l.value[i]) / h }), nil
}

func (l *secants) checked() [][]float64 {
	l.once.Do(func() {
		batch := l.solver.dev.Alloc(checkProbes, l.solver.box.D)
		defer batch.Free()
		hutch.Rademacher(batch, l.solver.seed, uint64(l.solver.sample), 0)
		for j := range checkProbes {
			row := batch.Rows(j, j+1)
			l.probes = append(l.probes, row.ToHost())
		}
	})
	return l.probes
}

func (l *secants) note(v, image []float64) {
	for j, probe := range l.checked() {
		if slices.Equal(v, probe) {
			l.mu.Lock()
			l.known[j] = [2]float64{floats.Dot(v, image), floats.Dot(image, image)}
			l.mu.Unlock()
		}
	}
}

func (l *secants) forms(ctx context.Context, j int, eps float64) ([2]float64, error) {
	l.mu.Lock()
	known, ok := l.known[j]
	l.mu.Unlock()
	if ok && eps == l.solver.eps {
		return known, nil
	}
	image, err := l.difference(ctx, l.checked()[j], eps)
	if err != nil {
		return known, err
	}
	return [2]float64{floats.Dot(l.checked()[j], image), floats.Dot(image, image)}, nil
}

func (*secants) Kind() string { return string(MonteCarlo) }

func (*secants) Bytes() int64 { return 0 }

func (l *secants) ProbeBytes() int64 { return 24 * int64(l.solver.box.D) }

func (*secants) Release() {}

// checkStep rejects a step that rounding swallows: a difference of values of size ||y||_inf is then
// rounding errors over eps.
func checkStep(eps float64, y []float64) error {
	largest := floats.Norm(y, math.Inf(1))
	if least := leastStep * largest; eps < least {
		return refuse("Eps", eps, "eps is %g, expected at least %.3g: differences at a smaller step are rounding "+
			"errors of y, whose largest value is %.3g", eps, least, largest)
	}
	return nil
}

// leastStep is the least step over the largest value of y: the rounding errors of a difference are
// then about a hundred-thousandth of it.
const leastStep = 1e5 * 0x1p-52

// doubt repeats the first probes with a larger step and compares.
func (s *blackSolver) doubt(ctx context.Context, r *Risk) error {
	const large = 0.25 // of sqrt(2d), the error of the divergence that matters
	var forms [2][checkProbes][2]float64
	g, inner := errgroup.WithContext(ctx)
	for k, eps := range []float64{s.eps, CheckFactor * s.eps} {
		for j := range checkProbes {
			g.Go(func() (err error) {
				forms[k][j], err = s.last.forms(inner, j, eps)
				return err
			})
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	d := float64(s.box.D)
	var differences, fine, coarse [checkProbes]float64
	var norms [2]float64
	steps := false // the function is constant along a small step, and jumps along a large one
	for j := range checkProbes {
		steps = steps || forms[0][j][1] == 0 && forms[1][j][1] > large*math.Sqrt(2*d)
		fine[j], coarse[j] = forms[0][j][0], forms[1][j][0]
		differences[j] = fine[j] - coarse[j]
		for k := range norms {
			norms[k] += forms[k][j][1] / checkProbes
		}
	}
	mean, sd := stat.MeanStdDev(differences[:], nil)
	chance := 3 * hutch.Widened(checkProbes-1) * stat.StdErr(sd, checkProbes)
	jumps := norms[0] > mostJump*norms[1] && norms[0] > large*math.Sqrt(2*d)
	if !jumps && !steps && !(math.Abs(mean) > max(chance, large*math.Sqrt(2*d))) {
		return nil
	}
	again, err := s.at(ctx, s.y)
	if err != nil {
		return err
	}
	why := "it is not continuous, or bends within the noise, or its answers are rounded"
	if !slices.Equal(again, s.last.value) {
		why = "it gives different answers for the same y"
	}
	r.Doubts = append(r.Doubts, warning.NotSmooth.With(
		"differences of %s at steps of %.3g and %.3g disagree: over %d probes the divergence is %.4g and %.4g, "+
			"and the squared norm of the derivative %.3g and %.3g; %s, and SURE from its differences is not "+
			"reliable: antithetic draws need none",
		s.box.Name, s.eps, CheckFactor*s.eps, checkProbes, stat.Mean(fine[:], nil), stat.Mean(coarse[:], nil),
		norms[0], norms[1], why))
	return nil
}
