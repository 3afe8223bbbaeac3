package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"
)

// seriesOfR writes a series of R's datasets to a file. The test is skipped where there is no R.
func seriesOfR(t *testing.T, name string) (path string, y []float64) {
	t.Helper()
	program, err := exec.LookPath("Rscript")
	if err != nil {
		t.Skip("there is no Rscript (Debian: r-base-core)")
	}
	cmd := exec.CommandContext(t.Context(), program, "-")
	cmd.Stdin = strings.NewReader(fmt.Sprintf("write.table(as.numeric(%s), col.names = FALSE, row.names = FALSE)", name))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range strings.Fields(string(out)) {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		y = append(y, v)
	}
	path = filepath.Join(t.TempDir(), "series.txt")
	if err := os.WriteFile(path, out, 0o666); err != nil {
		t.Fatal(err)
	}
	return path, y
}

// Series of R whose noise, or whose signal, has a memory are marked: without a word of the noise as correlated, and with
// autoregressive noise as slow, refused, or at the edge of the grid. Lake Huron's level has the correlation of 0.78 that
// Brockwell and Davis (1996) find about a line.
func TestSeriesOfR(t *testing.T) {
	for _, c := range []struct {
		name   string
		marked bool
		slow   string // the code of what --noise ar1 says
	}{{"LakeHuron", true, "slow-noise"}, {"Nile", false, ""}, {"sunspot.year", true, "refused"},
		{"co2", true, "slow-noise"}, {"EuStockMarkets[, 1]", true, "slow-noise"}} {
		t.Run(c.name, func(t *testing.T) {
			path, _ := seriesOfR(t, c.name)
			sweep := func(more ...string) (rho float64, codes []string, stderr string) {
				_, out, stderr := command(t, append([]string{"sweep", "--problem", "whittaker", "--data", path, "--lambda",
					"1e-2:1e9:34", "--refine", "0", "--json"}, more...)...)
				for line := range strings.Lines(out) {
					var o struct {
						Rho      float64 `json:"noise_rho"`
						Warnings []struct{ Code string }
					}
					if err := json.Unmarshal([]byte(line), &o); err != nil {
						t.Fatal(err)
					}
					rho = max(rho, o.Rho)
					for _, w := range o.Warnings {
						codes = append(codes, w.Code)
					}
				}
				return rho, codes, stderr
			}
			if _, codes, stderr := sweep(); slices.Contains(codes, "correlated") != c.marked {
				t.Errorf("%v: %s", codes, stderr)
			}
			rho, codes, stderr := sweep("--noise", "ar1")
			if refused := strings.Contains(stderr, "noise and trend cannot be told apart"); refused != (c.slow == "refused") ||
				!refused && slices.Contains(codes, "slow-noise") != (c.slow != "") {
				t.Errorf("ar1: correlation %g, %v: %s", rho, codes, stderr)
			}
			if c.name == "LakeHuron" && math.Abs(rho-0.78) > 0.1 {
				t.Errorf("correlation %g", rho)
			}
		})
	}
}

// The Nile's flow is rightly not marked: about the two levels before and after 1898 the statistic of Ljung and Box (1978)
// over ten lags is below 18.3, the 95% quantile of chi squared with ten degrees of freedom. About one level, by which the
// flow is correlated, it is far beyond.
func TestTheNileHasNoCorrelatedNoise(t *testing.T) {
	_, y := seriesOfR(t, "Nile")
	statistic := func(levels ...[]float64) (q float64) {
		var e []float64
		for _, part := range levels {
			mean := stat.Mean(part, nil)
			for _, v := range part {
				e = append(e, v-mean)
			}
		}
		n, all := float64(len(e)), 0.0
		for _, v := range e {
			all += v * v
		}
		for lag := 1; lag <= 10; lag++ {
			sum := 0.0
			for i := lag; i < len(e); i++ {
				sum += e[i] * e[i-lag]
			}
			q += n * (n + 2) * (sum / all) * (sum / all) / (n - float64(lag))
		}
		return q
	}
	if q := statistic(y[:28], y[28:]); q > 18.3 {
		t.Errorf("about two levels the statistic is %g", q)
	}
	if q := statistic(y); q < 50 {
		t.Errorf("about one level the statistic is %g", q)
	}
}

// What --noise ar1 does not go with is refused, and it says what it found.
func TestAutoregressiveNoiseInTheCommand(t *testing.T) {
	var text strings.Builder
	state := uint64(1)
	e := 0.0
	for i := range 300 {
		sum := -6.0 // about normal: the sum of 12 uniform numbers
		for range 12 {
			state = state*6364136223846793005 + 1442695040888963407
			sum += float64(state>>11) / (1 << 53)
		}
		e = 0.6*e + 0.8*sum
		fmt.Fprintf(&text, "%g\n", 3*math.Abs(float64(i%150)/75-1)+e/2)
	}
	path := filepath.Join(t.TempDir(), "y.txt")
	if err := os.WriteFile(path, []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	args := []string{"--problem", "trend1d", "--data", path}
	o := object(t, append([]string{"run", "--lambda", "20", "--noise", "ar1"}, args...)...)
	rho, _ := o["noise_rho"].(float64)
	bar, _ := o["noise_rho_stderr"].(float64)
	if !(bar > 0) || math.Abs(rho-0.6) > 3*bar || o["sigma2_method"] != "ar1" || o["gcv"] != nil || o["sure"] == nil ||
		o["correlated"] == nil {
		t.Errorf("%v", o)
	}
	_, out, _ := command(t, append([]string{"run", "--lambda", "20", "--noise", "ar1"}, args...)...)
	if !strings.Contains(out, "of the noise of neighbours") || strings.Contains(out, "not known") {
		t.Errorf("%s", out)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{append([]string{"run", "--noise", "ar2", "--lambda", "1"}, args...), `--noise is "ar2", expected ar1`},
		{append([]string{"sweep", "--noise", "ar1", "--criterion", "gcv", "--lambda", "1:9:3"}, args...),
			"takes the noise as independent"},
		{[]string{"run", "--noise", "ar1", "--problem", "lasso", "--data", "../../testdata/diabetes.npz", "--lambda", "1"},
			"is for a sequence"},
	} {
		if status, _, stderr := command(t, c.args...); status != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: status %d, %s", c.args, status, stderr)
		}
	}
}
