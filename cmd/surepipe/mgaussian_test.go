package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"
)

const (
	people    = "../../testdata/guide/diabetes.csv"
	measured  = "progression,bmi,pressure"
	gaussians = "--loss mgaussian --problem group-lasso --drop sex --response " + measured
)

// Several responses with one support are those of glmnet 4.1.6, family = "mgaussian", thresh = 1e-22, with lambda
// multiplied by d/sqrt(K), or by the sum of the weights in the place of d.
func TestSharedSupportIsGlmnet(t *testing.T) {
	for _, c := range []struct {
		args string
		want []float64 // by rows of the intercept and the columns
	}{
		{"--lambda 400", []float64{
			-152.058477149, 12.3560347105, 37.2400931505, 0.124077590916, 0.0118738485725, 0.124182073972, 0, 0, 0, 0, 0, 0,
			-1.04629861427, -0.0636914390263, -0.000890740922787, 0, 0, 0, 59.6469661412, 2.36492101257, 6.19357831801,
			0.807173780767, 0.0612945387311, 0.249056188191}},
		{"--lambda 20000 --weights age", []float64{
			-167.951775596, 14.0998303735, 39.2272765032, -0.0380756764774, 0.00413055586696, 0.00657903080374, 0, 0, 0,
			-0.9987974481, -0.068899859173, 0.00122586624748, 0, 0, 0, 64.0401420649, 2.14658979744, 6.80273019985,
			0.88372079213, 0.0547408213664, 0.255557626403}},
		{"--lambda 2000 --intercept=false --standardize=false", []float64{
			0.311768578825, 0.0274860638403, 0.227680382863, 1.61344652303, 0.0502953206946, 0.159123470383, -1.50667218982,
			-0.0129113160043, -0.0965924665916, -2.66260255946, -0.0319399637633, 0.0903651458856, 0, 0, 0, 0, 0, 0,
			1.51519584151, 0.202195865618, 0.655893890186}},
	} {
		file := filepath.Join(t.TempDir(), "c.csv")
		status, stdout, stderr := command(t, strings.Fields("run --json --tol 1e-12 --alo --coefficients-csv "+file+
			" --data "+people+" "+gaussians+" "+c.args)...)
		if status != 0 {
			t.Errorf("%s: status %d: %s", c.args, status, stderr)
			continue
		}
		var r struct {
			GCV, ALO float64
			Names    []string
		}
		if err := json.Unmarshal([]byte(stdout), &r); err != nil || !(r.GCV > 0) || !(r.ALO > 0) {
			t.Errorf("%s: %v: %.300s", c.args, err, stdout)
		}
		got, names, most := coefficients(t, file), firstColumn(t, file), 0.0
		if len(names) != len(c.want) {
			t.Fatalf("%s: %d coefficients, expected %d", c.args, len(names), len(c.want))
		}
		for _, v := range c.want {
			most = math.Max(most, math.Abs(v))
		}
		for k, want := range c.want {
			if v := got[names[k]]; math.Abs(v-want) > 1e-9*most {
				t.Errorf("%s: %s is %.10g, glmnet has %.10g", c.args, names[k], v, want)
			}
		}
	}
}

