package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"surepipe/pipeline"
	"surepipe/risk/warning"
	"surepipe/study"
)

// messages are the lines of standard error that begin with the program's name, without it.
func messages(stderr string) (texts []string) {
	for line := range strings.Lines(stderr) {
		if text, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "surepipe: "); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

// The summary says how sure the choice is, in JSON, table and CSV; the rule of one standard error
// chooses a simpler fit, which is that of --out; and a file continues to the same summary under
// either rule.
func TestSweepSaysHowSureItsChoiceIs(t *testing.T) {
	dir := t.TempDir()
	log, out, csv := filepath.Join(dir, "s.jsonl"), filepath.Join(dir, "o.npz"), filepath.Join(dir, "s.csv")
	base := []string{"--problem", "lasso", "--data", "../../testdata/diabetes.npz", "--sigma2", "2900", "--lambda",
		"1:900:16"}
	_, points, s := sweepLines(t, append(base, "--rule", "1se", "--jsonl", log, "--out", out, "--csv", csv)...)
	if s.Rule != pipeline.OneStdErrRule || len(s.Difference) != len(points) ||
		!slices.Contains(s.Alike, s.Minimizer.Index) || s.Optimism == nil || s.OptimismLeavesOut == "" ||
		*s.OptimismStdErr <= 0 {
		t.Fatalf("summary %+v", s)
	}
	if c := s.Chosen; !slices.Contains(s.Alike, c.Index) || c.Divergence >= s.Minimizer.Divergence ||
		*s.Difference[c.Index] > *s.DifferenceStdErr[c.Index] {
		t.Errorf("chosen %+v, the minimizer is %+v", c, s.Minimizer)
	}
	near(t, "residual of --out", squaredDistance(readArray(t, "../../testdata/diabetes.npz", "y"),
		readArray(t, out, "mu_hat")), *points[s.Chosen.Index].Residual)
	table := readOnly(t, csv)
	for i, row := range slices.Collect(slices.Chunk(table.Data, table.Shape[1])) {
		at := func(column string) float64 { return row[slices.Index(table.Columns, column)] }
		if at("difference") != *s.Difference[i] || at("difference_stderr") != *s.DifferenceStdErr[i] ||
			i != s.Minimizer.Index && at("difference_stderr") > at("sure_stderr") {
			t.Errorf("%s: row %d is %v", csv, i, row)
		}
	}

	// An interrupted file continues to the same summary, and with the other rule.
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	write := func(lines []string) {
		if err := os.WriteFile(log, []byte(strings.Join(lines, "")), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	same := func(a, b study.SweepSummary) bool {
		a.Seconds, b.Seconds = 0, 0
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(b)
		return string(x) == string(y)
	}
	write(lines[:8])
	if _, _, again := sweepLines(t, append(base, "--rule", "1se", "--jsonl", log, "--resume")...); !same(again, s) {
		t.Errorf("resumed: %+v, expected %+v", again, s)
	}
	if _, _, min := sweepLines(t, append(base, "--jsonl", log,
		"--resume")...); min.Chosen.Index != s.Minimizer.Index || min.Minimizer.Index != s.Minimizer.Index {
		t.Errorf("by the minimum: %+v", min)
	}
	// Differences to points without a digest have no error, and the search goes on to the end.
	for i, line := range lines {
		var object map[string]json.RawMessage
		if json.Unmarshal([]byte(line), &object) == nil && object["digest"] != nil {
			delete(object, "digest")
			stripped, _ := json.Marshal(object)
			lines[i] = string(stripped) + "\n"
		}
	}
	write(lines[:len(lines)-4])
	status, stdout, stderr := command(t, append([]string{"sweep", "--json", "--jsonl", log, "--resume"}, base...)...)
	_, _, old := parseSweep(t, stdout)
	if status != exitDone || old.DifferenceStdErr[0] != nil || *old.Minimizer.SURE > *s.Minimizer.SURE {
		t.Errorf("status %d, %s, %+v", status, stderr, old)
	}

	status, stdout, _ = command(t, append([]string{"sweep", "--rule", "1se"}, base...)...)
	for _, want := range []string{"optimism    ", "cannot be told from the minimizer", "by the rule 1se"} {
		if status != exitDone || !strings.Contains(stdout, want) {
			t.Errorf("the table does not say %q:\n%s", want, stdout)
		}
	}
	for _, c := range []struct{ args, want string }{{"--rule 2se", `--rule is "2se", expected one of min, 1se`},
		{"--rule 1se --criterion bic", "--rule 1se needs the standard errors of differences, which --criterion " +
			"bic does not have"}} {
		status, _, stderr := command(t, append(append([]string{"sweep"}, base...), strings.Fields(c.args)...)...)
		if status != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, %q", c.args, status, stderr)
		}
	}
}

// A point that is accurate enough to be compared says so, the answer is certified, and --tol certifies every point.
func TestTheResultSaysWhichToleranceAPointHad(t *testing.T) {
	small := filepath.Join(t.TempDir(), "small.png")
	cropPicture(t, "../../testdata/camera.png", small, 96)
	base := strings.Fields("--problem tv2d --sigma2 1e-4 --lambda 0.005:0.03:2 --refine 0 --data " + small)
	for _, c := range []struct {
		args []string
		says bool
	}{{nil, true}, {[]string{"--tol", "1e-6"}, false}} {
		args := append(slices.Clone(base), c.args...)
		_, points, s := sweepLines(t, args...)
		estimated := 0
		for _, p := range points {
			if p.Solver.SUREChange > 0 {
				estimated++
			}
		}
		if !s.Minimizer.Converged || c.says != (estimated > 0) {
			t.Errorf("%v: %d points of %d are estimated, minimizer %+v", c.args, estimated, len(points), s.Minimizer)
		}
		status, stdout, stderr := command(t, append([]string{"sweep"}, args...)...)
		want := fmt.Sprintf("accuracy    %d of %d points", estimated, len(points))
		says := strings.Contains(stdout, want)
		if status != exitDone || c.says != says || says != strings.Contains(stdout, "accuracy") {
			t.Errorf("%v: status %d, %s%s, want %q: %v", c.args, status, stdout, stderr, want, c.says)
		}
	}
}

// What standard error warns of is in the warnings of the summary, of a sweep and of montecarlo, and
// in those of surepipe run.
func TestWarningsAreInTheJSON(t *testing.T) {
	const data = "../../testdata/diabetes.npz"
	for _, args := range [][]string{
		{"sweep", "--problem", "lasso", "--data", data, "--lambda", "0.1max:0.4max:3", "--refine", "0"},
		{"sweep", "--problem", "lasso", "--data", data, "--lambda", "1:900:3", "--refine", "0", "--solver", "fista",
			"--max-iter", "2"},
		{"sweep", "--problem", "lasso", "--data", data, "--lambda", "100:900:3", "--refine", "0", "--sigma2", "9000"},
		{"montecarlo", "--problem", "robust-pca", "--data", "../../testdata/rpca40.npz", "--lambda", "30", "--gamma",
			"6", "--max-iter", "2", "--samples", "2"},
		{"run", "--problem", "lasso", "--data", data, "--lambda", "0.1max", "--max-iter", "2", "--solver", "fista"},
		{"run", "--problem", "lasso", "--data", data, "--lambda", "100", "--sigma2", "9000"},
	} {
		all := args
		if args[0] != "montecarlo" {
			all = append(all, "--json")
		}
		_, stdout, stderr := command(t, all...)
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		var last struct {
			Warnings []pipeline.Warning `json:"warnings"`
		}
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
			t.Fatalf("%v: %v: %s", args, err, stdout)
		}
		texts := messages(stderr)
		printed := slices.DeleteFunc(slices.Clone(last.Warnings), func(w pipeline.Warning) bool {
			return warning.Find(w.Code).Quiet
		})
		for _, text := range texts {
			// surepipe run adds the flags that may help.
			if !slices.ContainsFunc(last.Warnings,
				func(w pipeline.Warning) bool { return strings.HasPrefix(text, w.Text) && w.Code != "" }) {
				t.Errorf("%v: %q is not in the warnings %v", args, text, last.Warnings)
			}
		}
		if len(texts) == 0 || len(texts) != len(printed) {
			t.Errorf("%v: the warnings are %v, standard error says\n%s", args, last.Warnings, stderr)
		}
	}
}
