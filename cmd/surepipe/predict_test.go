package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/dataio"
	"surepipe/problems"
	"surepipe/study"
)

// column reads a column of numbers of a table of text.
func column(t *testing.T, text, name string) (values []float64) {
	t.Helper()
	table, err := dataio.ReadTable(strings.NewReader(text), dataio.TableOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := table.Column(name)
	if err != nil {
		t.Fatal(err)
	}
	return c.Values
}

// shuffled is the table of stack losses with its columns in another order, one more, and decimal
// points.
func shuffled(t *testing.T) string {
	t.Helper()
	in := csv.NewReader(strings.NewReader(strings.ReplaceAll(stackLoss, ",", ".")))
	in.Comma = ';'
	records, err := in.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var s strings.Builder
	for i, r := range records {
		note := "note"
		if i > 0 {
			note = "as measured"
		}
		fmt.Fprintln(&s, strings.Join([]string{r[3], note, r[2], r[4], r[1]}, ","))
	}
	return s.String()
}

// The rows of the fit itself are predicted as mu_hat, from any order of the columns, after a run as
// after a sweep, with groups, without an intercept.
func TestPredictionsOfTheFitAreItsMuHat(t *testing.T) {
	table := text(t, "loss.csv", stackLoss)
	again := text(t, "again.csv", shuffled(t))
	fitted := filepath.Join(t.TempDir(), "fit.npz")
	for _, args := range []string{
		"run --problem lasso --lambda 15",
		"run --problem lasso --lambda 15 --standardize=false",
		"run --problem ridge --lambda 2 --intercept=false",
		"run --problem group-lasso --lambda 3 --categorical Water.Temp",
		"run --problem ols --categorical Water.Temp",
		"sweep --problem lasso --lambda 0.01max:max:5 --refine 2",
	} {
		if status, _, stderr := command(t, append(strings.Fields(args), "--data", table, "--response", "stack.loss",
			"--out", fitted)...); status != exitDone {
			t.Fatalf("%s: status %d, %s", args, status, stderr)
		}
		want := readArray(t, fitted, "mu_hat")
		status, stdout, stderr := command(t, "predict", "--fit", fitted, "--data", again)
		got := column(t, stdout, "prediction")
		if status != exitDone || len(got) != len(want) ||
			!strings.Contains(stderr, "columns that the fit does not use are ignored: note\n") {
			t.Fatalf("%s: status %d, %s%s", args, status, stdout, stderr)
		}
		sum := 0.0
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-10*(1+math.Abs(want[i])) {
				t.Errorf("%s: prediction %d is %g, expected %g", args, i, got[i], want[i])
			}
			sum += (stackLossY[i] - want[i]) * (stackLossY[i] - want[i])
		}
		o := object(t, "predict", "--fit", fitted, "--data", again)
		near(t, args+" mean squared error", o["mean_squared_error"].(float64), sum/21)
		if o["count"].(float64) != 21 || fmt.Sprint(o["ignored_columns"]) != "[note]" {
			t.Errorf("%s: %v", args, o)
		}
	}
}

// Rows far beyond those of the fit are marked, in a table and in an array; its own are not, with any loss.
func TestPredictionsBeyondTheDataAreMarked(t *testing.T) {
	fitted := filepath.Join(t.TempDir(), "fit.npz")
	marked := func(data string) bool {
		o := object(t, "predict", "--fit", fitted, "--data", data)
		return strings.Contains(fmt.Sprint(o["warnings"]), "code:beyond-data")
	}
	guide := "../../testdata/guide/"
	for _, c := range []struct{ args, data, response, column string }{
		{"ridge --lambda 2", "diabetes.csv", "progression", "bmi"},
		{"lasso --lambda 0.01max --loss logistic", "votes.csv", "vote", "PID"},
		{"group-lasso --lambda 0.01max --loss mgaussian", "diabetes.csv", "progression,glucose", "bmi"},
	} {
		if status, _, stderr := command(t, append(strings.Fields("run --problem "+c.args), "--data", guide+c.data,
			"--response", c.response, "--out", fitted)...); status != exitDone {
			t.Fatalf("%s: status %d, %s", c.args, status, stderr)
		}
		content, err := os.ReadFile(guide + c.data)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(content), "\n")
		cells, at := strings.Split(lines[3], ","), slices.Index(strings.Split(lines[0], ","), c.column)
		cells[at] += "e3" // one value in other units
		lines[3] = strings.Join(cells, ",")
		if far := text(t, "far.csv", strings.Join(lines, "\n")); marked(guide+c.data) || !marked(far) {
			t.Errorf("%s: its own rows are marked, or a value in other units is not", c.args)
		}
	}
	if status, _, stderr := command(t, "run", "--problem", "lasso", "--lambda", "20", "--data",
		"../../testdata/diabetes.npz", "--out", fitted); status != exitDone {
		t.Fatal(stderr)
	}
	far := filepath.Join(t.TempDir(), "X.npy")
	row := make([]float64, 10)
	for i := range row {
		row[i] = 100
	}
	if err := dataio.WriteNPY(far, floats("", row, 1, 10)); err != nil {
		t.Fatal(err)
	}
	if marked("../../testdata/diabetes.npz") || !marked(far) {
		t.Error("a row of an array far beyond those of the fit is not marked, or its own are")
	}
}

