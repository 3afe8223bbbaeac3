package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// A note says that a file of one array does not hold b, unless b is mu_hat.
func TestOutWithoutBSaysSo(t *testing.T) {
	dir := t.TempDir()
	series := text(t, "series.csv", "1\n1.2\n3\n3.1\n")
	for _, c := range []struct {
		args, out string
		says      bool
	}{
		{"run --problem lasso --data ../../testdata/diabetes.npz", "fit.csv", true},
		{"run --problem lasso --data ../../testdata/diabetes.npz", "fit.npy", true},
		{"run --problem lasso --data ../../testdata/diabetes.npz", "fit.npz", false},
		{"sweep --problem ridge --data ../../testdata/diabetes.npz --lambda 1:2:2 --refine 0", "best.csv", true},
		{"run --problem tv1d --sigma2 0.01 --lambda 0.1 --data " + series, "smooth.csv", false},
	} {
		out := filepath.Join(dir, c.out)
		status, _, stderr := command(t, append(strings.Fields(c.args), "--out", out)...)
		if says := strings.Contains(stderr, out+" holds only mu_hat; for b as well, give --out a name that "+
			"ends in .npz\n"); status != exitDone || says != c.says {
			t.Errorf("%s --out %s: status %d, %s", c.args, c.out, status, stderr)
		}
	}
}
