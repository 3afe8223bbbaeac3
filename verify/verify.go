package verify

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/prox"
	"surepipe/risk"
	"surepipe/vjp"
)

// Options are the settings of the check.
type Options struct {
	// Problem is the problem that the solver under check should solve; the zero value stands for
	// the solver's own.
	Problem vjp.Problem
	// Probes is the number of random probes whose derivative is compared with differences, default
	// DefaultProbes; up to MaxUnits observations all unit vectors take their place.
	Probes int
}

// problem is the problem that the solver should solve, or the reason why it cannot be checked.
func (o Options) problem(solver vjp.Solver) (vjp.Problem, error) {
	own, p := solver.Problem(), o.Problem
	if p.A == nil && p.R == nil && p.Device == nil {
		p = own
	}
	if p.A == nil || p.R == nil || p.Device == nil {
		return p, errors.New("verify: a problem without operator, regularizer or device")
	}
	d, n := own.A.Dims()
	if rows, cols := p.A.Dims(); rows != d || cols != n {
		return p, fmt.Errorf("verify: a problem of size %d x %d for a solver of size %d x %d", rows, cols, d, n)
	}
	return p, nil
}

// Check rejects options that do not fit the solver.
func (o Options) Check(solver vjp.Solver) error {
	p, err := o.problem(solver)
	if err != nil {
		return err
	}
	_, n := p.A.Dims()
	if low := prox.StructureOf(p.R).Nuclear.Known; n > math.MaxInt32 || low && n > mostWritten {
		return fmt.Errorf("verify: b has %d numbers, and the check writes it down with all singular values: it is "+
			"for matrices of at most %d entries", n, mostWritten)
	}
	return nil
}

// mostWritten is the largest number of entries of a matrix that is checked by all its singular values.
const mostWritten = 1 << 27

const (
	// DefaultProbes is the default of Options.Probes.
	DefaultProbes = 3
	// MaxUnits is the largest d for which all unit vectors are probes, and the divergence is
	// compared exactly.
	MaxUnits = 64
	// Limit is the number of error bars above which a result fails the check.
	Limit = 4
)

// Result is the result to check.
type Result struct {
	// Solver is the one under check, made with its own settings.
	Solver vjp.Solver
	// Y is a batch of one vector of length d, as the solver is given it; B and MuHat are the solution at Y.
	Y, B, MuHat array.Batch
	vjp.Convergence
	// Images is v -> D mu_hat v; where the loss has weights W, v -> W^{1/2} D mu_hat W^{-1/2} v.
	Images hutch.Oracle
	// Closed is what is known about the derivative without probes; the zero value means nothing.
	Closed vjp.Closed
	// Trace is the estimate of tr D mu_hat that was printed, of the solver's problem.
	Trace          hutch.Estimate
	Sigma2, StdErr float64
	// Seed and Sample determine the random probes, which differ from those of the trace estimator.
	Seed, Sample uint64
	// LeftOut is leave-one-out, nil where it is not known.
	LeftOut *LeftOut
}

// Verification is the result of a check.
type Verification struct {
	// Largest is the largest of the comparisons, in error bars, and Check its name. For a correct
	// result it is below Limit.
	Largest     float64      `json:"largest"`
	Check       string       `json:"check"`
	Comparisons []Comparison `json:"comparisons"`
	// Probes is the number of probes along which differences were taken. Boundaries of these
	// crossed a kink at every step, so that the derivative is not unique there, and Unresolved had
	// differences too inaccurate for a conclusion.
	Probes     int `json:"probes"`
	Boundaries int `json:"boundaries"`
	Unresolved int `json:"unresolved"`
	// Solver is the solver of the differences, Other the one that solved from 0; "" where there was
	// none.
	Solver string `json:"solver"`
	Other  string `json:"other,omitempty"`
	// Failure says why the check could not be done, "" if it was.
	Failure string  `json:"failure,omitempty"`
	Seconds float64 `json:"seconds"`
}

const (
	// Fit is ||mu_hat - A b||.
	Fit = "fit"
	// Optimality is ||b - prox_{eta r}(b - eta A*(A b - y))|| / eta, which is at most the distance
	// of 0 from the objective's subdifferential at b, over ||A|| max(||y - A b||, sigma sqrt(d)),
	// compared with the solver's own value.
	Optimality = "optimality"
	// Columns is the amount by which SURE could change if the coordinate of b that is farthest from
	// its optimum moved there.
	Columns = "columns"
	// Solution is the amount by which SURE could change if mu_hat were that of a solve from b to a
	// far smaller tolerance.
	Solution = "solution"
	// OtherSolver is the amount by which SURE could change if mu_hat were that of another solver, from 0.
	OtherSolver = "other solver"
	// Derivative is the worst of the probes: z* D mu_hat z minus the difference.
	Derivative = "derivative"
	// Divergence is the printed divergence minus its value by the probes.
	Divergence = "divergence"
	// Diagonal is the worst of these: the printed divergence minus the sum of the diagonal of D
	// mu_hat, and entries of the diagonal minus the differences of mu_hat_i as y_i moves. It is
	// compared where the diagonal is known.
	Diagonal = "diagonal"
	// LeaveOneOut is the worst of these: leave-one-out minus its value by the leverages of some
	// observations, computed by images, and its change by refits without a few of them.
	LeaveOneOut = "alo"
)