// Fits of arrays are predicted by arrays, dense and sparse.
func TestPredictionsOfArrays(t *testing.T) {
	dir := t.TempDir()
	fitted := filepath.Join(dir, "fit.npz")
	diabetes := "../../testdata/diabetes.npz"
	if status, _, stderr := command(t, "run", "--problem", "lasso", "--lambda", "20", "--standardize", "--intercept",
		"--data", diabetes, "--out", fitted); status != exitDone {
		t.Fatal(stderr)
	}
	want := readArray(t, fitted, "mu_hat")
	file, err := readFile(t.Context(), diabetes, "lasso")
	if err != nil {
		t.Fatal(err)
	}
	d, p := file.X.Dims()
	npy := filepath.Join(dir, "X.npy")
	if err := dataio.WriteNPY(npy, floats("", file.X.(*mat.Dense).RawMatrix().Data, d, p)); err != nil {
		t.Fatal(err)
	}
	coords := fmt.Sprintf("%%%%MatrixMarket matrix coordinate real general\n%d %d %d\n", d, p, d*p)
	for i := range d {
		for j := range p {
			coords += fmt.Sprintln(i+1, j+1, strconv.FormatFloat(file.X.At(i, j), 'g', -1, 64))
		}
	}
	for _, data := range []string{diabetes, npy, text(t, "X.mtx", coords)} {
		status, stdout, stderr := command(t, "predict", "--fit", fitted, "--data", data)
		if status != exitDone {
			t.Fatal(stderr)
		}
		for i, v := range column(t, stdout, "prediction") {
			if math.Abs(v-want[i]) > 1e-9*math.Abs(want[i]) {
				t.Fatalf("%s: prediction %d is %g, expected %g", data, i, v, want[i])
			}
		}
	}
}

// A completion predicts the entries that are asked for, and without any those that were not
// observed.
func TestPredictionsOfEntries(t *testing.T) {
	dir := t.TempDir()
	data, err := problems.GenerateMatrixCompletion(12, 9, 3)
	if err != nil {
		t.Fatal(err)
	}
	fitted, out := filepath.Join(dir, "fit.npz"), filepath.Join(dir, "missing.csv")
	if status, _, stderr := command(t, "run", "--problem", "matrix-completion", "--data",
		save(t, problems.Arrays(data)...), "--out", fitted); status != exitDone {
		t.Fatal(stderr)
	}
	b := readArray(t, fitted, "b")
	if status, stdout, stderr := command(t, "predict", "--fit", fitted, "--out", out); status != exitDone ||
		stdout != "" {
		t.Fatal(status, stdout, stderr)
	}
	content, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	rows, columns, values := column(t, string(content), "row"), column(t, string(content), "column"),
		column(t, string(content), "prediction")
	observed := map[int]bool{}
	for _, c := range data.Indices {
		observed[c] = true
	}
	if len(values) != 108-len(observed) {
		t.Errorf("%d entries, expected %d", len(values), 108-len(observed))
	}
	for i, v := range values {
		if c := 9*int(rows[i]) + int(columns[i]); v != b[c] || observed[c] {
			t.Errorf("entry %g, %g is %g, expected %g, observed %t", rows[i], columns[i], v, b[c], observed[c])
		}
	}
	chosen := text(t, "e.csv", "column,who,row\n3,a,0\n8,b,11\n")
	o := object(t, "predict", "--fit", fitted, "--data", chosen)
	if got, want := fmt.Sprint(o["entries"]), fmt.Sprintf("[[0 3 %v] [11 8 %v]]", b[3], b[107]); got != want {
		t.Errorf("%s, expected %s", got, want)
	}
}

