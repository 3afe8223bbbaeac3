package request

import (
	"surepipe/array"
	"surepipe/vjp"
)

// Solver says how the problem is solved and differentiated, and when a solve is done: see [vjp.Options].
type Solver struct {
	Name, Derivative string
	Tol              float64
	MaxIter          int
}

func defaultSolver() Solver {
	return Solver{Name: "auto", Derivative: string(vjp.Auto), Tol: vjp.DefaultTol, MaxIter: vjp.DefaultMaxIter}
}

func (s *Solver) check() error {
	return checkValues(
		value{"tol", s.Tol, s.Tol > 0 && s.Tol < 1, "a number between 0 and 1 (at 1, b = 0 would be accepted)"},
		value{"max-iter", s.MaxIter, s.MaxIter >= 1, "at least 1"},
		chosen("derivative", vjp.Derivative(s.Derivative), vjp.Derivatives()...),
		chosen("solver", s.Name, append([]string{"auto"}, vjp.Solvers()...)...))
}

// settings are the solver's settings for one of the samples, or points of a sweep, in flight.
func (r *Request) settings(dev array.Device, sigma2 float64) (vjp.Options, error) {
	memory, err := r.Machine.bytes()
	if err != nil {
		return vjp.Options{}, err
	}
	if free, bounded := dev.Available(); bounded {
		memory = min(memory, free/2) // the other half is for the probes
	}
	o := r.stop()
	o.Sigma2, o.Images, o.Compact = sigma2, r.Trace.ALO, true
	o.Memory, o.Columns = max(memory/int64(r.Machine.Parallel), 1), max(memory/2, 1)
	return o, nil
}

// stop are the settings that say when a solve is done, and how it is differentiated.
func (r *Request) stop() vjp.Options {
	return vjp.Options{Tol: r.Solver.Tol, MaxIter: r.Solver.MaxIter, Derivative: vjp.Derivative(r.Solver.Derivative)}
}
