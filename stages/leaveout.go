package stages

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/risk"
	"surepipe/vjp"
)

const (
	// cheapDiagonal is the number of floating-point operations, a tenth of a second's work, up to
	// which the exact diagonal is computed.
	cheapDiagonal = 4e9
	// leavingProbes is the number of random probes for leave-one-out alone: their error is then
	// about a fifth of that of a mean over the observations, for leverages near 1/2, and less for
	// smaller ones.
	leavingProbes = 48
	// together is how many times more operations a second products of matrices do than those of a matrix with few
	// vectors.
	together = 4
)

// leverageSource is how the leverages of the observations become known.
type leverageSource struct {
	// The way that was chosen.
	chosen []vjp.Choice
	// The probes of the run are those of leave-one-out, and are to be done early, while the solver's own factors
	// show their images; and whether they have been.
	early, queried bool
	// The diagonal of the solver's part of D mu_hat, where leave-one-out was asked for and it is cheap; else nil.
	diagonal []float64
	// By Assemble, or Verify before it: the leverages, or their estimates, nil where leave-one-out is not known.
	leverages []float64
	// By Assemble, or Verify before it: leave-one-out of squares without refits.
	oneStep risk.LeaveOneOutResult
	// By Assemble: the left-out errors, nil where they are not known.
	left []float64
}

// leaving is a row of the table of ways to know the leverages: the first one that applies is taken.
// The diagonal may be had of c, and the settings are the job's.
type leaving struct {
	chosen, reason string
	applies        func(j *Job, c vjp.Closed) bool
	apply          func(j *Job, c vjp.Closed) error
}

var leavings = []leaving{
	{
		"the exact diagonal", "the solver's own factors show it, and it is cheap",
		func(j *Job, c vjp.Closed) bool {
			return j.wantsDiagonal() && c.Leverages != nil &&
				(j.settings.Plan.Exact() ||
					c.LeveragesFlops <= max(cheapDiagonal, together*j.leavingImages()*c.ImageFlops))
		},
		func(j *Job, c vjp.Closed) error {
			j.diagonal = c.Leverages()
			return nil
		},
	},
	{
		"the exact diagonal", "it is known from the factors of the derivative, and cheap",
		func(j *Job, c vjp.Closed) bool {
			asked := j.wantsDiagonal() && (c.DiagonalFlops <= cheapDiagonal || j.settings.Plan.Exact())
			return c.Diagonal != nil && (asked || c.DiagonalFlops == 0)
		},
		func(j *Job, c vjp.Closed) (err error) {
			j.diagonal, err = c.Diagonal()
			return err
		},
	},
	{
		"the probes of the trace", "they show the diagonal of the derivative too",
		func(j *Job, _ vjp.Closed) bool {
			return !j.known() && j.settings.Plan.ShowsDiagonal() && (j.settings.ALO || !j.settings.Unwatched)
		},
		func(*Job, vjp.Closed) error { return nil },
	},
	{
		fmt.Sprintf("%d probes of its own", leavingProbes),
		"the trace takes none, and the diagonal of the derivative is not known or takes more work",
		func(j *Job, _ vjp.Closed) bool { return j.settings.ALO && j.known() },
		func(j *Job, c vjp.Closed) (err error) {
			j.early = c.Images != nil
			j.plan, err = hutch.NewPlan(hutch.Hutchinson, leavingProbes, len(j.Y))
			return err
		},
	},
}

// leavingImages is about the number of images that leave-one-out takes by probes: their own, and those of the refits
// that are due where the loss is not quadratic.
func (j *Job) leavingImages() float64 {
	if loss.Quadratic(j.problem.Loss) {
		return leavingProbes
	}
	return leavingProbes + manySteps*(fewFirst+hutch.DefaultBatch)
}

// wantsDiagonal reports whether the diagonal is worth some work: where leave-one-out was asked for, and
// for what the flat observations of a loss determine, where there are some.
func (j *Job) wantsDiagonal() bool {
	if j.settings.ALO || loss.Quadratic(j.problem.Loss) {
		return j.settings.ALO
	}
	f, err := j.flatness(j.muHat())
	return err != nil || slices.Contains(f.flat, true)
}

