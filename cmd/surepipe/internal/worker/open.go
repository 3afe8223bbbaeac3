package worker

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"surepipe"
	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/progress"
	"surepipe/study"
	"surepipe/study/request"
)

// Question is which estimator, on which data.
type Question struct {
	// Options have the names of the command's flags.
	Options json.RawMessage `json:"options,omitempty" jsonschema:"see options"`
	Arrays  Arrays          `json:"arrays,omitzero" jsonschema:"arrays in place of files"`
	Spec    string          `json:"spec,omitempty" jsonschema:"the text of a specification, not options.problem"`
	// Columns are used in warnings and tables of coefficients.
	Columns []string `json:"columns,omitempty" jsonschema:"names of X's columns, x0, x1, ... by default, or a matrix's"`
	// BlackBox stands for a function of the client in the place of a problem.
	BlackBox bool `json:"black_box,omitempty" jsonschema:"the estimator is the client's: see callbacks"`
	// Name is what notifications call the estimator.
	Name string `json:"name,omitempty" jsonschema:"a name of the client's for notifications and callbacks"`
}

// Arrays are those of a problem, by the names that they have in files.
type Arrays struct {
	X        *Array `json:"X,omitempty" jsonschema:"the design matrix of a regression, d x p"`
	Y        *Array `json:"y,omitempty" jsonschema:"the observations"`
	D        *Array `json:"D,omitempty" jsonschema:"that of a generalized LASSO, q x p"`
	Mu       *Array `json:"mu,omitempty" jsonschema:"the true mean, where it is known"`
	Indices  *Array `json:"indices,omitempty" jsonschema:"the places of observed entries, counted row by row from 0"`
	Shape    *Array `json:"shape,omitempty" jsonschema:"that of the matrix, or the length of the sequence"`
	Groups   *Array `json:"groups,omitempty" jsonschema:"the label of each column of X"`
	Weights  *Array `json:"weights,omitempty" jsonschema:"those of the observations"`
	Offset   *Array `json:"offset,omitempty" jsonschema:"what the linear predictor of a regression has besides X b"`
	Exposure *Array `json:"exposure,omitempty" jsonschema:"that whose logarithm is an offset"`
	Trials   *Array `json:"trials,omitempty" jsonschema:"the numbers of trials of which y are the successes"`
	Time     *Array `json:"time,omitempty" jsonschema:"of events, with the Cox losses: y is 1 for one, else 0"`
	Start    *Array `json:"start,omitempty" jsonschema:"the times from which on they are at risk"`
	Strata   *Array `json:"strata,omitempty" jsonschema:"labels of groups with hazards of their own"`
	Factors  *Array `json:"factors,omitempty" jsonschema:"those of the penalty, of each column of X"`
	Lower    *Array `json:"lower,omitempty" jsonschema:"lower bounds of the coefficients"`
	Upper    *Array `json:"upper,omitempty" jsonschema:"upper bounds of the coefficients"`
	At       *Array `json:"at,omitempty" jsonschema:"the places of the values of a sequence"`
	// RowGroups are in the place of the option groups.
	RowGroups *Array `json:"row_groups,omitempty" jsonschema:"labels of observations, left out together if equal"`
}

// Progress says how far an estimator has come. It comes at most five times a second.
type Progress struct {
	Name  string         `json:"name" jsonschema:"that of the question"`
	Stage progress.Stage `json:"stage"`
	Step  int            `json:"step" jsonschema:"the steps of the stage that are done"`
	Steps int            `json:"steps,omitempty" jsonschema:"after which it ends, where that is known"`
	Done  int            `json:"done,omitempty" jsonschema:"the probes, or the points of a sweep, that are done"`
	Total int            `json:"total,omitempty" jsonschema:"of so many"`
}

// Warned is what is to be known of the data or the estimator. Results have it too.
type Warned struct {
	Name string `json:"name" jsonschema:"that of the question"`
	surepipe.Warning
}

// Called is a call to the client for the value of its estimator.
type Called struct {
	Name    string             `json:"name" jsonschema:"that of the question"`
	Y       Array              `json:"y" jsonschema:"a vector, to be read before the answer"`
	Weights map[string]float64 `json:"weights" jsonschema:"lambda, lambda2, gamma, as far as they are given"`
}

// held is the name of the file in memory with arrays that have no file of their own.
const held = "arrays"

func (w *worker) request(q Question) (*request.Request, error) {
	given, err := settings(q.Options)
	if err != nil {
		return nil, err
	}
	set, r := w.Request(func(name string) bool {
		_, is := given[name]
		return is
	})
	if err := w.setAll(set, given); err != nil {
		return nil, err
	}
	if err := q.Arrays.of(r, q.Spec != ""); err != nil {
		return nil, err
	}
	if q.Spec != "" {
		spec, err := problems.ParseSpec([]byte(q.Spec), "spec")
		if err != nil {
			return nil, study.Bad(err)
		}
		if r.Spec != "" {
			return nil, study.Errorf("--spec is given twice, as a text and as a file, expected one of them")
		}
		r.Specification, r.Spec = spec, "spec"
	}
	if q.BlackBox {
		r.Program.Func = w.callback(q.Name)
	}
	r.Keep.B, r.Names = true, q.Columns
	tell := w.teller(q.Name)
	r.Watch = request.Watch{
		Progress: func(p pipeline.Progress) { tell(p.Report, p.Done, p.Total) },
		Note: func(n study.Note) {
			w.notify("warning", Warned{q.Name, surepipe.Warning{Code: n.Code, Text: r.Watch.Text(n.Text)}})
		},
		Named: func(o study.Option) string { return string(o) },
	}
	return r, nil
}

