package stages

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"surepipe/array"
	"surepipe/internal/noise"
	"surepipe/loss"
	"surepipe/vjp"
)

// SURE's divergence is the expectation of a derivative over continuous noise. Where the values of y are rounded, many
// are equal, and the derivative of an estimator that ties equal values together is that of a rare point: it jumps there
// between those of its neighbours. Its expectation over what rounding has hidden is that at y + step u, u uniform on
// [-1/2, 1/2] and independent for each observation (the dither of signal processing), which is y again when it is
// rounded.

// within is a solution at observations that y may have been before it was rounded.
type within struct {
	solution *vjp.Solution
	y        array.Batch
}

func (w *within) release() {
	if w != nil {
		w.solution.Release()
		w.y.Free()
	}
}

// linearizeWithin puts the derivative at observations within the rounding of y in place of that at y, where r is behind
// an operator, as of differences, y is rounded, and either the latter is only known to be within a range, or the fit
// moves observations by less than the rounding does.
func (j *Job) linearizeWithin(ctx context.Context, solver vjp.Solver) error {
	sol := j.solution
	if j.problem.K == nil || len(j.Y) < fewRounded || !loss.Quadratic(j.problem.Loss) || !sol.Converged {
		return nil
	}
	known := sol.Linearization.Closed()
	torn := known.Known && known.High-known.Low > doubtful*math.Sqrt(2*float64(len(j.Y)))
	step := noise.RoundingStep(j.Y)
	if step == 0 || !torn && !(j.moved() < step/2) {
		return nil
	}
	rng := rand.New(rand.NewPCG(j.settings.Seed, uint64(j.Index)^ditherStream))
	values := slices.Clone(j.Y)
	for i := range values {
		values[i] += step * (rng.Float64() - 0.5)
	}
	at := &within{y: Observations(j.view, j.problem, values)}
	var err error
	if at.solution, err = solver.SolveFrom(ctx, at.y, vjp.From{B: sol.B}); err != nil {
		at.y.Free()
		return cause(j.view, err)
	}
	if again := at.solution.Linearization.Closed(); !at.solution.Converged || again.Known != known.Known ||
		torn && again.High-again.Low >= known.High-known.Low {
		at.release()
		return nil
	}
	sol.Linearization, at.solution.Linearization = at.solution.Linearization, sol.Linearization
	j.within = at
	j.chosen = append(j.chosen, vjp.Choice{Part: "derivative's observations", Chosen: "y before rounding",
		Reason: fmt.Sprintf("the values of y are multiples of %.6g: the derivative is that at y plus uniform noise of "+
			"that width", step)})
	return nil
}

// fewRounded is the number of observations below which one draw of the dither says little, and a range is exact.
const fewRounded = 256

// ditherStream tells the random numbers of the dither from those of probes.
const ditherStream = 0x726f756e64

func (j *Job) moved() float64 {
	if j.solution.Implied != nil {
		return math.Inf(1)
	}
	z, r := j.view.Alloc(1, j.y.N()), [1]float64{}
	defer z.Free()
	j.view.Lin(z, 1, j.y, -1, j.solution.MuHat)
	j.view.Dot(r[:], z, z)
	return math.Sqrt(r[0] / float64(j.y.N()))
}
