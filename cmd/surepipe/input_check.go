package main

import (
	"errors"
	"strings"

	"surepipe/internal/dataio/ndarray"
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
	named, _ := problems.Lookup(f.Problem)
	switch {
	case f.Problem == "" && f.Spec == "":
		return usagef("--problem is missing, expected %s; or --spec", known)
	case f.Problem != "" && f.Spec != "":
		return usagef("--problem is %q and --spec %q, expected one of them", f.Problem, f.Spec)
	case f.Spec == "" && named.Name == "":
		return usagef("--problem is %q%s, expected %s; or --spec", f.Problem,
			ndarray.Meant(f.Problem, problems.Names()), known)
	case f.Spec == "" && f.Data == "" && f.Y == "" && f.Mu == "":
		return usagef("--data is missing, expected a file (.npz, .npy, .csv, .mtx, .mat, .h5, .nii, .cfl, .png, " +
			".jpg or .tif), or --y and --X")
	case f.D != "" && !named.Analysis:
		return usagef("--D is for generalized-lasso, whose penalty is lambda ||D b||_1; a specification names " +
			"the files of its matrices itself")
	case f.Table.Standardize && f.Spec == "" && !named.Design:
		return usagef("--standardize is for %s and specifications, found --problem %s",
			strings.Join(problems.Regressions(), ", "), f.Problem)
	case f.Intercept && f.Spec == "" && !named.Design:
		return usagef("--intercept is for %s and specifications, found --problem %s",
			strings.Join(problems.Regressions(), ", "), f.Problem)
	}
	if err := f.checkVariant(changed, named.Layout); err != nil {
		return err
	}
	if err := f.checkEffects(changed, named.Layout); err != nil {
		return err
	}
	if err := f.checkTable(changed, named.Layout); err != nil || f.Spec == "" {
		if named.Name != "" && named.Tol() != 0 && !changed("tol") {
			f.tol = named.Tol()
		}
		return err
	}
	s, err := problems.ReadSpec(f.Spec)
	if err != nil {
		return usageError{err}
	}
	f.Specification, f.Problem = s, s.Name
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
		f.Intercept = s.Intercept
	}
	if !changed("standardize") {
		f.Table.Standardize = s.Standardize
	}
	if !changed("effects") {
		f.Effects = s.Effects
	}
	if s.Sigma2Method != "" && !changed("sigma2") {
		f.Sigma2Method = s.Sigma2Method
	}
	return nil
}

// specError reports whether the error has a place in a specification.
func specError(err error) bool {
	var placed *problems.SpecError
	return errors.As(err, &placed)
}

// checkVariant checks the flags for variants of one named problem.
func (f *estimatorFlags) checkVariant(changed func(string) bool, l problems.Layout) error {
	isotropic := problems.List(func(l problems.Layout) bool { return l.Isotropic })
	switch {
	case f.Vectorial && !l.Isotropic:
		return usagef("--vectorial is for --problem %s: in a specification, joint-l2: {weight: lambda, "+
			"vectorial: true} has it", isotropic)
	case f.Vectorial && f.Anisotropic:
		return usagef("--vectorial and --anisotropic are both given, expected one of them")
	case f.Anisotropic && !l.Isotropic:
		return usagef("--anisotropic is for --problem %s: in a specification, give the gradient the "+
			"regularizer l1 in place of joint-l2", isotropic)
	case changed("order") && l.Orders == problems.Orders{}:
		return usagef("--order is for --problem %s: in a specification, trend: {order: %d} or "+
			"differences: {order: %d} has it", problems.List(func(l problems.Layout) bool {
			return l.Orders != problems.Orders{}
		}), f.order, f.order)
	case changed("order"):
		if o := l.Orders; f.order < o.Least || f.order > o.Most {
			return usagef("--order is %d, expected an integer from %d to %d", f.order, o.Least, o.Most)
		}
		f.Variant.Degree = &f.order
	}
	return nil
}
