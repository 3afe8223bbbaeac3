package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"surepipe"
	"surepipe/internal/dataio"
	"surepipe/study"
	"surepipe/study/denoise"
)

// The command's JSON is that of the types of the front door: every line has keys that they know and no others, and comes
// back from them byte for byte.
func TestJSONIsThatOfTheFrontDoor(t *testing.T) {
	const data = "--data ../../testdata/diabetes.npz "
	dir := t.TempDir()
	rows, entries, named, movies, series := filepath.Join(dir, "r.npz"), filepath.Join(dir, "e.npz"),
		filepath.Join(dir, "n.npz"), filepath.Join(dir, "n.csv"), filepath.Join(dir, "y.npy")
	y := make([]float64, 6*50)
	for i := range y {
		y[i] = math.Sin(float64(i * i))
	}
	if err := errors.Join(dataio.WriteNPY(series, dataio.Array{Shape: []int{6, 5, 10}, Data: y}), os.WriteFile(movies,
		[]byte("who,what,stars\nann,a,1\nann,b,3\nbob,a,2\n\"d, e\",b,5\n\"d, e\",c,4\n"), 0o666)); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"--problem lasso " + data + "--out " + rows,
		"--problem matrix-completion --data ../../testdata/mc60x40.npz --out " + entries,
		"--problem matrix-completion --lambda 0.5max --response stars --data " + movies + " --out " + named} {
		if _, stderr, status := capture(t, strings.Fields("run "+line)); status != exitDone {
			t.Fatal(stderr)
		}
	}
	for _, line := range []string{
		"run --json --problem lasso " + data + "--coefficients --verify",
		"run --json --problem lasso " + data + "--sigma2 auto --intercept --lambda 0.1max --trace hutchinson",
		"run --json --problem svt --data ../../testdata/rpca50x30.npz --lambda inf",
		"run --json --problem matrix-completion --data ../../testdata/mc60x40.npz --effects rows,cols --lambda 0.3max --alo",
		"run --json --problem robust-pca --data ../../testdata/rpca50x30.npz",
		"run --json --exec cat --divergence coupled-bootstrap --data ../../testdata/rpca50x30.npz --sigma2 1",
		"run --json --problem lasso " + data + "--audit",
		"predict --json --fit " + rows + " --data ../../testdata/diabetes.npz",
		"predict --json --fit " + entries,
		"predict --json --fit " + named,
		"denoise --json --patch 2x2x1 --sigma 1 " + series,
		"sweep --json --problem lasso " + data + "--lambda 0.1max:max:3 --coefficients",
		"sweep --json --problem elastic-net " + data + "--lambda 0.1max:max:2 --lambda2 0.1:1:2 --criterion alo --rule 1se",
		"montecarlo --problem lasso --data ../../testdata/mc60x40.npz --problem matrix-completion --samples 2 --seeds 2",
	} {
		stdout, stderr, status := capture(t, strings.Fields(line))
		if status != exitDone && status != exitNotConverged {
			t.Fatalf("%s: %d %s", line, status, stderr)
		}
		for text := range strings.Lines(stdout) {
			text = strings.TrimSpace(text)
			v := typeOf(t, text)
			d := json.NewDecoder(strings.NewReader(text))
			d.DisallowUnknownFields()
			if err := d.Decode(v); err != nil {
				t.Errorf("%s: %T: %v in %.200s", line, v, err, text)
				continue
			}
			again, err := json.Marshal(v)
			if err != nil || string(again) != text {
				t.Errorf("%s: %T: %v\n%s\nis not\n%s", line, v, err, again, text)
			}
		}
	}
}

// typeOf is the type of a line.
func typeOf(t *testing.T, text string) any {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &keys); err != nil {
		t.Fatal(err)
	}
	has := func(key string) bool { return keys[key] != nil }
	switch {
	case has("sweep"):
		return new(study.SweepHeader)
	case has("summary") && has("minimizer"):
		return new(surepipe.Summary)
	case has("summary"):
		return new(study.Summary)
	case has("index"):
		return new(surepipe.Point)
	case has("sample"):
		return new(study.SampleLine)
	case has("predicts"):
		return new(surepipe.Prediction)
	case has("voxels"):
		return new(denoise.Result)
	}
	return new(surepipe.Result)
}

// capture runs a command line.
func capture(t *testing.T, args []string) (stdout, stderr string, status int) {
	t.Helper()
	var out, errs bytes.Buffer
	status = execute(t.Context(), args, &out, &errs)
	return out.String(), errs.String(), status
}

// A fit of the front door is what the command prints, times aside.
func TestTheFrontDoorAgreesWithTheCommand(t *testing.T) {
	for _, c := range []struct {
		args string
		file string
		o    surepipe.Options
	}{
		{"--problem lasso --data ../../testdata/diabetes.npz", "../../testdata/diabetes.npz",
			surepipe.Options{Problem: surepipe.Lasso}},
		{"--problem matrix-completion --data ../../testdata/mc60x40.npz --lambda 0.3max --effects rows",
			"../../testdata/mc60x40.npz", surepipe.Options{Problem: surepipe.Completion, Lambda: "0.3max",
				Effects: []string{"rows"}}},
	} {
		stdout, _, _ := capture(t, append([]string{"run", "--json"}, strings.Fields(c.args)...))
		e, err := surepipe.Open(t.Context(), surepipe.File(c.file), c.o)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		fit, err := e.Fit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(fit)
		if err != nil {
			t.Fatal(err)
		}
		got, want := study.WithoutTimes(text), study.WithoutTimes([]byte(stdout))
		if !reflect.DeepEqual(bytes.ReplaceAll(want, []byte("--"), nil), bytes.ReplaceAll(got, []byte("--"), nil)) {
			t.Errorf("%s:\n%s\nis not\n%s", c.args, got, want)
		}
	}
}
