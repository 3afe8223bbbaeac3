package request

import (
	"fmt"
	"slices"
	"strings"

	"surepipe/internal/dataio/ndarray"
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
	}
	for _, check := range []func(problems.Layout) error{r.readEffects, r.checkScopes, r.checkVariant, r.checkTable} {
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

// checkVariant checks the options for variants of one named problem, and of where its matrix is.
func (r *Request) checkVariant(l problems.Layout) error {
	switch o := l.Orders; {
	case r.Vectorial && r.Anisotropic:
		return study.Errorf("--vectorial and --anisotropic are both given, expected one of them")
	case r.Given("storage") && r.Table.Response != "":
		return study.Errorf("--storage is for matrices, found --response: the columns of a table are made in memory")
	case r.Given("order"):
		r.Variant.Degree = &r.Order
		return checkValues(value{"order", r.Order, r.Order >= o.Least && r.Order <= o.Most,
			fmt.Sprintf("an integer from %d to %d", o.Least, o.Most)})
	}
	return checkValues(chosen("storage", r.Storage, load.Storages...))
}

// effectsAuto asks for effects that are chosen, as it is done where nothing is said of them.
const effectsAuto = "auto"

// readEffects reads the names of effects, which are for the squared loss.
func (r *Request) readEffects(l problems.Layout) (err error) {
	if r.Given("effects") && len(r.EffectNames) == 0 {
		return study.Errorf("--effects is empty, expected %s, or some of %s, separated by commas", effectsAuto,
			strings.Join(problems.EffectNames(), ", "))
	}
	r.StandardizeOpen = !r.Given("standardize") && r.Sigma2 == 0
	r.StandardizeAuto = r.StandardizeAuto && r.Sigma2 == 0
	auto := slices.Equal(r.EffectNames, []string{effectsAuto})
	if !r.Given("effects") || auto {
		r.EffectsOpen = l.Selection && r.Loss.Squared()
		if auto && !r.EffectsOpen {
			return study.Errorf("--effects is %s, which is for matrix-completion with the squared loss", effectsAuto)
		}
		return nil
	}
	if r.Effects, err = problems.ParseEffects(r.EffectNames); err != nil {
		return study.Errorf("--effects: %w, or %s", err, effectsAuto)
	}
	if r.Effects.Some() && !r.Loss.Squared() {
		return study.Errorf("--effects is %s, which is for the squared loss, and the loss is %s",
			strings.Join(r.EffectNames, ","), r.Loss.Name)
	}
	return nil
}
