package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"surepipe/loss"
)

// gammaLoss is the negative log-likelihood of exponential variables, gamma variables of a known shape but for a
// factor, with log link: f(z; y) = z + y exp(-z).
type gammaLoss struct{}

func (gammaLoss) Name() string { return "gamma" }

func (gammaLoss) Check(y float64) string {
	if y > 0 && !math.IsInf(y, 1) {
		return ""
	}
	return "the gamma loss expects positive numbers"
}

func (gammaLoss) Value(z, y float64) float64     { return z + y*math.Exp(-z) }
func (gammaLoss) Slope(z, y float64) float64     { return 1 - y*math.Exp(-z) }
func (gammaLoss) Curvature(z, y float64) float64 { return y * math.Exp(-z) }
func (gammaLoss) Lipschitz() float64             { return math.Inf(1) }
func (gammaLoss) Least(y float64) float64        { return 1 + math.Log(y) }
func (gammaLoss) Mean(z float64) float64         { return math.Exp(z) }
func (gammaLoss) Likelihood() bool               { return true }
func (gammaLoss) Constant(_, _ float64) float64  { return 0 }
func (gammaLoss) Unit() float64                  { return 1 }

// Gap is q log(q/p) - q + p, q = 1 - u and p = y exp(-z).
func (gammaLoss) Gap(u, _, z, y float64) float64 {
	q, p := 1-u, y*math.Exp(-z)
	switch {
	case q < 0:
		return math.Inf(1)
	case q == 0:
		return p
	}
	return q*math.Log(q/p) - q + p
}

// A loss that is added by one row, in a process of its own, has a name in the help, a fit whose optimality conditions
// hold, leave-one-out, AIC, a sweep, and errors for wrong y.
func TestALossIsARow(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	loss.Register(loss.Kind{
		Name: "gamma", Help: "positive numbers, log link", Transforms: true,
		New: loss.Of(gammaLoss{}),
	})
	if _, out, _ := command(t, "help", "criteria"); !strings.Contains(out, "gamma      positive numbers, log link") {
		t.Error("help criteria does not name gamma")
	}
	if _, out, _ := command(t, "run", "--help"); !strings.Contains(out, "cox-efron, gamma") {
		t.Error("run --help does not list gamma")
	}
	const d = 60
	rng := rand.New(rand.NewPCG(7, 7))
	var table strings.Builder
	table.WriteString("y,a,b,c\n")
	x, y := make([][]float64, d), make([]float64, d)
	for i := range y {
		x[i] = []float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()}
		y[i] = math.Exp(1+0.8*x[i][0]-0.5*x[i][1]) * rng.ExpFloat64()
		fmt.Fprintf(&table, "%.17g,%.17g,%.17g,%.17g\n", y[i], x[i][0], x[i][1], x[i][2])
	}
	file := filepath.Join(t.TempDir(), "waiting.csv")
	if err := os.WriteFile(file, []byte(table.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	base := []string{"--data", file, "--response", "y", "--loss", "gamma"}
	out := filepath.Join(t.TempDir(), "fit.npz")
	status, text, stderr := command(t, append([]string{"run", "--problem", "ols", "--json", "--out", out}, base...)...)
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	var r struct {
		LossName string  `json:"loss_name"`
		Value    float64 `json:"loss_value"`
		ALO, AIC float64
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	z := readArray(t, out, "mu_hat")
	sum, gradient := 0.0, make([]float64, 4)
	for i, v := range z {
		sum += gammaLoss{}.Value(v, y[i])
		for j, w := range append([]float64{1}, x[i]...) {
			gradient[j] += w * gammaLoss{}.Slope(v, y[i])
		}
	}
	for j, g := range gradient {
		if math.Abs(g) > 1e-5*d {
			t.Errorf("the gradient is %g at %d, expected 0", g, j)
		}
	}
	if r.LossName != "gamma" || math.Abs(r.Value-sum) > 1e-8*sum || math.Abs(r.AIC-2*sum-8) > 1e-6 || !(r.ALO > sum/d) {
		t.Errorf("%+v, expected the value %g and AIC %g", r, sum, 2*sum+8)
	}
	status, _, stderr = command(t, append([]string{"sweep", "--problem", "lasso", "--lambda", "0.01max:max:6",
		"--criterion", "aic"}, base...)...)
	if status != 0 {
		t.Errorf("sweep: status %d: %s", status, stderr)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(table.String(), "\n", "\n-", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr = command(t, append([]string{"run", "--problem", "ols"}, base...)...); status != 2 ||
		!strings.Contains(stderr, "expects positive numbers") {
		t.Errorf("y < 0: status %d: %s", status, stderr)
	}
}
