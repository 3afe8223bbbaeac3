package differential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"surepipe/array"
	"surepipe/linops/additive"
	"surepipe/pipeline"
	"surepipe/risk/warning"
	"surepipe/solve"
	"surepipe/solve/rewrite"
	"surepipe/vjp"
)

// Verdict is the outcome of the comparison for a case.
type Verdict int

// The verdicts.
const (
	Right Verdict = iota
	// MarkedRight and MarkedWrong are results with a warning, or errors: MarkedWrong where
	// the number is wrong, or there is none.
	MarkedRight
	MarkedWrong
	// Wrong is a wrong number without a warning, a panic or a hang.
	Wrong
	// NoReference is a case that the reference could not certify.
	NoReference
)

// Outcome is the verdict on a case and the reasons for it.
type Outcome struct {
	Verdict Verdict
	// Codes are the warnings' codes; "error" for an error.
	Codes []string
	// Detail says what is wrong, or the error.
	Detail    string
	Ambiguous bool
	Risk      pipeline.Risk
	Reference *Reference
	// Elapsed is the time of the program under test, and Check that of the reference.
	Elapsed, Check time.Duration
}

// Patience is the longest time that a case may take.
const Patience = 10 * time.Second

// Run solves a case on a device and judges the result.
func Run(dev array.Device, c *Case) Outcome {
	var o Outcome
	begin := time.Now()
	o.Reference = newReference(c)
	o.Check = time.Since(begin)
	o.Ambiguous = o.Reference.Ambiguous()
	begin = time.Now()
	risk, err, alive := guarded(dev, c)
	o.Elapsed = time.Since(begin)
	o.Risk = risk
	if !alive {
		o.Verdict, o.Detail = Wrong, err.Error()
		return o
	}
	if err != nil {
		o.Verdict, o.Codes, o.Detail = MarkedWrong, []string{"error"}, err.Error()
		return o
	}
	for _, w := range risk.Warnings() {
		if !slices.Contains(elsewhere, w.Code) {
			o.Codes = append(o.Codes, w.Code)
		}
	}
	if !o.Reference.OK {
		o.Verdict = NoReference
		return o
	}
	if o.Detail = judge(c, o.Reference, &risk); o.Detail != "" && !risk.Trace.Exact {
		o.Detail = redrawn(dev, c, o.Reference, o.Detail)
	}
	if o.Detail == "" && len(o.Codes) == 0 && o.Reference.matters(c) {
		o.Verdict, o.Detail = Wrong, fmt.Sprintf("divergence %.9g, but it changes by %.3g at a tie", risk.Trace.Trace,
			o.Reference.Tied)
		return o
	}
	switch {
	case o.Detail == "" && len(o.Codes) == 0:
		o.Verdict = Right
	case o.Detail == "":
		o.Verdict = MarkedRight
	case len(o.Codes) > 0:
		o.Verdict = MarkedWrong
	case !o.Ambiguous && len(c.Y) <= 20 && !(math.Abs(byDifferences(c,
		differenceStep)-o.Reference.Divergence) <= divergence/2):
		// The reference contradicts itself.
		o.Verdict = NoReference
	default:
		o.Verdict = Wrong
		const close = 1e-3
		if ref := o.Reference.Divergence; risk.DivergenceHigh-risk.DivergenceLow > close &&
			risk.DivergenceLow < ref+close && risk.DivergenceHigh > ref-close {
			o.Detail += fmt.Sprintf(" (known to be between %.9g and %.9g)", risk.DivergenceLow, risk.DivergenceHigh)
		}
	}
	return o
}

// redrawn judges a random estimate that missed by another one, of other probes. Quadratic forms of a matrix of
// rank 1 are squares of one normal number, nearly: where the mean of m of them is small so is their spread, and
// it is deviations standard errors below the trace in 1.5% of all draws for m = 10, in 0.4% for 20, and in
// 0.15% for 30. That is chance once; an error bar that is too small, or a wrong derivative, misses again.
func redrawn(dev array.Device, c *Case, ref *Reference, detail string) string {
	other := *c
	other.Seed ^= 1 << 63
	risk, err, alive := guarded(dev, &other)
	if !alive || err != nil {
		return detail
	}
	if judge(c, ref, &risk) == "" {
		return ""
	}
	return detail
}

// elsewhere are the warnings that say nothing about the divergence and mu_hat.
var elsewhere = []string{warning.FewObservations.Code, warning.NoLeaveOneOut.Code, warning.Sigma2TooLarge.Code,
	warning.Interpolates.Code}

// guarded is estimate with a time limit; alive is false if it was exceeded, or after a panic.
func guarded(dev array.Device, c *Case) (risk pipeline.Risk, err error, alive bool) {
	type result struct {
		risk  pipeline.Risk
		err   error
		alive bool
	}
	done := make(chan result, 1)
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r = result{err: fmt.Errorf("panic: %v", p)}
			}
			done <- r
		}()
		r.risk, r.err = estimate(ctx, dev, c)
		r.alive = true
	}()
	select {
	case r := <-done:
		switch {
		case r.err != nil && errors.Is(r.err, context.DeadlineExceeded):
			return r.risk, fmt.Errorf("no result after %v", Patience), false
		case r.err != nil && strings.Contains(r.err.Error(), "panic"):
			return r.risk, r.err, false
		}
		return r.risk, r.err, r.alive
	case <-time.After(2 * Patience):
		return risk, fmt.Errorf("has not stopped %v after the end of its context", Patience), false
	}
}