// Leave-one-out at the choice of a sweep is the error in other rows, within the bars of both.
func TestSharedSupportSweepsAndPredicts(t *testing.T) {
	dir := t.TempDir()
	lines := strings.SplitAfter(content(t, people), "\n")
	train, test, out := filepath.Join(dir, "a.csv"), filepath.Join(dir, "b.csv"), filepath.Join(dir, "fit.npz")
	for file, rows := range map[string][]string{train: lines[1:201], test: lines[201:]} {
		if err := os.WriteFile(file, []byte(lines[0]+strings.Join(rows, "")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	status, stdout, stderr := command(t, strings.Fields("sweep --json --criterion alo --lambda 0.01max:max:8 --data "+
		train+" --out "+out+" --path "+dir+"/path.csv "+gaussians)...)
	if status != 0 {
		t.Fatal(stderr)
	}
	printed := strings.Split(strings.TrimSpace(stdout), "\n")
	var last struct {
		Chosen struct {
			ALO        float64
			Bar        float64 `json:"alo_stderr"`
			Intercepts []float64
		}
	}
	if err := json.Unmarshal([]byte(printed[len(printed)-1]), &last); err != nil || len(last.Chosen.Intercepts) != 3 {
		t.Fatalf("%v: %s", err, printed[len(printed)-1])
	}
	status, stdout, stderr = command(t, "predict", "--fit", out, "--data", test)
	predicted := strings.Split(strings.TrimSpace(stdout), "\n")
	if status != 0 || predicted[0] != measured {
		t.Fatalf("status %d: %s, %s", status, predicted[0], stderr)
	}
	head := strings.Split(strings.TrimSpace(lines[0]), ",")
	var errs []float64
	for i, line := range predicted[1:] {
		cells, truth, sum := strings.Split(line, ","), strings.Split(strings.TrimSpace(lines[201+i]), ","), 0.0
		for k, name := range strings.Split(measured, ",") {
			for j := range head {
				if head[j] == name {
					v, _ := strconv.ParseFloat(cells[k], 64)
					y, _ := strconv.ParseFloat(truth[j], 64)
					sum += (v - y) * (v - y) / 3
				}
			}
		}
		errs = append(errs, sum)
	}
	mean, sd := stat.MeanStdDev(errs, nil)
	bar := math.Hypot(last.Chosen.Bar, sd/math.Sqrt(float64(len(errs))))
	p := object(t, "predict", "--fit", out, "--data", test)
	if off := p["mean_squared_error"].(float64) - mean; math.Abs(off) > 1e-9*mean || len(p["by_response"].([]any)) != 3 ||
		p["rows_with_response"].(float64) != 200 || len(p["ignored_columns"].([]any)) != 1 {
		t.Errorf("the mean squared error is off by %g, ignored %v", off, p["ignored_columns"])
	}
	if len(errs) != 200 || !(math.Abs(mean-last.Chosen.ALO) < 3*bar) || !(bar < last.Chosen.ALO/5) {
		t.Errorf("the mean squared error of %d new rows is %g, leave-one-out %g, the bar %g", len(errs), mean,
			last.Chosen.ALO, bar)
	}
	if path := content(t, dir+"/path.csv"); strings.Contains(path, ",-0,") || strings.Contains(path, ",-0\n") {
		t.Errorf("coefficients are -0: %s", path)
	}
	t.Logf("leave-one-out %.5g, new rows %.5g, bar %.3g", last.Chosen.ALO, mean, bar)
	for args, want := range map[string]string{
		"run --problem lasso --lambda 100 --loss mgaussian --response bmi --data " + people: "a column for each class or " +
			"response",
	} {
		if status, _, stderr := command(t, strings.Fields(args)...); status == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d: %s, expected %q", args, status, stderr, want)
		}
	}
}

// A fit of several responses, each with its own lambda, has in new rows the errors of the fits of each.
func TestSeveralResponsesAreJudged(t *testing.T) {
	for args, names := range map[string][]string{
		"--problem lasso --lambda 200 --drop sex":                   {"progression", "bmi"},
		"--problem lasso --lambda 2 --loss logistic --drop glucose": {"sex", "old"},
	} {
		table := people
		if strings.Contains(args, "logistic") {
			table = text(t, "old.csv", oldAndYoung(t))
		}
		out := filepath.Join(t.TempDir(), "fit.npz")
		fit := func(response string) map[string]any {
			if status, _, stderr := command(t, append(strings.Fields("run "+args), "--data", table, "--out", out, "--response",
				response)...); status != 0 {
				t.Fatal(stderr)
			}
			return object(t, "predict", "--fit", out, "--data", table)
		}
		key := "mean_squared_error"
		if strings.Contains(args, "logistic") {
			key = "mean_loss"
		}
		both, mean := fit(strings.Join(names, ",")), 0.0
		for k, name := range names {
			args += " --drop " + names[1-k]
			one := fit(name)[key].(float64)
			args = strings.TrimSuffix(args, " --drop "+names[1-k])
			mean += one / 2
			near(t, name, both["by_response"].([]any)[k].(float64), one)
		}
		near(t, "both", both[key].(float64), mean)
	}
}

// oldAndYoung is the table of people with a column of texts for their age.
func oldAndYoung(t *testing.T) string {
	var b strings.Builder
	for i, line := range strings.Split(strings.TrimSpace(content(t, people)), "\n") {
		line = strings.TrimSpace(line)
		switch age, err := strconv.ParseFloat(strings.SplitN(line, ",", 2)[0], 64); {
		case i == 0:
			line += ",old"
		case err != nil:
			t.Fatal(err)
		case age > 50:
			line += ",yes"
		default:
			line += ",no"
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// SURE per coordinate, and the degrees of freedom that follow y, are those of the entries of several responses, of
// which there are more than rows.
func TestSharedSupportCountsEntries(t *testing.T) {
	known := strings.Fields("--sigma2 1000 --loss mgaussian --problem group-lasso --response " + measured + " --data " + people)
	r := object(t, append(strings.Fields("run --lambda 100"), known...)...)
	sure, each := r["sure"].(float64), r["sure_per_coordinate"].(float64)
	if r["d"].(float64) != 400 || r["entries"].(float64) != 1200 || math.Abs(each-sure/1200) > 1e-12*math.Abs(each) {
		t.Errorf("SURE is %g, %g per coordinate of %v", sure, each, r["entries"])
	}
	dir := t.TempDir()
	rng, rows, names := rand.New(rand.NewPCG(3, 4)), []string{""}, []string{"x", "z"}
	for k := range 15 {
		names = append(names, fmt.Sprintf("y%d", k))
	}
	rows[0] = strings.Join(names, ",")
	for range 20 {
		x, row := rng.NormFloat64(), []string{}
		for range names {
			row = append(row, strconv.FormatFloat(3*x+rng.NormFloat64(), 'g', -1, 64))
		}
		row[0] = strconv.FormatFloat(x, 'g', -1, 64)
		rows = append(rows, strings.Join(row, ","))
	}
	table := filepath.Join(dir, "many.csv")
	if err := os.WriteFile(table, []byte(strings.Join(rows, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := strings.Fields("sweep --loss mgaussian --problem ridge --sigma2 1 --lambda 0.1:1:3 --response " +
		strings.Join(names[2:], ",") + " --data " + table)
	status, stdout, stderr := command(t, args...)
	if status != 0 || !strings.Contains(stdout, "divergence 39.1") || strings.Contains(stderr, "degrees of freedom of") {
		t.Errorf("status %d, 300 entries, 39 degrees of freedom: %s%s", status, stdout, stderr)
	}
}

// The groups of the rows of an archive are labels of rows, whatever the number of responses, as those of a table.
func TestSharedSupportLeavesOutGroupsOfAnArchive(t *testing.T) {
	x, y, labels := make([]float64, 40*3), make([]float64, 40*2), make([]float64, 40)
	rng, rows := rand.New(rand.NewPCG(5, 6)), []string{"p,q,a,b,c,team"}
	for i := range labels {
		labels[i] = float64(i / 5)
		for j := range 3 {
			x[3*i+j] = rng.NormFloat64()
		}
		y[2*i], y[2*i+1] = x[3*i]+rng.NormFloat64(), rng.NormFloat64()
		rows = append(rows, fmt.Sprintf("%v,%v,%v,%v,%v,%v", y[2*i], y[2*i+1], x[3*i], x[3*i+1], x[3*i+2], labels[i]))
	}
	for _, args := range []string{"--problem ridge --lambda 3", "--problem group-lasso --lambda 3"} {
		args := strings.Fields("run --intercept --standardize --loss mgaussian " + args)
		table := object(t, append(args, "--response", "p,q", "--groups", "team", "--data",
			text(t, "table.csv", strings.Join(rows, "\n")+"\n"))...)
		archive := object(t, append(args, "--groups", "team", "--data",
			save(t, floats("X", x, 40, 3), floats("y", y, 40, 2), floats("team", labels, 40)))...)
		want := table["criteria"].(map[string]any)["lgo"].(float64)
		got := archive["criteria"].(map[string]any)["lgo"].(float64)
		if !(math.Abs(got-want) <= 1e-9*want) {
			t.Errorf("%s: leave-group-out is %.12g of the archive, %.12g of the table", args, got, want)
		}
	}
}