// Entries of a table are those of the arrays, and are predicted by the names of their rows and
// columns.
func TestPredictionsOfNamedEntries(t *testing.T) {
	data := problems.Data{Shape: []int{12, 9}}
	for c := range 108 {
		if c%5 != 2 {
			data.Indices, data.Y = append(data.Indices, c),
				append(data.Y, 3+math.Sin(float64(c*c))+float64(c/9)*float64(c%9)/10)
		}
	}
	places := make([]float64, len(data.Indices))
	for i, c := range data.Indices {
		places[i] = float64(c)
	}
	arrays := save(t, floats("y", data.Y, len(places)), floats("indices", places, len(places)),
		floats("shape", []float64{12, 9}, 2))
	table := "item,user,rating\n"
	for i, c := range data.Indices {
		table += fmt.Sprintf("%d,\"u, %c\",%v\n", 100+c%9, 'a'+c/9, data.Y[i])
	}
	table += "100,\"u, a\",\n"
	dir := t.TempDir()
	fitted, named := filepath.Join(dir, "fit.npz"), filepath.Join(dir, "named.npz")
	flags := []string{"run", "--problem", "matrix-completion", "--tol", "1e-11", "--lambda", "3", "--effects", "none"}
	if status, _, stderr := command(t, append(flags, "--data", arrays, "--out", fitted)...); status != exitDone {
		t.Fatal(stderr)
	}
	status, _, stderr := command(t, append(flags, "--data", text(t, "r.csv", table), "--response", "rating",
		"--missing", "drop", "--out", named)...)
	if status != exitDone || !strings.Contains(stderr, "rows have a missing value and are left out") {
		t.Fatal(stderr)
	}
	b := readArray(t, fitted, "b")
	o := object(t, "predict", "--fit", named, "--data", text(t, "ask.csv", "user,item\n\"u, b\",103\n\"u, l\",108\n"))
	for k, c := range []int{9 + 3, 108 - 1} {
		e := o["entries"].([]any)[k].([]any)
		if v := e[2].(float64); math.Abs(v-b[c]) > 1e-6 || e[0] != []string{"103", "108"}[k] ||
			e[1] != []string{"u, b", "u, l"}[k] {
			t.Errorf("%v, expected %g", e, b[c])
		}
	}
	if status, stdout, _ := command(t, "predict", "--fit", named); status != exitDone ||
		!strings.HasPrefix(stdout, "item,user,prediction\n100,\"u, ") ||
		strings.Count(stdout, "\n") != 109-len(data.Indices) {
		t.Errorf("status %d\n%s", status, stdout)
	}
	if status, _, stderr := command(t, "predict", "--fit", named, "--data",
		text(t, "ask.csv", "user,item\nbob,103\n")); status != exitUsage ||
		!strings.Contains(stderr, `line 2: user "bob" is not in the fit`) {
		t.Errorf("status %d, %s", status, stderr)
	}
}

// What does not match is one line, and exit status 2.
func TestBadPredictionsAreRefused(t *testing.T) {
	table := text(t, "t.csv", "a,kind,y\n1,u,1\n2,v,2\n4,u,3\n5,v,1\n7,u,2\n")
	dir := t.TempDir()
	fitted, entries, svt := filepath.Join(dir, "fit.npz"), filepath.Join(dir, "mc.npz"), filepath.Join(dir, "svt.npz")
	completion, err := problems.GenerateMatrixCompletion(5, 4, 3)
	if err != nil {
		t.Fatal(err)
	}
	matrix := text(t, "m.csv", "1,2\n3,4\n")
	for _, args := range [][]string{
		{"run", "--problem", "ridge", "--lambda", "1", "--data", table, "--response", "y", "--out", fitted},
		{"run", "--problem", "matrix-completion", "--data", save(t, problems.Arrays(completion)...), "--out", entries},
		{"run", "--problem", "svt", "--lambda", "1", "--data", matrix, "--out", svt},
	} {
		if status, _, stderr := command(t, args...); status != exitDone {
			t.Fatalf("%v: %s", args, stderr)
		}
	}
	in := func(content string) string { return "--fit " + fitted + " --data " + text(t, "new.csv", content) }
	for _, c := range []struct{ args, want string }{
		{"", "--fit is missing"},
		{"--fit " + fitted, "--data is missing, expected a file with new rows"},
		{"--fit /nowhere/fit.npz", "/nowhere/fit.npz: no such file"},
		{"--fit " + table, "is not a numpy .npz file"},
		{"--fit " + save(t, floats("b", []float64{1}, 1)),
			"holds no fit: expected a file that run --out or sweep --out wrote"},
		{"--fit " + svt, "is a fit of svt, which has nothing to predict"},
		{"--fit " + fitted + " --data " + entries, "expected a table (.csv, .tsv)"},
		{"--fit " + fitted + " --data " + table + " --out p.npz", "expected a name that ends in .csv"},
		{"--fit " + fitted + " --data " + table + " --out " + table, "an output must not overwrite an input"},
		{in("kind\nu\n"), `column "a" is missing; the table holds "kind"`},
		{in("b,c\n1,2\n"), `2 columns of the fit are missing: "a", "kind"`},
		{in("a,kind\n1,w\n"), `line 2, column "kind": found the level "w", which the fit does not know; expected one of "u", "v"`},
		{in("a,kind\n1,u\n,v\n"), `line 3, column "a": the value is missing`},
		{in("a,kind\nx,u\n"), `column "a" holds texts such as "x", but numbers in the fit`},
		{in("a,kind\n"), "holds a header line, line 1, and no rows"},
		{"--fit " + entries + " --data " + table, `column "row" is missing`},
		{"--fit " + entries + " --data " + text(t, "e.csv", "row,column\n1,2\n5,0\n"),
			"line 3: row 5, column 0 lies outside the matrix of 5 x 4, counted from 0"},
		{"--fit " + entries + " --data " + text(t, "e.csv", "row,column\n1,2.5\n"),
			`line 2, column "column": found 2.5, expected an integer counted from 0`},
		{"--fit " + entries + " --data " + text(t, "e.csv", "row,column\n1,\n"), `line 2, column "column": found NaN`},
	} {
		status, stdout, stderr := command(t, append([]string{"predict"}, strings.Fields(c.args)...)...)
		if status != exitUsage || stdout != "" || strings.Count(stderr, "\n") != 1 ||
			!strings.Contains(stderr, c.want) {
			t.Errorf("surepipe predict %s: status %d, expected %q in one line, found %q%q", c.args, status, c.want,
				stdout, stderr)
		}
	}
}

