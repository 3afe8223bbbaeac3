package main

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"surepipe/array"
	"surepipe/internal/dataio/ndarray"
	"surepipe/vjp"
)

// solverFlags say how the problem is solved and differentiated, and when a solve is done.
type solverFlags struct {
	solver, derivative string
	tol                float64
	maxIter            int
}

func (f *solverFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.solver, "solver", "auto",
		"auto (the problem's own choice), "+strings.Join(vjp.Solvers(), ", "))
	flags.StringVar(&f.derivative, "derivative", string(vjp.Auto), "implicit (differentiate the fixed point), "+
		"unrolled (differentiate the iterations in reverse), auto (implicit where the solver has converged)")
}

func (f *solverFlags) registerStop(flags *pflag.FlagSet) {
	flags.Float64Var(&f.tol, "tol", vjp.DefaultTol, "stop at this distance from optimality, relative to the "+
		"noise; where a duality gap is known, mu_hat is then within min(0.01, 100 sqrt(tol)) sigma sqrt(d) of "+
		"the exact estimate")
	flags.IntVar(&f.maxIter, "max-iter", vjp.DefaultMaxIter, "stop after this many iterations, converged or not")
}

func (f *solverFlags) checkStop() error {
	switch {
	case !(f.tol > 0) || f.tol >= 1:
		return usagef("--tol is %g, expected a number between 0 and 1 (at 1, b = 0 would be accepted)", f.tol)
	case f.maxIter < 1:
		return usagef("--max-iter is %d, expected at least 1", f.maxIter)
	}
	return nil
}

func (f *solverFlags) checkDerivative() error {
	if !slices.Contains(vjp.Derivatives(), vjp.Derivative(f.derivative)) {
		return usagef("--derivative is %q, expected auto, implicit or unrolled", f.derivative)
	}
	return nil
}

func (f *solverFlags) checkSolver() error {
	if f.solver != "auto" && !slices.Contains(vjp.Solvers(), f.solver) {
		return usagef("--solver is %q, expected auto or one of %s%s",
			f.solver, strings.Join(vjp.Solvers(), ", "), ndarray.Meant(f.solver, vjp.Solvers()))
	}
	return nil
}

// solverOptions are the solver's settings for one of the samples, or points of a sweep, in flight.
func (f *estimatorFlags) solverOptions(dev array.Device, sigma2 float64) (vjp.Options, error) {
	memory, err := f.memoryBytes()
	if err != nil {
		return vjp.Options{}, err
	}
	if free, bounded := dev.Available(); bounded {
		memory = min(memory, free/2) // the other half is for the probes
	}
	return vjp.Options{
		Tol: f.tol, MaxIter: f.maxIter, Sigma2: sigma2, Derivative: vjp.Derivative(f.derivative),
		Memory: max(memory/int64(f.parallel), 1), Columns: max(memory/2, 1), Images: f.alo, Compact: true,
	}, nil
}