// estimate is the program under test.
func estimate(ctx context.Context, dev array.Device, c *Case) (pipeline.Risk, error) {
	var p vjp.Problem
	if c.Name != "" {
		named, err := c.problem(dev)
		if err != nil {
			return pipeline.Risk{}, err
		}
		defer named.Release()
		p = named.Solve()
	} else {
		a, releaseA, err := c.Op.build(dev)
		if err != nil {
			return pipeline.Risk{}, err
		}
		defer releaseA()
		r, releaseR, err := c.Reg.build(dev)
		if err != nil {
			return pipeline.Risk{}, err
		}
		defer releaseR()
		p = vjp.Problem{A: a, R: r, Device: dev}
		if c.K != nil {
			k, releaseK, err := c.K.build(dev)
			if err != nil {
				return pipeline.Risk{}, err
			}
			defer releaseK()
			p.K = k
		}
		if c.Intercept {
			d, _ := a.Dims()
			if p, err = rewrite.Project(p, additive.Constant(d)); err != nil {
				return pipeline.Risk{}, err
			}
		}
	}
	if len(c.Squares) > 0 && c.Name == "" {
		releaseSquares, err := c.addSquares(dev, &p)
		if err != nil {
			return pipeline.Risk{}, err
		}
		defer releaseSquares()
	}
	method := c.Solver
	if method == "" {
		method = solve.Default(p)
	}
	solver, err := vjp.NewSolver(ctx, method, p, vjp.Options{Derivative: vjp.Derivative(c.Derivative),
		MaxIter: c.MaxIter, Sigma2: c.Sigma2})
	if err != nil {
		return pipeline.Risk{}, err
	}
	defer solver.Release()
	pipe, err := pipeline.New(solver, pipeline.Options{
		Sigma2: c.Sigma2, Estimator: c.Estimator, Queries: c.Queries, Seed: c.Seed, KeepB: true})
	if err != nil {
		return pipeline.Risk{}, err
	}
	return pipe.Estimate(ctx, c.Y)
}

// The tolerances of a result: SURE may differ from the reference by share of its error bar or of
// that of the noise, the divergence and ||D mu_hat||_F^2 by some hundredths, mu_hat by share of
// sigma sqrt(d), and in addition by the error that the standard error of the trace allows.
const (
	share      = 0.01
	divergence = 0.02
	deviations = 6

	// differenceStep, in units where y is of size 1, is usually too small to leave the face of a
	// case that is not ambiguous.
	differenceStep = 0x1p-33
)

// matters reports that the divergence changes at a tie by enough to be marked.
func (r *Reference) matters(c *Case) bool {
	return !r.RankUnsure && r.Tied > divergence &&
		2*c.Sigma2*r.Tied > 2*share*max(r.Bar, c.Sigma2*math.Sqrt(2*float64(len(c.Y))))
}

// judge describes what is wrong with a risk; "" if it is right.
func judge(c *Case, ref *Reference, risk *pipeline.Risk) string {
	d := float64(len(c.Y))
	chance := deviations * risk.Trace.StdErr
	slack := divergence + 1e-3*d + chance
	if got := risk.Trace.Trace; !(got >= ref.Least-slack && got <= ref.Most+slack) {
		if ref.Ambiguous() {
			return fmt.Sprintf("divergence %.9g, expected %.9g (%.9g to %.9g)", got, ref.Divergence, ref.Least,
				ref.Most)
		}
		return fmt.Sprintf("divergence %.9g, expected %.9g", got, ref.Divergence)
	}
	if ref.RankUnsure {
		return ""
	}
	off := 0.0
	sigma := math.Sqrt(c.Sigma2)
	for i, v := range risk.MuHat {
		off = math.Hypot(off, (v-ref.MuHat[i])/sigma)
	}
	if !(off <= share*math.Sqrt(d)) {
		return fmt.Sprintf("mu_hat is off by %.3g sigma sqrt(d)", off/math.Sqrt(d))
	}
	if got := risk.Trace.Frobenius2; risk.Trace.Exact && !ref.Ambiguous() && !(math.Abs(got-ref.Frobenius2) <= slack) {
		return fmt.Sprintf("||D mu_hat||_F^2 %.9g, expected %.9g (divergence %.9g)", got, ref.Frobenius2,
			risk.Trace.Trace)
	}
	allowed := share*max(ref.Bar, c.Sigma2*math.Sqrt(2*d)) + 2*c.Sigma2*chance
	lo := ref.SURE + 2*c.Sigma2*(ref.Least-ref.Divergence) - allowed
	hi := ref.SURE + 2*c.Sigma2*(ref.Most-ref.Divergence) + allowed
	if !(risk.SURE >= lo && risk.SURE <= hi) {
		return fmt.Sprintf("SURE %.9g, expected %.9g +- %.3g (divergence %.9g, expected %.9g)", risk.SURE, ref.SURE,
			allowed, risk.Trace.Trace, ref.Divergence)
	}
	return ""
}

// String is a case as JSON: a reproducer.
func (c *Case) String() string {
	text, err := json.Marshal(c)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
