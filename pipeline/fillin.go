package pipeline

import (
	"context"
	"math"

	"surepipe/stages"
	"surepipe/vjp"
)

const (
	// filledIn is the change of what is filled in, in units of the residual of the others, at which it is done, after
	// at most mostFillings fits. The error of what is left out is about as large as that residual, and its bar is
	// seldom less than a hundredth of it.
	filledIn, mostFillings = 1e-2, 200
)

// fillIn is the fit to the observations that are kept where A = I,
//
//	b = argmin 1/2 sum_(i kept) (b_i - y_i)^2 + r(K b),
//
// by fits to all of them with what is left out filled in by the fit before: a proximal gradient step of length 1 each,
// with momentum that begins anew where it points uphill (Beck and Teboulle 2009; O'Donoghue and Candes 2015). For the
// steps without momentum see Dempster, Laird and Rubin, 1977.
func (r *refit) fillIn(ctx context.Context, weights []float64, from start) (mu []float64, last held, err error) {
	y := make([]float64, len(r.of.y))
	copy(y, r.of.y)
	before := make([]float64, len(r.split.Out))
	for k, i := range r.split.Out {
		if from.b != nil {
			before[k] = from.b[i]
		} else {
			before[k] = mean(r.kept.Observations(r.of.y))
		}
		y[i] = before[k]
	}
	var path vjp.Path
	defer path.Release()
	from.path, from.ahead, from.near = &path, nil, nil
	momentum := 1.0
	for range mostFillings {
		b, err := r.fit(ctx, weights, from, y)
		if err != nil {
			return nil, held{}, err
		}
		from.held = held{b: b}
		change, uphill := 0.0, 0.0
		for k, i := range r.split.Out {
			change += (b[i] - y[i]) * (b[i] - y[i])
			uphill += (y[i] - b[i]) * (b[i] - before[k])
		}
		residual := 0.0
		for _, i := range r.split.Keep {
			residual += (b[i] - y[i]) * (b[i] - y[i])
		}
		share := float64(len(r.split.Out)) / float64(len(r.split.Keep))
		if change <= filledIn*filledIn*share*residual {
			return pick(b, r.split.Out), from.held, nil
		}
		next := (1 + math.Sqrt(1+4*momentum*momentum)) / 2
		ahead := (momentum - 1) / next
		if momentum = next; uphill > 0 {
			momentum, ahead = 1, 0
		}
		for k, i := range r.split.Out {
			y[i] = b[i] + ahead*(b[i]-before[k])
			before[k] = b[i]
		}
	}
	r.failed++
	return before, from.held, nil
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// pick are the values at some places.
func pick(x []float64, at []int) []float64 {
	some := make([]float64, len(at))
	for k, i := range at {
		some[k] = x[i]
	}
	return some
}

// fit is the solution at y.
func (r *refit) fit(ctx context.Context, weights []float64, from start, y []float64) ([]float64, error) {
	solver, release, err := r.on.at(ctx, weights, from)
	if err != nil {
		return nil, err
	}
	defer release()
	view := r.on.f.Problem.Device.Request()
	on := stages.Observations(view, r.on.f.Problem, y)
	defer on.Free() // after the solution
	sol, err := solver.Solve(ctx, on)
	if err != nil {
		return nil, err
	}
	defer sol.Release()
	sol.Expand(view)
	return sol.B.ToHost(), view.Sync()
}
