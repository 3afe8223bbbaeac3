package main

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"surepipe/internal/dataio"
)

// zerosAndOnes is a file of a regression, 80 x 6, with y of zeros and ones; and the same with labels of -1
// and 1, and with sigma2.
func zerosAndOnes(t *testing.T) (data, labels, noisy string) {
	rng := rand.New(rand.NewPCG(6, 1))
	const d, p = 80, 6
	x, y, signs := make([]float64, d*p), make([]float64, d), make([]float64, d)
	for i := range d {
		z := 0.5
		for j := range p {
			x[i*p+j] = rng.NormFloat64()
			if j < 2 {
				z += x[i*p+j]
			}
		}
		if rng.Float64() < 1/(1+math.Exp(-z)) {
			y[i] = 1
		}
		signs[i] = 2*y[i] - 1
	}
	matrix := floats("X", x, d, p)
	return save(t, matrix, floats("y", y, d)), save(t, matrix, floats("y", signs, d)),
		save(t, matrix, floats("y", y, d), floats("sigma2", []float64{1}), floats("mu", y, d))
}

// With another loss the output has its name, its value and leave-one-out, and what is defined for
// the squared loss alone is absent; the file of --out has the fitted means.
func TestRunWithALoss(t *testing.T) {
	data, labels, noisy := zerosAndOnes(t)
	out := filepath.Join(t.TempDir(), "fit.npz")
	args := []string{"run", "--problem", "lasso", "--loss", "logistic", "--intercept", "--lambda", "0.2max"}
	o := object(t, append(args, "--data", data, "--out", out)...)
	for _, key := range append(sureKeys, "residual", "gcv", "gcv_stderr", "sigma2_df", "loss") {
		if v, ok := o[key]; ok {
			t.Errorf("%s is %v", key, v)
		}
	}
	for _, key := range []string{"loss_value", "deviance", "df", "alo", "alo_stderr", "aic", "bic", "intercept"} {
		if v, ok := o[key].(float64); !ok || !(v > 0) {
			t.Errorf("%s is %v", key, o[key])
		}
	}
	near(t, "aic", o["aic"].(float64), 2*o["loss_value"].(float64)+2*o["df"].(float64))
	if o["loss_name"] != "logistic" || o["mu_hat_is"] != "the linear predictor A b" || o["p"] != 6.0 {
		t.Errorf("loss %v, p = %v", o["loss_name"], o["p"])
	}
	file, err := dataio.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	values := map[string][]float64{}
	for _, name := range []string{"mu_hat", "fitted", "b"} {
		a, err := file.Floats(name)
		if err != nil {
			t.Fatal(err)
		}
		values[name] = a.Data
	}
	if len(values["b"]) != 6 {
		t.Errorf("b has %d coefficients", len(values["b"]))
	}
	for i, z := range values["mu_hat"] {
		if math.Abs(values["fitted"][i]-1/(1+math.Exp(-z))) > 1e-12 {
			t.Fatalf("fitted[%d] is %g at %g", i, values["fitted"][i], z)
		}
	}
	status, stdout, _ := command(t, append(args, "--data", data)...)
	if status != exitDone || strings.Contains(stdout, "SURE") || strings.Contains(stdout, "NaN") ||
		strings.Contains(stdout, "GCV") || !strings.Contains(stdout, "ALO  ") || !strings.Contains(stdout, "deviance") {
		t.Errorf("status %d\n%s", status, stdout)
	}
	status, _, stderr := command(t, append(args, "--data", noisy)...)
	if status != exitDone || !strings.Contains(stderr, "no use for") {
		t.Errorf("status %d with sigma2 in the file: %s", status, stderr)
	}
	if o := object(t, append(args, "--data", noisy)...); o["loss"] != nil {
		t.Errorf("loss %v, but mu_hat is no estimate of mu", o["loss"])
	}
	status, _, stderr = command(t, append(args, "--data", labels)...)
	if status != exitUsage || !strings.Contains(stderr, "code labels of -1 and 1 as (y + 1)/2") {
		t.Errorf("status %d for labels of -1 and 1: %s", status, stderr)
	}
}