// The coefficients have the table's names, and the debiased ones are those of lm in R,
// summary(lm(stack.loss ~ ., stackloss)): for the LASSO's active columns, with errors for sigma2.
func TestCoefficientsHaveNames(t *testing.T) {
	table := text(t, "loss.csv", stackLoss)
	out := filepath.Join(t.TempDir(), "c.csv")
	args := strings.Fields("run --problem lasso --lambda 15 --sigma2 10.5194073 --tol 1e-12 --coefficients " +
		"--response stack.loss --data " + table + " --coefficients-csv " + out)
	o := object(t, args...)
	var c []study.Coefficient
	text, err := json.Marshal(o["coefficients"])
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	if o["debiased_sigma2"] != "sigma2" || len(c) != 4 || c[3].Debiased != nil || c[3].Estimate != 0 ||
		c[0].Debiased != nil {
		t.Fatalf("%s, %v", text, o["debiased_sigma2"])
	}
	for j, want := range []struct {
		name                       string
		estimate, debiased, stdErr float64
	}{{study.InterceptName, -44.9099683772, 0, 0}, {"Air.Flow", 0.626351389669, 0.7156402, 0.1348582},
		{"Water.Temp", 1.16539373009, 1.2952861, 0.3680243}} {
		near := func(got, want float64) bool { return math.Abs(got-want) < 1e-6*math.Abs(want) }
		if c[j].Name != want.name || !near(c[j].Estimate, want.estimate) || j > 0 &&
			(!near(*c[j].Debiased, want.debiased) || !near(*c[j].DebiasedStdErr, want.stdErr)) {
			t.Errorf("%+v, expected %+v", c[j], want)
		}
	}
	content, err := os.ReadFile(out)
	if err != nil || !strings.HasPrefix(string(content),
		"name,estimate,debiased,debiased_stderr\n(intercept),-44.9") ||
		!strings.HasSuffix(string(content), "\nAcid.Conc.,0,,\n") {
		t.Errorf("%s, %v", content, err)
	}
	status, stdout, _ := command(t, args...)
	if status != exitDone || !strings.Contains(stdout, "\n  Air.Flow     0.626351   0.71564        0.13\n") ||
		!strings.Contains(stdout, "1 of 3 coefficients are 0\n") {
		t.Errorf("status %d\n%s", status, stdout)
	}
	sweep := strings.Fields("sweep --problem lasso --lambda 1:20:3 --refine 0 --coefficients --json --response " +
		"stack.loss --data " + table)
	status, stdout, _ = command(t, sweep...)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if last := lines[len(lines)-1]; status != exitDone ||
		!strings.Contains(last, `"coefficients":[{"name":"(intercept)"`) ||
		!strings.Contains(last, `"debiased_sigma2":"sigma2_df"`) || strings.Contains(lines[1], "coefficients") {
		t.Errorf("status %d\n%s", status, stdout)
	}
	wide, err := problems.GenerateLasso(20, 30, 1)
	if err != nil {
		t.Fatal(err)
	}
	o = object(t, "run", "--problem", "lasso", "--coefficients", "--lambda", "0.5max", "--data",
		save(t, problems.Arrays(wide)...))
	if o["debiased_by"] != study.ByScores || o["debiased_sigma2"] != nil || len(o["coefficients"].([]any)) != 30 {
		t.Errorf("%v, %v", o["debiased_by"], o["debiased_absent"])
	}
	if status, _, stderr := command(t, "run", "--problem", "svt", "--lambda", "1", "--coefficients", "--data",
		"../../testdata/camera.png"); status != exitUsage ||
		!strings.Contains(stderr, "--coefficients is for regressions") {
		t.Errorf("status %d, %s", status, stderr)
	}
}