// Comparison is one check.
type Comparison struct {
	Name string `json:"name"`
	// Difference is the difference found, and ErrorBar the one that the check's own errors would
	// explain.
	Difference float64 `json:"difference"`
	ErrorBar   float64 `json:"error_bar"`
	// Bars is their ratio.
	Bars float64 `json:"bars"`
}

// Passed reports whether the check was done and no comparison is above Limit.
func (v *Verification) Passed() bool { return v.Failure == "" && v.Largest <= Limit }

// Describe states the result, as the end of a sentence.
func (v *Verification) Describe() string {
	if v.Failure != "" {
		return "the check could not be done: " + v.Failure
	}
	for _, c := range v.Comparisons {
		if c.Name == v.Check {
			return fmt.Sprintf("%s is off by %.3g, %.3g error bars of %.2g", c.Name, c.Difference, c.Bars, c.ErrorBar)
		}
	}
	return "nothing was compared"
}

func (v *Verification) add(name string, difference, bar float64) {
	bars := inBars(difference, bar)
	difference, bar = bounded(difference), bounded(bar)
	v.Comparisons = append(v.Comparisons, Comparison{name, difference, bar, bars})
	if bars >= v.Largest {
		v.Largest, v.Check = bars, name
	}
}

func inBars(difference, bar float64) float64 {
	if difference == 0 {
		return 0
	}
	return bounded(difference / bar) // NaN where either is
}

func bounded(x float64) float64 {
	if math.IsNaN(x) {
		return math.MaxFloat64
	}
	return math.Min(math.Abs(x), math.MaxFloat64)
}

// surePart is the error bar of changes of SURE that involve no statistical error, as a share of
// SURE's own error bar: four of them are a tenth of SURE's.
const surePart = 0.025

type check struct {
	Options
	Result
	ctx context.Context
	dev array.Device
	d   int
	v   *Verification

	norm2  float64 // of A
	yNorm  float64
	muNorm float64
	bNorm  float64
	resid  float64 // ||y - mu_hat||
	sure   float64 // the error bar of changes of SURE

	root, inverse array.Batch // W^{1/2} and W^{-1/2}, where the loss has weights

	units []form // the differences along all unit vectors, where they were taken

	first, second      witness // the solvers of the differences
	iterations, budget int     // done by them, and allowed
}

// Check verifies a result. The error is the context's, or a fault of the device;
// anything else that keeps the check from being done is the Verification's Failure.
func Check(ctx context.Context, r Result, o Options) (*Verification, error) {
	begin := time.Now()
	var err error
	if o.Problem, err = o.problem(r.Solver); err != nil {
		return nil, err
	}
	// Memory for the check is allocated where the result is: on the view of one sample.
	o.Problem.Device = r.Y.Device()
	if o.Probes <= 0 {
		o.Probes = DefaultProbes
	}
	c := &check{Options: o, Result: r, ctx: ctx, dev: o.Problem.Device, d: r.Y.N(), v: &Verification{}}
	err = c.run()
	if err == nil {
		err = c.dev.Sync()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if fault := c.dev.Err(); fault != nil {
		return nil, fault
	}
	if err != nil {
		c.v.Failure = err.Error()
	}
	c.v.Seconds = time.Since(begin).Seconds()
	return c.v, nil
}

func (c *check) run() error {
	defer func() {
		c.first.release()
		c.second.release()
		array.Free(c.root, c.inverse)
	}()
	c.weights()
	c.budget = leastBudget + budgetFactor*c.Iterations
	c.yNorm, c.muNorm, c.bNorm = norm(c.Y), norm(c.MuHat), norm(c.B)
	c.resid = distance(c.Y, c.MuHat)
	c.sure = surePart * risk.Terms{D: c.d, Sigma2: c.Sigma2}.Scale(c.StdErr)
	for _, step := range []func() error{c.certificate, c.solveAgain, c.solveOtherwise, c.differences, c.diagonal,
		c.leftOut} {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (c *check) moves(delta float64) float64 { return risk.Shift(c.resid, delta) }

// eps is the relative rounding error.
const eps = 0x1p-52

func norm(x array.Batch) float64 { return math.Sqrt(x.Dot(x)) }

func distance(x, y array.Batch) float64 {
	dev := x.Device()
	t := dev.Alloc(1, x.N())
	defer t.Free()
	dev.Lin(t, 1, x, -1, y)
	return norm(t)
}