// leave decides how the leverages will be known, and computes the diagonal where it is to be the exact
// one.
func (j *Job) leave(c vjp.Closed) error {
	if !j.known() {
		j.plan = j.settings.Plan
	}
	if j.several() || loss.StructureOf(j.problem.Loss).Coupled != nil {
		return nil // no diagonal tells it
	}
	for _, l := range leavings {
		if l.applies(j, c) {
			j.chosen = append(j.chosen, vjp.Choice{Part: "leave-one-out", Chosen: l.chosen, Reason: l.reason})
			return l.apply(j, c)
		}
	}
	return nil
}

// probeEarly does the probes for leave-one-out while the solver's factors show their images, before
// the solver goes on along its path.
func (j *Job) probeEarly(ctx context.Context) error {
	if !j.early || j.failed() {
		return nil
	}
	err := j.run.EndSketch()
	if err == nil {
		err = j.query(ctx, Probes{Job: j, Phase: hutch.Residual, Count: j.count(hutch.Residual)})
	}
	j.early, j.queried = false, true
	return err
}

// matrix is D mu_hat for the trace estimators. Images come from the solver's factors as long as j.early
// says so and these serve.
func (j *Job) matrix() hutch.Matrix {
	l, closed := j.solution.Linearization, j.solution.Linearization.Closed()
	return hutch.Matrix{Moments: j.moments, Control: closed.Control, Apply: func(ctx context.Context, dst,
		v array.Batch, want hutch.Accuracy, left []float64) error {
		if j.early && closed.Images(dst, v) {
			clear(left)
			return dst.Device().Err()
		}
		return l.Apply(ctx, dst, v, want, left)
	}}
}

// watched reports whether the probes of the run are to show the diagonal: where leave-one-out was asked
// for, and elsewhere where that costs next to nothing, their images being vectors in the host's memory.
func (j *Job) watched() bool {
	_, own := j.view.Available()
	return j.settings.ALO || !own && !j.settings.Unwatched && !j.plan.ByMoments(hutch.Residual, j.moments)
}

// leaveOneOut is the estimate, when all probes are done: exact is that for a diagonal, with the losses of which it is
// the mean unless they are nil, and left the loss of one observation by its leverage.
func (j *Job) leaveOneOut(
	exact func(diagonal []float64) (losses []float64, mean, stdErr float64, err error),
	left func() risk.LeftOut) (risk.LeaveOneOutResult, error) {
	diagonal := j.diagonal
	if diagonal == nil && j.run != nil {
		diagonal = j.run.Diagonal()
	}
	if diagonal != nil {
		diagonal = j.diagonalOf(diagonal)
		losses, mean, stdErr, err := exact(diagonal)
		if errors.Is(err, risk.ErrLeverage) && j.mayRefit(diagonal) {
			mean, stdErr, err = math.NaN(), math.NaN(), nil
		}
		if err == nil {
			if j.leverages = diagonal; losses == nil {
				j.leftOut(diagonal, left())
			} else if !j.settings.NoMuHat {
				j.keepLeftOut(losses)
			}
		}
		return risk.LeaveOneOutResult{Mean: mean, StdErr: stdErr}, err
	}
	if j.run == nil {
		return risk.LeaveOneOutResult{}, ErrNoDiagonal
	}
	leverages := j.run.Leverages()
	if leverages == nil {
		return risk.LeaveOneOutResult{}, ErrNoDiagonal
	}
	if j.known() {
		leverages = leverages.WithTrace(j.closed.Trace)
	}
	if j.rewritten() {
		shift := j.diagonalOf(make([]float64, len(j.Y)))
		leverages = leverages.Shifted(func(i int) float64 { return shift[i] })
	}
	array.Trim(j.view)
	loss := left()
	out, err := risk.LeaveOneOutFromProbes(leverages, loss)
	if err == nil {
		j.leverages = out.Leverages
		j.leftOut(out.Leverages, loss)
		j.influenced(out.Influences)
	}
	return out, err
}

// linear says that mu_hat is linear in y, so that one step leads to the fit without an observation.
func (j *Job) linear() bool {
	return loss.Quadratic(j.problem.Loss) && prox.StructureOf(j.problem.R).Quadratic.Known
}
