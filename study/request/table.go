package request

import (
	"slices"

	"surepipe/internal/dataio"
	"surepipe/internal/design"
	"surepipe/loss"
	"surepipe/problems"
	"surepipe/study"
)

// checkTable rejects options about the columns of a table where there is none, and sets the defaults
// of regressions of a table.
func (r *Request) checkTable(l problems.Layout) error {
	t := &r.Table
	if err := checkValues(chosen("missing", design.Missing(t.Missing), design.Refuse, design.Drop,
		design.Mean)); err != nil {
		return err
	}
	for _, list := range []struct {
		option string
		names  []string
	}{{"drop", t.Drop}, {"only", t.Only}, {"categorical", t.Categorical}} {
		if r.Given(list.option) && (len(list.names) == 0 || slices.Contains(list.names, "")) {
			return study.Errorf("--%s has an empty name, expected names of columns separated by commas", list.option)
		}
	}
	if r.Spec != "" {
		return nil
	}
	beside := append((design.Beside{}).Options(), "success")
	for _, option := range append([]string{"drop", "only", "categorical", "missing", "index"}, beside...) {
		matrix := l.Selection && (option == "drop" || option == "only") && dataio.IsTable(r.Data)
		if r.Given(option) && t.Response == "" && !(option == "missing" && l.Gaps) && !matrix {
			archive := ""
			if slices.Contains(beside, option) {
				archive = "; in an archive it is the array " + option
			}
			return study.Errorf("--%s is about the columns of a table, but --response is missing, which names the "+
				"column that is y%s", option, archive)
		}
	}
	switch {
	case r.Given("na") && !slices.ContainsFunc([]string{r.Data, r.X, r.Y, r.Mu, r.D}, dataio.IsTable):
		return study.Errorf("--na is about the cells of a table (.csv, .tsv), and none is given")
	case t.Response == "":
		return nil
	case r.Data == "":
		return study.Errorf("--response is %q, but --data is missing, expected a table (.csv, .tsv)", t.Response)
	case r.X != "":
		return study.Errorf("--response is %q and --X %q: the table has both, expected one of them", t.Response, r.X)
	case r.Y != "":
		return study.Errorf("--response is %q and --y %q: expected one of them", t.Response, r.Y)
	case !l.Design && l.YRank == 2:
		return study.Errorf("--response is %q, but y of %s is a matrix, the whole table", t.Response, r.Problem)
	case l.Sequence() && (r.Given("only") || r.Given("categorical")):
		return study.Errorf("--only and --categorical are about the columns of X, which %s does not have", r.Problem)
	case !dataio.IsTable(r.Data):
		return study.Errorf("--response is %q, but %s is not a table with a header line (.csv, .tsv) by its name",
			t.Response, r.Data)
	}
	if !r.Given("intercept") {
		r.Intercept = l.Design && !r.LossOf().Row().Timed
	}
	if !r.Given("standardize") {
		r.Standardize = l.Design
	}
	return nil
}

func (r *Request) checkLoss() error {
	l := r.Loss
	if l.Name == "" && r.Specification != nil {
		l = r.Specification.Loss
	}
	for _, k := range loss.Kinds() {
		if k.Parameter == nil {
			continue
		}
		option, value := ParameterOption(k), *r.LossParameters[k.Name]
		given := r.Given(option) || value != 0
		switch {
		case given && r.Loss.Name != k.Name:
			return study.Errorf("--%s is %g, but it is for --loss %s", option, value, k.Name)
		case r.Loss.Name == k.Name && !given:
			return study.Errorf("--%s is missing, which --loss %s needs: a positive number %s", option, k.Name,
				k.Parameter.Unit)
		case r.Loss.Name == k.Name:
			if err := k.Check(value); err != nil {
				return study.Errorf("--%s is %g: %w", option, value, err)
			}
			r.Loss.Parameter = value
			l = r.Loss
		}
	}
	if err := l.Check(); err != nil {
		return study.Errorf("--loss is %q: %w", l.Name, err)
	}
	switch {
	case l.Squared():
		return nil
	case r.Given("sigma2"):
		return study.Errorf("--sigma2 is given, but it is for SURE, which is defined for the squared loss and normal "+
			"noise, and the loss is %s: leave-one-out, alo, takes its place and needs no sigma2", l.Name)
	case r.Verify:
		return study.Errorf("--verify is for the squared loss, and the loss is %s", l.Name)
	case r.Solver.Derivative == "unrolled":
		return study.Errorf("--derivative is unrolled, which needs the squared loss, and the loss is %s: expected "+
			"auto or implicit", l.Name)
	}
	r.Sigma2Method = "" // the specification's
	return nil
}

// ParameterOption is the name of the option of a loss's parameter.
func ParameterOption(k loss.Kind) string { return k.Name + "-" + k.Parameter.Name }
