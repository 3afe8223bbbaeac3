package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"surepipe/internal/dataio"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/risk/warning"
)

// ratingsText is a table of some entries of a 9 x 7 matrix, with effects, as a list and as a matrix;
// rest are the others. Users are numbers, and so written with a point in rest.
func ratingsText() (list, matrix, rest string, full []float64) {
	rng := rand.New(rand.NewPCG(2, 9))
	const m, n = 9, 7
	list, rest, matrix = "user,item,rating,trust\n", "item,rating,user\n", ",a,b,c,d,e,f,g\n"
	full = make([]float64, m*n)
	for i := range m {
		matrix += fmt.Sprintf("u%d", i)
		for j := range n {
			v := 3 + float64(i%4) - float64(j%3) + 0.3*rng.NormFloat64()
			full[i*n+j] = math.NaN()
			if rng.Float64() < 0.7 {
				full[i*n+j] = v
				list += fmt.Sprintf("%d,%c,%g,%d\n", i, 'a'+j, v, 1+(i+j)%3)
				matrix += fmt.Sprintf(",%g", v)
			} else {
				rest += fmt.Sprintf("%c,%g,%d.0\n", 'a'+j, v, i)
				matrix += ","
			}
		}
		matrix += "\n"
	}
	return list, matrix, rest, full
}

// A list of entries, a matrix with empty cells, one with NaN in a file of one array or of several, and
// a table without names give the same fit.
func TestMatricesWithMissingEntries(t *testing.T) {
	list, matrix, _, full := ratingsText()
	plain := ""
	for line := range strings.Lines(strings.SplitN(matrix, "\n", 2)[1]) {
		_, cells, _ := strings.Cut(line, ",")
		plain += cells
	}
	npy := filepath.Join(t.TempDir(), "m.npy")
	if err := dataio.WriteNPY(npy, floats("y", full, 9, 7)); err != nil {
		t.Fatal(err)
	}
	var want float64
	for i, data := range []string{
		text(t, "list.csv", list) + " --response rating --drop trust", text(t, "m.csv", matrix),
		text(t, "plain.csv", plain), npy,
		save(t, floats("y", full, 9, 7), floats("mu", make([]float64, 63), 9, 7)),
	} {
		o := object(t, strings.Fields("run --problem matrix-completion --effects rows,cols --lambda 0.3max "+
			"--trace exact --alo --data "+data)...)
		gcv := o["gcv"].(float64)
		if i == 0 {
			want = gcv
		}
		if math.Abs(gcv/want-1) > 1e-9 || o["effects_df"] != 15. || o["effects_mean"] == nil || o["alo"] == nil ||
			fmt.Sprint(o["effects"]) != "[rows cols]" {
			t.Errorf("%s: gcv %v, expected %v; effects %v, %v, %v", data, gcv, want, o["effects"], o["effects_df"],
				o["effects_mean"])
		}
	}
	status, stdout, _ := command(t, strings.Fields("run --problem matrix-completion --effects rows,cols --lambda "+
		"0.3max --data "+text(t, "m.csv", matrix))...)
	if status != exitDone || !strings.Contains(stdout, "the constant; unpenalized rows,cols, 15 degrees of freedom") {
		t.Errorf("status %d\n%s", status, stdout)
	}
}

// Effects are part of the predictions, which are scored where the values are known. Users that are
// written 1 and 1.0 are the same.
func TestPredictionsHaveEffects(t *testing.T) {
	list, _, rest, _ := ratingsText()
	out := filepath.Join(t.TempDir(), "fit.npz")
	data := text(t, "list.csv", list)
	base := "run --problem matrix-completion --lambda 0.5max --trace exact --response rating --data " + data +
		" --out " + out
	ask := text(t, "rest.csv", rest)
	var errors []float64
	for _, args := range []string{" --drop trust --effects none", " --drop trust",
		" --weights trust --effects rows,cols"} {
		object(t, strings.Fields(base+args)...)
		o := object(t, "predict", "--fit", out, "--data", ask)
		errors = append(errors, o["mean_squared_error"].(float64))
		if o["rows_with_response"] != float64(strings.Count(rest, "\n")-1) {
			t.Errorf("%v", o)
		}
	}
	if errors[1] > 0.2 || errors[0] < 4*errors[1] || errors[2] > 0.2 || errors[1] == errors[2] {
		t.Errorf("mean squared errors %v", errors)
	}
	// The effects in the file make up the prediction.
	set, err := dataio.OpenNPZ(out)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	mean, err := set.Scalar("effects_mean")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string][]float64{}
	for _, name := range []string{"b", "effects_rows", "effects_cols"} {
		a, err := set.Floats(name)
		if err != nil {
			t.Fatal(err)
		}
		values[name] = a.Data
	}
	o := object(t, "predict", "--fit", out)
	e := o["entries"].([]any)[0].([]any)
	var i, j int
	fmt.Sscan(e[0].(string), &i)
	j = int(e[1].(string)[0] - 'a')
	if want := mean + values["effects_rows"][i] + values["effects_cols"][j] +
		values["b"][i*7+j]; math.Abs(e[2].(float64)-want) > 1e-12 {
		t.Errorf("%v, expected %v", e, want)
	}
}

