package request

import (
	"slices"
	"strings"

	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/design"
	"surepipe/problems"
	"surepipe/study"
	"surepipe/study/load"
)

// checkInputs rejects options that contradict each other, and reads the specification.
func (r *Request) checkInputs() error {
	if r.Program.Given() {
		return r.checkProgram()
	}
	if err := r.checkNoProgram(); err != nil {
		return err
	}
	known := "one of " + strings.Join(problems.Names(), ", ")
	named, _ := problems.Lookup(r.Problem)
	switch {
	case r.Problem == "" && r.Spec == "":
		return study.Errorf("--problem is missing, expected %s; or --spec", known)
	case r.Problem != "" && r.Spec != "":
		return study.Errorf("--problem is %q and --spec %q, expected one of them", r.Problem, r.Spec)
	case r.Spec == "" && named.Name == "":
		return study.Errorf("--problem is %q%s, expected %s; or --spec", r.Problem,
			ndarray.Meant(r.Problem, problems.Names()), known)
	case r.Spec == "" && r.Data == "" && r.Y == "" && r.Mu == "":
		return study.Errorf("--data is missing, expected a file (.npz, .npy, .csv, .mtx, .mat, .h5, .nii, .cfl, " +
			".png, .jpg or .tif), or --y and --X")
	case r.D != "" && !named.Analysis:
		return study.Errorf("--D is for generalized-lasso, whose penalty is lambda ||D b||_1; a specification names " +
			"the files of its matrices itself")
	case r.Standardize && r.Spec == "" && !named.Design:
		return study.Errorf("--standardize is for %s and specifications, found --problem %s",
			strings.Join(problems.Regressions(), ", "), r.Problem)
	case r.Intercept && r.Spec == "" && !named.Design:
		return study.Errorf("--intercept is for %s and specifications, found --problem %s",
			strings.Join(problems.Regressions(), ", "), r.Problem)
	}
	for _, check := range []func(problems.Layout) error{r.checkVariant, r.checkEffects, r.checkBeside,
		r.checkCoordinates, r.checkTable} {
		if err := check(named.Layout); err != nil {
			return err
		}
	}
	if r.Spec == "" {
		if named.Name != "" && named.Tol() != 0 && !r.Given("tol") {
			r.Solver.Tol = named.Tol()
		}
		return nil
	}
	if r.Specification == nil {
		s, err := problems.ReadSpec(r.Spec)
		if err != nil {
			return study.Bad(err)
		}
		r.Specification = s
	}
	r.Problem = r.Specification.Name
	r.adopt(r.Specification)
	return nil
}

func (r *Request) adopt(s *problems.Spec) {
	adopt(r, "solver", &r.Solver.Name, s.Solver.Name)
	adopt(r, "tol", &r.Solver.Tol, s.Solver.Tol)
	adopt(r, "max-iter", &r.Solver.MaxIter, s.Solver.MaxIter)
	adopt(r, "derivative", &r.Solver.Derivative, string(s.Solver.Derivative))
	adopt(r, "intercept", &r.Intercept, s.Intercept)
	adopt(r, "standardize", &r.Standardize, s.Standardize)
	adopt(r, "effects", &r.Effects, s.Effects)
	adopt(r, "sigma2", &r.Sigma2Method, s.Sigma2Method)
}

// adopt takes a value from a specification that has one, where the option is not given.
func adopt[T comparable](r *Request, option string, to *T, value T) {
	if value != *new(T) && !r.Given(option) {
		*to = value
	}
}

