package main

import (
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"surepipe/internal/dataio"
	"surepipe/problems"
	"surepipe/risk/warning"
)

// codes are those of a result's warnings.
func codes(o map[string]any) string {
	var all []string
	list, _ := o["warnings"].([]any)
	for _, w := range list {
		all = append(all, w.(map[string]any)["code"].(string))
	}
	return strings.Join(all, " ")
}

// Where d <= p, and where entries are missing, sigma2 is that of the fit of least GCV: the same in
// run, sweep and montecarlo, with its error, and marked.
func TestSigma2FromFits(t *testing.T) {
	wide, err := problems.GenerateLasso(60, 150, 1)
	if err != nil {
		t.Fatal(err)
	}
	wide.Sigma2 = nil
	data := save(t, problems.Arrays(wide)...)
	for _, c := range []struct{ problem, data, lambda string }{
		{"lasso", data, "0.2max"},
		{"ridge", data, "100"},
		{"matrix-completion", "../../testdata/mc60x40.npz", "6"},
	} {
		args := []string{"--problem", c.problem, "--data", c.data, "--sigma2", "auto"}
		o := object(t, append([]string{"run", "--lambda", c.lambda}, args...)...)
		sigma2, rel := o["sigma2"].(float64), o["sigma2_rel_stderr"].(float64)
		if o["sigma2_method"] != "gcv-residual" || !strings.Contains(codes(o), warning.Sigma2Biased.Code) ||
			!(rel > 0 && rel < 1) {
			t.Errorf("%s: sigma2 %g ± %g by %v, warnings %s", c.problem, sigma2, rel*sigma2, o["sigma2_method"],
				codes(o))
		}
		if sigma2 < 1 || sigma2 > 6 && c.problem != "ridge" {
			t.Errorf("%s: sigma2 %g, of which 2 is the truth", c.problem, sigma2)
		}
		header, points, _ := sweepLines(t, append([]string{"--lambda", "2:20:3", "--refine", "0", "--parallel", "2"},
			args...)...)
		if header["sigma2"].(float64) != sigma2 || points[0].Sigma2 != sigma2 || !points[1].Warnings[0].Is(warning.Sigma2Biased) ||
			len(points[1].Warnings) > 1 && !points[1].Warnings[1].Is(warning.ChosenEffects) {
			t.Errorf("%s: a sweep has sigma2 %v, %v, warnings %v, expected %g", c.problem, header["sigma2"],
				points[0].Sigma2, points[1].Warnings, sigma2)
		}
	}
	status, stdout, _ := command(t, "run", "--problem", "lasso", "--data", data, "--sigma2", "auto", "--lambda", "5")
	if status != exitDone || !strings.Contains(stdout, "estimated by gcv-residual") {
		t.Errorf("status %d, %s", status, stdout)
	}
	status, _, stderr := command(t, "mc", "--problem", "lasso", "--data", data, "--sigma2", "auto", "--lambda", "5")
	if status != exitUsage || !strings.Contains(stderr, "to simulate samples, give sigma2 as a number") {
		t.Errorf("status %d, %s", status, stderr)
	}
}

// A sigma2 that is too large, so that SURE is far below 0, is marked, and the error bar of an
// estimated one counts.
func TestSigma2TooLargeIsMarked(t *testing.T) {
	y := make([]float64, 400)
	for i := range y {
		y[i] = math.Sin(float64(i)/30) + 0.1*math.Cos(float64(i*i))
	}
	data := save(t, floats("y", y, 400))
	args := []string{"--problem", "tv1d", "--data", data, "--lambda", "1"}
	o := object(t, append([]string{"run", "--sigma2", "1"}, args...)...)
	if !strings.Contains(codes(o), warning.Sigma2TooLarge.Code) {
		t.Errorf("SURE %v ± %v, warnings %q", o["sure"], o["sure_stderr"], codes(o))
	}
	status, _, stderr := command(t, append([]string{"run", "--sigma2", "1"}, args...)...)
	if status != exitDone || !strings.Contains(stderr, "sigma2 = 1 is too large") {
		t.Errorf("status %d, %s", status, stderr)
	}
	o = object(t, append([]string{"run", "--sigma2", "0.005"}, args...)...)
	if strings.Contains(codes(o), warning.Sigma2TooLarge.Code) {
		t.Errorf("SURE %v ± %v, warnings %q", o["sure"], o["sure_stderr"], codes(o))
	}
	status, _, stderr = command(t, "sweep", "--problem", "tv1d", "--data", data, "--lambda", "0.5:2:3", "--sigma2",
		"1", "--refine", "0")
	if status != exitDone || !strings.Contains(stderr, "SURE of 3 of 3 points is more than three error bars below 0") {
		t.Errorf("status %d, %s", status, stderr)
	}
	stack := filepath.Join(t.TempDir(), "y.npy")
	writeStack(t, stack, y, y)
	status, stdout, stderr := command(t, "mc", "--problem", "tv1d", "--y", stack, "--sigma2", "1", "--lambda", "1")
	var line map[string]any
	if err := json.Unmarshal([]byte(strings.SplitN(stdout, "\n", 2)[0]), &line); err != nil {
		t.Fatal(err)
	}
	if status != exitDone || !strings.Contains(stderr, "SURE of 2 of 2 samples") ||
		!strings.Contains(codes(line), warning.Sigma2TooLarge.Code) {
		t.Errorf("status %d, %s\n%s", status, stdout, stderr)
	}
}

// writeStack writes samples as a .npy file.
func writeStack(t *testing.T, path string, samples ...[]float64) {
	t.Helper()
	if err := dataio.WriteNPY(path, floats("", slices.Concat(samples...), len(samples), len(samples[0]))); err != nil {
		t.Fatal(err)
	}
}
