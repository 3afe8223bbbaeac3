package main

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"surepipe/study/load"
)

// Observed values of float32 give the estimates of the same values as float64, and a note names the noise
// that rounding has added; numbers on a grid, such as ratings, have none.
func TestObservedValuesOfFloat32(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, more ...string) string {
		path := filepath.Join(dir, name)
		args := append([]string{"generate", "--problem", "matrix-completion", "--rows", "60", "--cols", "50",
			"--entries", "750", "--rank", "2", "--seed", "4", "--out", path}, more...)
		if status, _, stderr := command(t, args...); status != exitDone {
			t.Fatal(stderr)
		}
		return path
	}
	estimate := func(path string) map[string]any {
		return object(t, "run", "--problem", "matrix-completion", "--data", path, "--queries", "60", "--seed", "2")
	}
	double, single := estimate(file("double.npz")), estimate(file("single.npz", "--float32"))
	for _, key := range []string{"sure", "divergence", "alo", "gcv", "residual"} {
		a, b := double[key].(float64), single[key].(float64)
		if off := math.Abs(a-b) / math.Abs(a); off > 1e-6 || off == 0 {
			t.Errorf("%s is %.12g of float32 and %.12g of float64", key, b, a)
		}
	}
	if strings.Contains(fmt.Sprint(double["warnings"]), "y is float32") {
		t.Error("a note about values of float64")
	}
	if text := fmt.Sprint(single["warnings"]); !strings.Contains(text,
		"y is float32: rounding has added noise of variance") ||
		!strings.Contains(text, "of sigma2; all sums are in float64") {
		t.Error(text)
	}
	for _, c := range []struct {
		y    []float64
		want float64
	}{
		{[]float64{1.5, 4, -3}, 0},
		{[]float64{0.1, 0.2}, 0},
		{[]float64{float64(float32(1.1)), float64(float32(1.3))}, math.Pow(2, -46) / 12},
	} {
		if got := load.RoundedToSingle(c.y); math.Abs(got-c.want) > 1e-12*c.want {
			t.Errorf("%v: %g, expected %g", c.y, got, c.want)
		}
	}
}