// Of a table whose columns are measurements effects of columns alone are chosen, of ratings those of both, and results say
// that they were looked for.
func TestEffectsAreChosen(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	measurements := "a,b,c\n"
	for range 60 {
		v := rng.NormFloat64()
		measurements += fmt.Sprintf("%g,%g,", 9+v, 3*rng.NormFloat64()-3*v)
		if rng.Float64() < 0.6 {
			measurements += fmt.Sprint(20 + 2*rng.NormFloat64())
		}
		measurements += "\n"
	}
	// Curves that differ by a factor: means of columns alone predict much worse than those of both, and fits better.
	curves := "a,b,c,d,e,f\n"
	for i := range 14 {
		for j := range 6 {
			if curves += ","[:min(j, 1)]; i%6 != j {
				curves += fmt.Sprint((1 + float64(i)) * (1 - math.Exp(-float64(j)-0.3)) * (1 + 0.02*rng.NormFloat64()))
			}
		}
		curves += "\n"
	}
	_, ratings, _, _ := ratingsText()
	for data, want := range map[string]string{text(t, "m.csv", measurements): "cols",
		text(t, "c.csv", curves): "cols", text(t, "r.csv", ratings): "rows,cols"} {
		status, stdout, stderr := command(t, "sweep", "--problem", "matrix-completion", "--data", data, "--json")
		var last struct {
			Choice   problems.EffectsChoice `json:"effects_choice"`
			Warnings []pipeline.Warning
		}
		all := strings.Split(strings.TrimSpace(stdout), "\n")
		if err := json.Unmarshal([]byte(all[len(all)-1]), &last); err != nil {
			t.Fatal(err, stderr)
		}
		c := last.Choice
		if status != exitDone || len(c.Tried) != 5 || c.Tried[c.Best].Effects != want || want == "cols" && !c.Tried[c.Best].Fitted ||
			!strings.Contains(stderr, "effects: "+want+", chosen by leave-one-out of ") ||
			!slices.ContainsFunc(last.Warnings, func(w pipeline.Warning) bool { return w.Is(warning.ChosenEffects) }) {
			t.Errorf("status %d, %+v: %s", status, c, stderr)
		}
		for _, try := range c.Tried {
			if try.Error < c.Tried[c.Best].Error {
				t.Errorf("%s has an error of %g, and %s is chosen", try.Effects, try.Error, want)
			}
			// Fits at all of the weights, also those that were not tried, come to no less.
			_, stdout, _ := command(t, "sweep", "--problem", "matrix-completion", "--data", data, "--json", "--refine", "0",
				"--effects", try.Effects, "--lambda", "0.05max:max:4")
			for _, line := range strings.Split(strings.TrimSpace(stdout), "\n")[1:] {
				var p struct{ ALO *float64 }
				if err := json.Unmarshal([]byte(line), &p); err != nil || want == "cols" && p.ALO != nil &&
					*p.ALO < 0.95*c.Tried[c.Best].Error {
					t.Errorf("%s has an error of %v by a fit, and %s is chosen (%v)", try.Effects, p.ALO, want, err)
				}
			}
		}
	}
}

// A specification has effects too, and a sweep is not resumed with others.
func TestEffectsOfASpecification(t *testing.T) {
	_, _, _, full := ratingsText()
	var y, places []float64
	for c, v := range full {
		if !math.IsNaN(v) {
			y, places = append(y, v), append(places, float64(c))
		}
	}
	data := save(t, floats("y", y, len(y)), floats("indices", places, len(y)), floats("shape", []float64{9, 7}, 2))
	spec := text(t, "s.yaml", "data: "+data+"\noperator:\n  selection: {indices: indices, shape: "+
		"shape}\nregularizer:\n  nuclear: lambda\neffects: [rows, cols]\n")
	want := object(t, strings.Fields("run --problem matrix-completion --effects rows,cols --lambda 0.3max --trace "+
		"exact --data "+data)...)
	if got := object(t, "run", "--spec", spec, "--lambda", "0.3max", "--trace", "exact"); got["gcv"] != want["gcv"] ||
		got["effects_df"] != want["effects_df"] {
		t.Errorf("gcv %v, expected %v", got["gcv"], want["gcv"])
	}
	log := filepath.Join(t.TempDir(), "s.jsonl")
	sweep := strings.Fields("sweep --problem matrix-completion --lambda 0.3max:max:3 --refine 0 --data " + data +
		" --jsonl " + log)
	if status, _, stderr := command(t, sweep...); status != exitDone {
		t.Fatal(stderr)
	}
	if status, _, stderr := command(t, append(sweep, "--resume", "--effects", "rows")...); status != exitUsage ||
		!strings.Contains(stderr, "effects") {
		t.Errorf("status %d, %s", status, stderr)
	}
}