// teller sends notifications of progress, of which it leaves out those that come too soon: none of a short request.
func (w *worker) teller(name string) func(r progress.Report, done, total int) {
	const apart = int64(time.Second / 5)
	var next atomic.Int64
	next.Store(time.Now().UnixNano() + apart)
	return func(r progress.Report, done, total int) {
		now := time.Now().UnixNano()
		if at := next.Load(); now < at || !next.CompareAndSwap(at, now+apart) {
			return
		}
		w.notify("progress", Progress{name, r.Stage, r.Step, r.Steps, done, total})
	}
}

func (w *worker) open(ctx context.Context, q Question) (*surepipe.Estimator, error) {
	r, err := w.request(q)
	if err != nil {
		return nil, err
	}
	return w.openRequest(ctx, r, q.Name)
}

func (w *worker) openRequest(ctx context.Context, r *request.Request, name string) (*surepipe.Estimator, error) {
	r.Free = true
	if err := r.Check(); err != nil {
		return nil, err
	}
	tell := w.teller(name)
	return surepipe.OpenRequest(progress.With(ctx, func(p progress.Report) { tell(p, 0, 0) }), r)
}

// callback asks the client for the value of its estimator. A file that y is in ends with the call.
func (w *worker) callback(name string) func(context.Context, map[string]float64, []float64) ([]float64, error) {
	return func(ctx context.Context, weights map[string]float64, y []float64) ([]float64, error) {
		a, err := w.array("y", surepipe.Array{Shape: []int{len(y)}, Data: y})
		if err != nil {
			return nil, err
		}
		if a.NPY != "" {
			defer os.Remove(a.NPY)
		}
		answered, err := w.server.Callback(ctx, "estimate", Called{name, a, weights})
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, study.Errorf("the client's estimator: %s", err.Error())
		}
		var mu Array
		if err := answered.UnmarshalResult(&mu); err != nil {
			return nil, study.Errorf("the client's answer: %s", err.Error())
		}
		return mu.values("mu_hat")
	}
}

// settings are the values of an object of options by their names.
func settings(text json.RawMessage) (given map[string]json.RawMessage, err error) {
	if len(text) > mostSettings {
		return nil, study.Errorf("--options has %d bytes, expected at most %d", len(text), mostSettings)
	}
	if len(text) > 0 {
		err = decode(text, &given)
	}
	return given, err
}

// Every says of each name that it is wanted.
func Every(string) bool { return true }

// setAll sets options: texts, numbers, booleans, and lists of texts.
func (w *worker) setAll(set *pflag.FlagSet, given map[string]json.RawMessage) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		flag := set.Lookup(name)
		if flag == nil {
			all, _ := w.Request(Every)
			var names []string
			all.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
			if meant := ndarray.Meant(name, names); meant != "" {
				return study.Errorf("options has the key %.40q%s", name, meant)
			}
			return study.Errorf("options has the key %.40q, expected one of %s", name, strings.Join(names, ", "))
		}
		if err := setOne(set, flag, given[name]); err != nil {
			return study.Errorf("--%s is %.80s: %w", name, given[name], err)
		}
	}
	return nil
}

func setOne(set *pflag.FlagSet, flag *pflag.Flag, value json.RawMessage) error {
	var text string
	var list []string
	switch {
	case json.Unmarshal(value, &text) == nil && string(value) != "null":
	case json.Unmarshal(value, &list) == nil && list != nil:
		many, ok := flag.Value.(pflag.SliceValue)
		if !ok {
			return study.Errorf("a list, expected one value")
		}
		flag.Changed = true
		return many.Replace(list)
	default: // a number or a boolean
		if text = string(value); strings.ContainsAny(text[:1], "n{[") {
			return study.Errorf("expected a text, a number, a boolean or a list of texts")
		}
	}
	err := set.Set(flag.Name, text)
	if number := (*strconv.NumError)(nil); errors.As(err, &number) {
		if flag.Value.Type() == "float64" {
			return study.Errorf("expected a number")
		}
		return study.Errorf("expected a whole number")
	}
	return err
}

// integral are the arrays of whole numbers.
var integral = []string{"indices", "shape", "groups", "row_groups"}

// of gives a request the arrays: each is a file of its own, or in one file together, as those of a specification.
func (a *Arrays) of(r *request.Request, together bool) error {
	files, rest := dataio.Memory{}, []dataio.Array(nil)
	own := map[string]*string{"X": &r.X, "y": &r.Y, "D": &r.D, "mu": &r.Mu}
	all := reflect.ValueOf(a).Elem()
	for i := range all.NumField() {
		array := all.Field(i).Interface().(*Array)
		if array == nil {
			continue
		}
		name, _, _ := strings.Cut(all.Type().Field(i).Tag.Get("json"), ",")
		if path := own[name]; path != nil && (*path != "" || !together || array.filed()) {
			if err := array.place(name, path, files); err != nil {
				return err
			}
			continue
		}
		read, err := array.read(name)
		if own[name] == nil {
			read, err = array.vector(name, slices.Contains(integral, name))
		}
		switch {
		case err != nil:
			return err
		case name != "row_groups":
			rest = append(rest, read)
		case r.Table.Groups != "":
			return study.Errorf("--groups is %q and arrays has %q, expected one of them", r.Table.Groups, name)
		default:
			r.Table.Groups, files[name] = name, dataio.HeldFile{Arrays: []dataio.Array{read}}
		}
	}
	if rest != nil {
		if r.Data != "" {
			return study.Errorf("--data is %q and arrays has %q, expected one of them", r.Data, rest[0].Name)
		}
		r.Data, files[held] = held, dataio.HeldFile{Arrays: rest}
	}
	r.Files = fs.FS(dataio.Over{Held: files, FS: problems.Disk})
	return nil
}
