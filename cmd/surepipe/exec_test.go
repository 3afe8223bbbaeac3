package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"

	"surepipe/internal/dataio"
	"surepipe/pipeline"
	"surepipe/study"
)

// asProgram is the first argument with which this test binary is a program of its own.
const asProgram = "surepipe-test-program"

func init() {
	if len(os.Args) > 3 && os.Args[1] == asProgram {
		threshold(os.Args[2], os.Args[3])
		os.Exit(0)
	}
}

// threshold is a program that thresholds its standard input, softly or hard.
func threshold(how, weight string) {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	y, err := dataio.DecodeNPY("y", text)
	if err != nil {
		panic(err)
	}
	lambda, err := strconv.ParseFloat(weight, 64)
	if err != nil {
		panic(err)
	}
	for i, v := range y.Data {
		size := math.Abs(v)
		switch {
		case how == "sleep":
			time.Sleep(time.Minute)
		case how == "crash":
			fmt.Fprintln(os.Stderr, "cannot go on")
			os.Exit(4)
		case size <= lambda:
			y.Data[i] = 0
		case how == "soft":
			y.Data[i] = math.Copysign(size-lambda, v)
		}
	}
	if err := dataio.EncodeNPY(os.Stdout, y); err != nil {
		panic(err)
	}
}

// self is this test binary as a command line for --exec.
func self(t *testing.T, how string) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return "'" + path + "' " + asProgram + " " + how + " {lambda}"
}

// sparseSignal is a file with y, mu and sigma2 = 1: a matrix, of which a few entries are large.
func sparseSignal(t *testing.T) (path string, y []float64) {
	t.Helper()
	const rows, cols = 30, 20
	r := rand.New(rand.NewPCG(4, 4))
	y, mu := make([]float64, rows*cols), make([]float64, rows*cols)
	for i := range y {
		if i%10 == 0 {
			mu[i] = 4
		}
		y[i] = mu[i] + r.NormFloat64()
	}
	return save(t, floats("y", y, rows, cols), floats("mu", mu, rows, cols), floats("sigma2", []float64{1})), y
}

// A command is an estimator: SURE of soft thresholding within its error, the JSON of run, and the
// file of --out.
func TestExecIsAnEstimator(t *testing.T) {
	data, y := sparseSignal(t)
	exact := -float64(len(y))
	for _, v := range y {
		exact += math.Pow(min(math.Abs(v), 1.5), 2)
		if math.Abs(v) > 1.5 {
			exact += 2
		}
	}
	out := filepath.Join(t.TempDir(), "fit.npz")
	args := []string{"run", "--exec", self(t, "soft"), "--data", data, "--lambda", "1.5", "--parallel", "2",
		"--queries", "10"}
	o := object(t, append(args, "--out", out)...)
	at := func(key string) float64 { return o[key].(float64) }
	// Within the step of the threshold a coordinate counts in part.
	if math.Abs(at("sure")-exact) > 3*2*at("divergence_stderr")+3 || at("sure_stderr") < 20 || at("d") != 600 ||
		at("lambda") != 1.5 || !(at("loss") > 0) {
		t.Errorf("SURE %g, exact %g: %v", at("sure"), exact, o)
	}
	if o["problem"] != "exec" || o["derivative"] != "monte-carlo" ||
		!strings.Contains(o["exec"].(string), "soft {lambda}") || o["warnings"] != nil {
		t.Errorf("%v", o)
	}
	if fit := readArray(t, out, "mu_hat"); len(fit) != 600 || fit[0] != math.Copysign(max(math.Abs(y[0])-1.5, 0),
		y[0]) {
		t.Errorf("mu_hat begins with %g", fit[0])
	}
	if at("eps") != 0.01 || o["alpha"] != nil {
		t.Errorf("eps %v, alpha %v", o["eps"], o["alpha"])
	}
	o = object(t, append(args, "--divergence", "coupled-bootstrap")...)
	if o["eps"] != nil {
		t.Errorf("eps %v", o["eps"])
	}
	if math.Abs(at("sure")-exact) > 100 || at("alpha") != 0.1 || o["derivative"] != "coupled-bootstrap" ||
		o["gcv"] != nil || !strings.Contains(o["sure_estimates"].(string), "(1 + alpha) sigma2") {
		t.Errorf("SURE %g, exact %g: %v", at("sure"), exact, o)
	}
	status, stdout, stderr := command(t, append(args, "--divergence", "coupled-bootstrap")...)
	if status != exitDone || strings.Contains(stdout, "not defined") || !strings.Contains(stdout, "command") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
}

