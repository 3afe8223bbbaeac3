package main

import (
	"errors"
	"strings"

	"surepipe/internal/dataio"
	"surepipe/problems"
)

// checkInputs rejects flags that contradict each other, and reads the specification.
func (f *estimatorFlags) checkInputs(changed func(flag string) bool) error {
	if f.exec.given() {
		return f.checkExec(changed)
	}
	if err := checkNotExec(changed); err != nil {
		return err
	}
	known := "one of " + strings.Join(problems.Names(), ", ")
	named, _ := problems.Lookup(f.problem)
	switch {
	case f.problem == "" && f.spec == "":
		return usagef("--problem is missing, expected %s; or --spec", known)
	case f.problem != "" && f.spec != "":
		return usagef("--problem is %q and --spec %q, expected one of them", f.problem, f.spec)
	case f.spec == "" && named.Name == "":
		return usagef("--problem is %q%s, expected %s; or --spec", f.problem, dataio.Meant(f.problem, problems.Names()), known)
	case f.spec == "" && f.data == "" && f.y == "" && f.mu == "":
		return usagef("--data is missing, expected a file (.npz, .npy, .csv, .mtx, .mat, .h5, .nii, .cfl, .png, .jpg or .tif), or --y and --X")
	case f.table.standardize && f.spec == "" && !named.Design:
		return usagef("--standardize is for %s and specifications, found --problem %s", strings.Join(problems.Regressions(), ", "), f.problem)
	case f.intercept && f.spec == "" && !named.Design:
		return usagef("--intercept is for %s and specifications, found --problem %s", strings.Join(problems.Regressions(), ", "), f.problem)
	}
	if err := f.checkEffects(changed, named.Layout); err != nil {
		return err
	}
	if err := f.checkTable(changed, named.Layout); err != nil || f.spec == "" {
		return err
	}
	s, err := problems.ReadSpec(f.spec)
	if err != nil {
		return usageError{err}
	}
	f.specification, f.problem = s, s.Name
	if s.Solver.Name != "" && !changed("solver") {
		f.solver = s.Solver.Name
	}
	if s.Solver.Tol != 0 && !changed("tol") {
		f.tol = s.Solver.Tol
	}
	if s.Solver.MaxIter != 0 && !changed("max-iter") {
		f.maxIter = s.Solver.MaxIter
	}
	if s.Solver.Derivative != "" && !changed("derivative") {
		f.derivative = string(s.Solver.Derivative)
	}
	if !changed("intercept") {
		f.intercept = s.Intercept
	}
	if !changed("standardize") {
		f.table.standardize = s.Standardize
	}
	if !changed("effects") {
		f.effects = s.Effects
	}
	if s.Sigma2Method != "" && !changed("sigma2") {
		f.sigma2Method = s.Sigma2Method
	}
	return nil
}

// specError reports whether the error has a place in a specification.
func specError(err error) bool {
	var placed *problems.SpecError
	return errors.As(err, &placed)
}