// Effects of completions are chosen by default, from the command, Go and the worker alike, among those that leave
// something to estimate.
func TestCompletionsHaveEffectsByDefault(t *testing.T) {
	_, matrix, _, _ := ratingsText()
	run := "run --problem matrix-completion --lambda 0.3max --data " + text(t, "m.csv", matrix)
	asked, silent := object(t, strings.Fields(run+" --effects rows,cols")...), object(t, strings.Fields(run)...)
	none := object(t, strings.Fields(run+" --effects none")...)
	if asked["gcv"] != silent["gcv"] || silent["effects_df"] != 15. || none["effects"] != nil ||
		none["gcv"] == silent["gcv"] {
		t.Errorf("gcv %v, by default %v, without effects %v", asked["gcv"], silent["gcv"], none["gcv"])
	}
	c, _ := dial(t, nil)
	worker := ask(t, c, "fit", params{"options": params{"problem": "matrix-completion", "lambda": "0.3max",
		"data": text(t, "m.csv", matrix)}})["result"].(map[string]any)
	if worker["gcv"] != silent["gcv"] {
		t.Errorf("the worker's gcv is %v, the command's %v", worker["gcv"], silent["gcv"])
	}
	full := make([]float64, 12)
	for i := range full {
		if full[i] = math.NaN(); i%4 == 0 || i < 4 {
			full[i] = float64(i)
		}
	}
	few := filepath.Join(t.TempDir(), "few.npy")
	if err := dataio.WriteNPY(few, floats("y", full, 3, 4)); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := command(t, "run", "--problem", "matrix-completion", "--lambda", "1", "--data", few)
	if status != exitDone || !strings.Contains(stderr, "effects: ") || strings.Contains(stderr, "rows,cols") {
		t.Errorf("status %d, %s\n%s", status, stdout, stderr)
	}
	if _, _, stderr := command(t, strings.Fields(run+" --loss huber")...); strings.Contains(stderr, "effects") {
		t.Errorf("another loss: %s", stderr)
	}
	if status, _, stderr := command(t, strings.Fields(run+" --effects none,rows")...); status != exitUsage ||
		!strings.Contains(stderr, "expected none alone") {
		t.Errorf("status %d, %s", status, stderr)
	}
}