// What another loss has no use for is refused by name, with what takes its place.
func TestFlagsOfALoss(t *testing.T) {
	data, _, _ := zerosAndOnes(t)
	spec := filepath.Join(t.TempDir(), "huber.yaml")
	text := "data: {file: " + data + "}\noperator: {matrix: X}\nloss: {name: huber, delta: 0.5}\nregularizer: " +
		"{l1: lambda}\nlambda: 0.2max\n"
	if err := os.WriteFile(spec, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	base := []string{"--problem", "lasso", "--data", data, "--lambda", "0.2max", "--loss"}
	for _, c := range []struct {
		args []string
		want string
	}{
		{append([]string{"run"}, append(base, "logistic", "--sigma2", "1")...),
			"--sigma2 is given, but it is for SURE"},
		{append([]string{"run"}, append(base, "logistic", "--verify")...), "--verify is for the squared loss"},
		{append([]string{"run"}, append(base, "logistic", "--derivative", "unrolled")...), "--derivative is unrolled"},
		{append([]string{"run"}, append(base, "huber")...), "--huber-delta is missing"},
		{append([]string{"run"}, append(base, "huber", "--huber-delta", "-1")...), "--huber-delta is -1"},
		{append([]string{"run"}, append(base, "logistic", "--huber-delta", "1")...), "it is for --loss huber"},
		{append([]string{"run"}, append(base, "probit")...), "expected one of squared, logistic, multinomial, mgaussian, poisson, huber"},
		{append([]string{"run"}, append(base, "logistic", "--solver", "direct")...), "quadratic loss"},
		{append([]string{"sweep"}, append(base, "logistic", "--lambda", "0.1max:max:3", "--criterion", "sure")...),
			"expected alo"},
		{append([]string{"sweep"}, append(base, "huber", "--huber-delta", "1", "--lambda", "0.1max:max:3",
			"--criterion", "aic")...), "expected alo"},
	} {
		status, _, stderr := command(t, c.args...)
		if status != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: status %d, %s, expected %q", c.args, status, stderr, c.want)
		}
	}
	o := object(t, "run", "--spec", spec)
	if o["loss_name"] != "huber" || o["alo"] == nil || o["aic"] != nil {
		t.Errorf("a specification with a loss: %v", o)
	}
	if o := object(t, "run", "--spec", spec, "--loss", "squared"); o["loss_name"] != nil || o["gcv"] == nil {
		t.Errorf("--loss in place of the specification's: %v", o)
	}
}

// A sweep minimizes leave-one-out by default, and its table of numbers has the loss in place of the
// residual.
func TestSweepWithALoss(t *testing.T) {
	data, _, _ := zerosAndOnes(t)
	csv := filepath.Join(t.TempDir(), "sweep.csv")
	header, lines, summary := sweepLines(t, "--problem", "lasso", "--data", data, "--loss", "logistic", "--intercept",
		"--lambda", "0.02max:max:6", "--refine", "0", "--csv", csv)
	if header["loss_name"] != "logistic" || header["criterion"] != "alo" || summary.Criterion != "alo" ||
		len(lines) < 6 {
		t.Fatalf("header %v, summary %v, %d lines", header, summary, len(lines))
	}
	least := math.Inf(1)
	for _, l := range lines {
		least = min(least, *l.ALO)
	}
	if got := *summary.Minimizer.ALO; got != least {
		t.Errorf("the minimizer has alo %g, the least is %g", got, least)
	}
	table, err := os.ReadFile(csv)
	if err != nil {
		t.Fatal(err)
	}
	if first, _, _ := strings.Cut(string(table), "\n"); !strings.Contains(first, "loss_value,deviance") ||
		strings.Contains(first, "residual") {
		t.Errorf("columns %s", first)
	}
}

// Samples of a stack have another loss each; simulated ones, with normal noise, are refused.
func TestMonteCarloWithALoss(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	const n, d, p = 3, 30, 4
	x, y := make([]float64, d*p), make([]float64, n*d)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	for i := range y {
		y[i] = math.Floor(6 * rng.Float64())
	}
	stack := save(t, floats("X", x, d, p), floats("y", y, n, d))
	args := []string{"montecarlo", "--problem", "ridge", "--data", stack, "--loss", "poisson", "--lambda", "2"}
	status, stdout, stderr := command(t, args...)
	if status != exitDone || strings.Count(stdout, `"loss_name":"poisson"`) < n ||
		!strings.Contains(stdout, "mean_alo") {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
	// The same samples from a stack of their own, in a file that another loss cannot continue.
	jsonl := filepath.Join(t.TempDir(), "mc.jsonl")
	apart := []string{"montecarlo", "--problem", "ridge", "--data", save(t, floats("X", x, d, p)), "--y",
		save(t, floats("y", y, n, d)), "--lambda", "2", "--jsonl", jsonl, "--resume"}
	status, again, stderr := command(t, append(apart, "--loss", "poisson")...)
	if status != exitDone || strings.Count(again, `"loss_name":"poisson"`) != strings.Count(stdout,
		`"loss_name":"poisson"`) {
		t.Errorf("status %d\n%s%s", status, again, stderr)
	}
	if status, _, stderr = command(t, append(apart, "--loss", "huber", "--huber-delta",
		"1")...); status != exitUsage || !strings.Contains(stderr, "begun with") {
		t.Errorf("status %d for a file of another loss: %s", status, stderr)
	}
	simulated := save(t, floats("X", x, d, p), floats("mu", y[:d], d))
	status, _, stderr = command(t, "montecarlo", "--problem", "ridge", "--data", simulated, "--loss", "poisson",
		"--lambda", "2", "--samples", "2")
	if status != exitUsage || !strings.Contains(stderr, "normal noise") {
		t.Errorf("status %d for simulated samples: %s", status, stderr)
	}
}
