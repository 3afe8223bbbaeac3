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

	"surepipe/internal/dataio"
	"surepipe/risk"
)

// A fit is printed and written where what was asked for beside it fails.
func TestFitsOutliveTheirAudits(t *testing.T) {
	dir := t.TempDir()
	data, out := filepath.Join(dir, "few.csv"), filepath.Join(dir, "fit.npz")
	if err := os.WriteFile(data, []byte("x,y\n1,2\n2,3\n4,3\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	status, printed, stderr := command(t, "run", "--problem", "ridge", "--data", data, "--response", "y", "--lambda", "1",
		"--audit", "--out", out, "--json")
	var result struct{ D int }
	if err := json.Unmarshal([]byte(printed), &result); err != nil || result.D != 3 {
		t.Errorf("printed %q: %v", printed, err)
	}
	if _, err := os.Stat(out); err != nil || status != exitUsage || !strings.Contains(stderr, "--audit") {
		t.Errorf("status %d, %q; file: %v", status, stderr, err)
	}
}

// 40 subjects with 12 rows each: the table draws the warning of rows in groups, the audit by the groups is far from GCV,
// and leaving them out costs what a new subject costs.
func TestRowsOfSubjects(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	var table strings.Builder
	table.WriteString("y,x,a,b,c,d,e,subject\n")
	for s := range 40 {
		u := 2 * r.NormFloat64()
		of := fmt.Sprintf("%g,%g,%g,%g,%g,%d\n", r.NormFloat64(), r.NormFloat64(), r.NormFloat64(), r.NormFloat64(),
			r.NormFloat64(), (s*17)%40)
		for range 12 {
			x := r.NormFloat64()
			fmt.Fprintf(&table, "%g,%g,%s", x+u+0.7*r.NormFloat64(), x, of)
		}
	}
	path := filepath.Join(t.TempDir(), "subjects.csv")
	if err := os.WriteFile(path, []byte(table.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	var summary struct {
		Criterion risk.Criterion
		Alike     []int
		Chosen    *struct{ Index int }
		Minimizer struct {
			GCV      float64
			Criteria map[string]float64
		}
		Audit []struct {
			Error float64
			Says  float64 `json:"criterion_says"`
			Bars  float64
			By    string
		}
		Warnings []struct{ Code, Text string }
	}
	sweep := func(more ...string) string {
		args := append([]string{"sweep", "--problem", "ridge", "--data", path, "--response", "y", "--lambda", "1:1e4:24",
			"--json"}, more...)
		status, out, stderr := command(t, args...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		summary.Audit, summary.Warnings, summary.Minimizer.Criteria = nil, nil, nil
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &summary); err != nil || status != 0 {
			t.Fatalf("status %d, %v: %s", status, err, stderr)
		}
		return stderr
	}
	if stderr := sweep(); !strings.Contains(stderr, "--groups subject") || len(summary.Audit) != 1 {
		t.Errorf("%+v: %s", summary, stderr)
	}
	if sweep("--audit=false"); summary.Audit != nil {
		t.Errorf("%+v", summary.Audit)
	}
	sweep("--groups", "subject")
	if len(summary.Audit) != 1 || summary.Audit[0].By != "groups" || math.Abs(summary.Audit[0].Bars) > 3 {
		t.Errorf("%+v", summary.Audit)
	}
	gcv, lgo := summary.Minimizer.GCV, summary.Minimizer.Criteria
	if !(lgo["lgo"] > 1.1*gcv) || !(lgo["lgo_stderr"] > 0) || summary.Criterion != risk.LGO {
		t.Errorf("criterion %s: %v, GCV says %g", summary.Criterion, lgo, gcv)
	}
	if sweep("--groups", "subject", "--criterion", "cv"); summary.Minimizer.Criteria["cv"] < 1.1*gcv {
		t.Errorf("a new subject costs %g, GCV says %g", summary.Minimizer.Criteria["cv"], gcv)
	}
	if cv := summary.Minimizer.Criteria["cv"]; math.Abs(lgo["lgo"]-cv) > 0.1*cv {
		t.Errorf("leave-group-out says %g, fits without groups %g", lgo["lgo"], cv)
	}
	if sweep("--groups", "subject", "--rule", "1se"); summary.Criterion != risk.LGO || summary.Chosen == nil ||
		len(summary.Alike) < 2 {
		t.Errorf("1se: %+v", summary)
	}
}

// A large image whose neighbours share their noise is fitted by that noise: its sweep says that nothing has tested it.
func TestAChoiceNearTheDataIsDoubted(t *testing.T) {
	const side = 96
	rng := rand.New(rand.NewPCG(1, 2))
	white := make([]float64, side*side)
	for i := range white {
		white[i] = 0.1 * rng.NormFloat64()
	}
	blurred := make([]float64, side*side)
	for i := range blurred {
		blurred[i] = (white[i] + white[(i+1)%len(white)] + white[(i+side)%len(white)] + white[(i+side+1)%len(white)]) / 2
	}
	for _, v := range [][]float64{white, blurred} {
		for i := range v {
			if i%side > side/2 {
				v[i]++
			}
		}
	}
	t.Chdir(t.TempDir())
	for name, c := range map[string]struct {
		y     []float64
		doubt bool
	}{"white": {white, false}, "blurred": {blurred, true}} {
		if err := dataio.WriteNPY(name+".npy", floats("y", c.y, side, side)); err != nil {
			t.Fatal(err)
		}
		_, _, stderr := command(t, "sweep", "--problem", "tv2d", "--data", name+".npy")
		if got := strings.Contains(stderr, "was not audited"); got != c.doubt {
			t.Errorf("%s: doubted %v, expected %v: %s", name, got, c.doubt, stderr)
		}
	}
}