// checkVariant checks the options for variants of one named problem.
func (r *Request) checkVariant(l problems.Layout) error {
	isotropic := problems.List(func(l problems.Layout) bool { return l.Isotropic })
	switch {
	case r.Vectorial && !l.Isotropic:
		return study.Errorf("--vectorial is for --problem %s: in a specification, joint-l2: {weight: lambda, "+
			"vectorial: true} has it", isotropic)
	case r.Vectorial && r.Anisotropic:
		return study.Errorf("--vectorial and --anisotropic are both given, expected one of them")
	case r.Anisotropic && !l.Isotropic:
		return study.Errorf("--anisotropic is for --problem %s: in a specification, give the gradient the "+
			"regularizer l1 in place of joint-l2", isotropic)
	case r.Given("order") && l.Orders == problems.Orders{}:
		return study.Errorf("--order is for --problem %s: in a specification, trend: {order: %d} or "+
			"differences: {order: %d} has it", problems.List(func(l problems.Layout) bool {
			return l.Orders != problems.Orders{}
		}), r.Order, r.Order)
	case r.Given("order"):
		if o := l.Orders; r.Order < o.Least || r.Order > o.Most {
			return study.Errorf("--order is %d, expected an integer from %d to %d", r.Order, o.Least, o.Most)
		}
		r.Variant.Degree = &r.Order
	}
	return nil
}

func (r *Request) checkStorage() error {
	named, known := problems.Lookup(r.Problem)
	switch {
	case !slices.Contains(load.Storages, r.Storage):
		return study.Errorf("--storage is %q, expected %s%s", r.Storage, strings.Join(load.Storages, ", "),
			ndarray.Meant(r.Storage, load.Storages))
	case r.Given("storage") && r.Specification == nil && known && !named.Design:
		return study.Errorf("--storage is for %s and specifications, found --problem %s",
			strings.Join(problems.Regressions(), ", "), r.Problem)
	case r.Given("storage") && r.Table.Response != "":
		return study.Errorf("--storage is for matrices, found --response: the columns of a table are made in memory")
	}
	return nil
}

// checkEffects rejects effects and weights where there are none, and reads the names.
func (r *Request) checkEffects(l problems.Layout) (err error) {
	if r.Given("effects") && len(r.EffectNames) == 0 {
		return study.Errorf("--effects is empty, expected some of %s, separated by commas",
			strings.Join(problems.EffectNames(), ", "))
	}
	if r.Effects, err = problems.ParseEffects(r.EffectNames); err != nil {
		return study.Errorf("--effects: %w", err)
	}
	switch {
	case r.Spec == "" && r.Effects.Some() && !l.Selection:
		return study.Errorf("--effects is for matrix-completion and specifications, found --problem %s", r.Problem)
	case !r.Given("effects"):
		r.EffectsOpen = l.Selection && r.Loss.Squared()
	case r.Effects.Some() && !r.Loss.Squared():
		return study.Errorf("--effects is %s, which is for the squared loss, and the loss is %s",
			strings.Join(r.EffectNames, ","), r.Loss.Name)
	}
	return nil
}

func (r *Request) checkCoordinates(l problems.Layout) error {
	for _, option := range []string{"factors", "lower", "upper", "column-groups"} {
		switch {
		case !r.Given(option) || r.Spec != "" && option != "column-groups":
		case r.Spec != "":
			return study.Errorf("--column-groups is for --problem; a specification names the array of its groups")
		case option == "column-groups" && !l.Groups:
			return study.Errorf("--column-groups is for %s, found --problem %s",
				problems.List(func(l problems.Layout) bool { return l.Groups }), r.Problem)
		case !l.Design:
			return study.Errorf("--%s is for %s, found --problem %s", option,
				strings.Join(problems.Regressions(), ", "), r.Problem)
		}
	}
	return nil
}

func (r *Request) checkBeside(l problems.Layout) error {
	for _, option := range append((design.Beside{}).Options(), "success") {
		switch {
		case !r.Given(option):
		case r.Spec != "" && option == "weights":
			return study.Errorf("--weights is for --problem; a specification has the key weights")
		case r.Spec != "":
		case !l.Design && !(l.Selection && option == "weights"):
			return study.Errorf("--%s is for %s, found --problem %s", option,
				strings.Join(problems.Regressions(), ", "), r.Problem)
		case r.Table.Response == "":
			return study.Errorf("--%s is the name of a column of a table, but --response is missing, which names the "+
				"column that is y; in an archive it is the array %s", option, option)
		}
	}
	return nil
}