// Columns of a table in different units are divided by their standard deviations, so that units change no number but
// those of the completed entries. A given sigma2 is in the units that they have.
func TestColumnsOfATableHaveTheirUnits(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	cells := make([][3]float64, 40)
	for i := range cells {
		u := r.NormFloat64()
		for j := range cells[i] {
			cells[i][j] = u + 0.1*r.NormFloat64()
		}
	}
	const told, warned = "columns are divided by them", `("c"): the penalty`
	type found struct {
		Value    float64 `json:"alo"`
		Scaled   bool    `json:"standardize"`
		Entries  [][]any `json:"entries"`
		Warnings []struct{ Code string }
	}
	results := map[float64][]found{}
	for _, unit := range []float64{1, 100, 1e-7} {
		var table strings.Builder
		table.WriteString("a,b,c\n")
		for i, c := range cells {
			last := fmt.Sprint(unit * c[2])
			if i%4 == 0 {
				last = ""
			}
			fmt.Fprintf(&table, "%g,%g,%s\n", c[0], c[1], last)
		}
		path, fit := text(t, "units.csv", table.String()), filepath.Join(t.TempDir(), "fit.npz")
		for args, want := range map[string]string{
			"":                              told,
			"--standardize":                 "",
			"--standardize=auto":            told,
			"--standardize=false":           warned,
			"--sigma2 1":                    warned,
			"--sigma2 1 --standardize":      "",
			"--standardize=auto --sigma2 1": warned,
		} {
			if unit == 1e-7 {
				want = strings.Replace(want, warned, `("a"): the penalty`, 1)
			}
			status, stdout, stderr := command(t, strings.Fields(
				"run --json --problem matrix-completion --lambda 0.3max --data "+path+" --out "+fit+" "+args)...)
			told := strings.Contains(stderr, "standard deviations of the columns range")
			if status != exitDone || told != (want != "" && unit != 1) || told && !strings.Contains(stderr, want) {
				t.Errorf("unit %g %s: status %d, %s", unit, args, status, stderr)
			}
			if args != "--standardize" {
				continue
			}
			_, predicted, stderr := command(t, "predict", "--json", "--fit", fit)
			var run, entries found
			err := errors.Join(json.Unmarshal([]byte(stdout), &run), json.Unmarshal([]byte(predicted), &entries))
			if err != nil {
				t.Fatal(err, stderr)
			}
			results[unit] = []found{run, entries}
		}
	}
	base := results[1]
	for unit, got := range results {
		if math.Abs(got[0].Value-base[0].Value) > 1e-9 || !got[0].Scaled || len(got[1].Entries) != 10 {
			t.Errorf("unit %g: leave-one-out %g, want %g", unit, got[0].Value, base[0].Value)
		}
		for i, e := range got[1].Entries {
			if want := unit * base[1].Entries[i][2].(float64); math.Abs(e[2].(float64)-want) > 1e-7*unit {
				t.Errorf("unit %g: %v, want %g", unit, e, want)
			}
		}
	}
	_, printed, _ := command(t, "spec", "matrix-completion")
	asSpec, arrays := text(t, "completion.yaml", printed), "../../testdata/completion.npz"
	for args, want := range map[string]string{
		"run --problem matrix-completion --lambda 1 --standardize=maybe --data x.csv": "expected true, false or auto",
		"run --problem lasso --lambda 1 --standardize=auto --data x.npz":              "auto, which is for matrix-completion",
		"run --spec " + asSpec + " --lambda 1 --standardize --data " + arrays:         "the operator is not a matrix",
		"run --spec " + asSpec + " --lambda 1 --standardize=auto --data " + arrays:    "auto, which is for matrix-completion",
	} {
		status, _, stderr := command(t, strings.Fields(args)...)
		if status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s", args, status, stderr)
		}
	}
}

// Columns of texts in a table that is a matrix are left out by name.
func TestColumnsOfAMatrixAreLeftOut(t *testing.T) {
	path := text(t, "m.csv", "car,a,b,c\nx,1,2,\ny,2,,3\nz,3,4,5\nv,,5,6\n")
	run := "run --json --problem matrix-completion --effects none --lambda 1 --data " + path
	for args, want := range map[string]string{
		"": "--drop leaves columns out", "--drop nothing": `--drop: column "nothing" is missing`,
		"--drop car": `"d": 9`, "--only a,c": `"d": 6`, "--drop car,c": `"d": 6`,
	} {
		_, stdout, stderr := command(t, strings.Fields(run+" "+args)...)
		if !strings.Contains(strings.ReplaceAll(stdout, `":`, `": `)+stderr, want) {
			t.Errorf("%s: %s%s", args, stdout, stderr)
		}
	}
}

// A column that is constant but for rounding errors has no unit.
func TestAConstantColumnHasNoUnit(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 7))
	var table strings.Builder
	table.WriteString("a,b,c,d\n")
	for i := range 40 {
		u := r.NormFloat64()
		last := fmt.Sprint(u + 0.1*r.NormFloat64())
		if i%4 == 0 {
			last = ""
		}
		fmt.Fprintf(&table, "%g,123456.7,%g,%s\n", u+0.1*r.NormFloat64(), u+0.1*r.NormFloat64(), last)
	}
	path := text(t, "constant.csv", table.String())
	for _, args := range []string{"", " --standardize"} {
		status, stdout, stderr := command(t, strings.Fields("run --problem matrix-completion --lambda 0.3max --data "+
			path+args)...)
		if status != exitDone || strings.Contains(stderr, "standard deviations") ||
			strings.Contains(stdout, "the constant of standardized columns") != (args != "") {
			t.Errorf("%s: status %d, %s%s", args, status, stdout, stderr)
		}
	}
}

// A mean over some of the samples alone says so.
func TestMeanLeaveOneOutOfSomeSamples(t *testing.T) {
	data := filepath.Join(t.TempDir(), "m.npz")
	for _, args := range []string{
		"generate --problem matrix-completion --rows 30 --cols 20 --out " + data,
		"montecarlo --problem matrix-completion --effects none --samples 20 --seed 4 --data " + data,
	} {
		status, stdout, stderr := command(t, strings.Fields(args)...)
		if status != exitDone {
			t.Fatal(stderr)
		}
		n := strings.Count(stdout, `"alo":`)
		if told := strings.Contains(stderr, fmt.Sprintf("known at %d of 20 samples", n)); told != (n > 0 && n < 20) {
			t.Errorf("%d of 20: %s", n, stderr)
		}
	}
}