// Hard thresholding is not continuous: its differences are marked, and the coupled bootstrap serves.
func TestExecOfHardThresholding(t *testing.T) {
	data, _ := sparseSignal(t)
	args := []string{"run", "--exec", self(t, "hard"), "--data", data, "--lambda", "2", "--queries", "10"}
	status, stdout, stderr := command(t, args...)
	if status != exitNotConverged || !strings.Contains(stdout, "NOT SMOOTH") ||
		!strings.Contains(stderr, "--divergence antithetic") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
	o := object(t, append(args, "--divergence", "coupled-bootstrap", "--queries", "40", "--parallel", "2")...)
	bar := math.Hypot(o["sure_stderr"].(float64), 2*o["divergence_stderr"].(float64))
	if math.Abs(o["sure"].(float64)-o["loss"].(float64)) > 3*bar || bar > 100 {
		t.Errorf("SURE %v, loss %v, error bar %g", o["sure"], o["loss"], bar)
	}
}

// Counts have a risk without sigma2, which stands for their mean, and other numbers and sigma2 are refused.
func TestExecOfCounts(t *testing.T) {
	y := make([]float64, 60)
	for i := range y {
		y[i] = float64((i * 7) % 11)
	}
	data := save(t, floats("y", y, 60))
	args := []string{"run", "--exec", self(t, "soft"), "--data", data, "--lambda", "0.5", "--divergence", "thinning",
		"--alpha", "0.25", "--queries", "20"}
	o := object(t, args...)
	if o["sigma2"].(float64) != stat.Mean(y, nil) || o["alpha"].(float64) != 0.25 || o["gcv"] != nil ||
		!strings.Contains(o["sure_estimates"].(string), "1/(1 + alpha) of the counts") || !(o["sure_stderr"].(float64) > 0) {
		t.Errorf("%v", o)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{append(args, "--sigma2", "1"), "--sigma2 is not for --divergence thinning"},
		{append(args, "--queries", "9"), "9 values, expected at least 10 for thinning"},
		{append([]string{"montecarlo"}, args[1:]...), "--divergence is thinning, which is for one y of counts"},
		{[]string{"run", "--exec", self(t, "soft"), "--data", save(t, floats("y", []float64{1, 2.5}, 2)), "--lambda", "1",
			"--divergence", "thinning"}, "y[1] is 2.5, expected a count, for --divergence thinning"},
	} {
		if status, _, stderr := command(t, c.args...); status == exitDone || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: status %d, %s, expected %q", c.args, status, stderr, c.want)
		}
	}
}

// Samples of a command are simulated around mu or read from a stack, with the same lines for any
// --parallel and in parts; SURE - loss is 0 on average, and spread as the errors say.
func TestExecAtManySamples(t *testing.T) {
	data, _ := sparseSignal(t)
	for _, row := range pipeline.BlackBoxRows() {
		if row.Counts {
			continue
		}
		method := row.Name
		args := []string{"montecarlo", "--exec", self(t, "soft"), "--data", data, "--lambda", "1.5", "--queries", "4",
			"--divergence", string(method), "--samples", "7", "--seeds", "2"}
		status, stdout, stderr := command(t, append(args, "--parallel", "2")...)
		if status != exitDone {
			t.Fatalf("%s: status %d, %s", method, status, stderr)
		}
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		var s study.Summary
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &s); err != nil || s.Samples != 7 || s.Seeds != 2 {
			t.Fatalf("%s: %v, %s", method, err, lines[len(lines)-1])
		}
		if *s.RMSSUREStdErr < 20 || method == pipeline.MonteCarlo && math.Abs(*s.MeanError) > 5**s.MeanErrorStdErr ||
			*s.SeedsSDSURE == 0 {
			t.Errorf("%s: %s", method, lines[len(lines)-1])
		}
		status, part, stderr := command(t, append(args[:len(args)-4:len(args)-4], "--first", "5", "--samples", "2")...)
		if status != exitDone {
			t.Fatalf("%s: status %d, %s", method, status, stderr)
		}
		for i, line := range strings.Split(part, "\n")[:2] {
			var a, b study.Result
			if json.Unmarshal([]byte(line), &a) != nil || json.Unmarshal([]byte(lines[5+i]), &b) != nil ||
				*a.SURE != *b.SURE || *a.Sample != 5+i {
				t.Errorf("%s: sample %d is\n%s\nexpected\n%s", method, 5+i, line, lines[5+i])
			}
		}
	}
	y := make([]float64, 3*8)
	for i := range y {
		y[i] = float64(i%7) - 3
	}
	stack := filepath.Join(t.TempDir(), "y.npy")
	if err := dataio.WriteNPY(stack, dataio.Array{Name: "y", Shape: []int{3, 2, 4}, Data: y}); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := command(t, "montecarlo", "--exec", self(t, "hard"), "--y", stack, "--sigma2", "1",
		"--lambda", "1", "--queries", "4", "--divergence", "coupled-bootstrap")
	if status != exitDone || strings.Count(stdout, "\n") != 4 {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
	status, _, stderr = command(t, "montecarlo", "--exec", self(t, "soft"), "--data", stack, "--sigma2", "1",
		"--lambda", "1")
	if status != exitUsage || !strings.Contains(stderr, "array \"mu\" is missing") {
		t.Errorf("status %d, %s", status, stderr)
	}
	status, _, stderr = command(t, "montecarlo", "--exec", self(t, "hard"), "--data", data, "--lambda", "2",
		"--queries", "10", "--samples", "2")
	if status != exitNotConverged || !strings.Contains(stderr, "2 of 2 samples") {
		t.Errorf("status %d, %s", status, stderr)
	}
}

