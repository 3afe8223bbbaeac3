package main

import (
	"encoding/json"
	"math"
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
		train+" --out "+out+" "+gaussians)...)
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
	if len(errs) != 200 || !(math.Abs(mean-last.Chosen.ALO) < 3*bar) || !(bar < last.Chosen.ALO/5) {
		t.Errorf("the mean squared error of %d new rows is %g, leave-one-out %g, the bar %g", len(errs), mean,
			last.Chosen.ALO, bar)
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