// A sweep of a command finds the minimum, is the same for any --parallel, and continues.
func TestExecAlongASweep(t *testing.T) {
	data, _ := sparseSignal(t)
	log := filepath.Join(t.TempDir(), "sweep.jsonl")
	args := []string{"--exec", self(t, "soft"), "--data", data, "--lambda", "0.5:4:4", "--queries", "4", "--refine",
		"2", "--divergence", "coupled-bootstrap"}
	header, points, s := sweepLines(t, append([]string{"--jsonl", log, "--parallel", "2"}, args...)...)
	if len(points) < 5 || s.Minimizer.SURE == nil || header["derivative"] != "coupled-bootstrap" ||
		header["alpha"].(float64) != 0.1 {
		t.Fatalf("%v, %d points, %+v", header, len(points), s)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	if err := os.WriteFile(log, []byte(strings.Join(lines[:3], "")), 0o666); err != nil {
		t.Fatal(err)
	}
	_, again, _ := sweepLines(t, append([]string{"--jsonl", log, "--resume"}, args...)...)
	for i, p := range again {
		if *p.SURE != *points[i].SURE || p.Divergence != points[i].Divergence {
			t.Errorf("point %d: %g, expected %g", i, *p.SURE, *points[i].SURE)
		}
	}
	args[1] = self(t, "hard")
	if status, _, stderr := command(t, append([]string{"sweep", "--jsonl", log, "--resume"},
		args...)...); status != exitUsage || !strings.Contains(stderr, "it was begun with exec") {
		t.Errorf("status %d, %s", status, stderr)
	}
}

func TestBadExecIsRefusedByName(t *testing.T) {
	data, _ := sparseSignal(t)
	bare := save(t, floats("a", []float64{1}, 1), floats("b", []float64{1}, 1))
	soft := self(t, "soft")
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"--exec", soft}, "--data is missing", exitUsage},
		{[]string{"--exec", soft, "--data", data}, "--lambda is missing, and --exec has {lambda}", exitUsage},
		{[]string{"--exec", soft, "--data", data, "--lambda", "0.1max"}, "the weights of a command have no maximum",
			exitUsage},
		{[]string{"--exec", soft, "--data", data, "--lambda", "1", "--gamma", "1"}, "has no {gamma}", exitUsage},
		{[]string{"--exec", soft, "--data", data, "--lambda", "1", "--problem", "lasso"},
			"--problem is for --problem and --spec, found --exec", exitUsage},
		{[]string{"--exec", soft, "--data", data, "--lambda", "1", "--alpha", "2"},
			"--alpha is for --divergence antithetic, coupled-bootstrap, thinning, found monte-carlo", exitUsage},
		{[]string{"--exec", soft, "--data", data, "--lambda", "1", "--divergence", "exact"},
			"--divergence is \"exact\", expected one of monte-carlo, antithetic, coupled-bootstrap, thinning",
			exitUsage},
		{[]string{"--exec", "'a", "--data", data}, "has a quote ' without its end", exitUsage},
		{[]string{"--exec", "no-such-program {lambda}", "--data", data, "--lambda", "1"}, "executable file not found",
			exitUsage},
		{[]string{"--exec", soft, "--data", bare, "--lambda", "1"}, `array "y" is missing`, exitUsage},
		{[]string{"--exec", soft, "--data", data, "--lambda", "1", "--sigma2", "ols-residual"},
			"it is for --problem and --spec", exitUsage},
		{[]string{"--problem", "lasso", "--data", data, "--eps", "1"}, "--eps is for --exec, which is missing",
			exitUsage},
		{[]string{"--exec", self(t, "crash"), "--data", data, "--lambda", "1"},
			"exit status 4; its standard error ends:\n    cannot go on", exitFailure},
		{[]string{"--exec", self(t, "sleep"), "--data", data, "--lambda", "1", "--exec-timeout", "200ms"},
			"took longer than the time limit, 200ms, and was killed", exitFailure},
	} {
		status, stdout, stderr := command(t, append([]string{"run"}, c.args...)...)
		if status != c.code || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("surepipe run %q: status %d, expected %q, found %q%q", c.args, status, c.want, stdout, stderr)
		}
	}
	if o := object(t, "run", "--exec", soft, "--data", data, "--lambda", "1", "--sigma2", "mad", "--queries",
		"4"); o["sigma2_method"] != "mad" {
		t.Errorf("%v", o)
	}
}
