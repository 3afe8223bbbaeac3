package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/internal/dataio"
	"surepipe/problems"
	"surepipe/study"
)

// TestProgram is not a test: it is the program, for tests that run it as a process.
func TestProgram(t *testing.T) {
	args, ok := os.LookupEnv("SUREPIPE_TEST_ARGS")
	if !ok {
		t.Skip("it is run by other tests")
	}
	os.Args = append([]string{"surepipe"}, strings.Split(args, "\n")...)
	main()
}

// program is the program as a process.
func program(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestProgram$")
	cmd.Env = append(os.Environ(), "SUREPIPE_TEST_ARGS="+strings.Join(args, "\n"))
	return cmd
}

const smallRPCA = "../../testdata/rpca50x30.npz"

// A run that is killed at any moment and continued gives the same as an uninterrupted one.
func TestResumeAfterKillsGivesTheUninterruptedResult(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs the program a dozen times")
	}
	dir := t.TempDir()
	args := func(log string) []string {
		return []string{"mc", "--problem", "svt", "--data", smallRPCA, "--lambda", "20", "--samples", "100",
			"--seeds", "20", "--jsonl", filepath.Join(dir, log), "--resume"}
	}
	begin := time.Now()
	want, err := program(t, args("whole.jsonl")...).Output()
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(begin)
	rng := rand.New(rand.NewPCG(uint64(begin.UnixNano()), 0))
	var grown []int64
	for kills := 0; kills < 10; {
		cmd := program(t, args("killed.jsonl")...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rng.Int64N(int64(took))))
		cmd.Process.Kill()
		switch err := cmd.Wait(); {
		case err == nil:
			// It was faster: begin anew.
			os.Remove(filepath.Join(dir, "killed.jsonl"))
		default:
			kills++
			if info, err := os.Stat(filepath.Join(dir, "killed.jsonl")); err == nil {
				grown = append(grown, info.Size())
			}
		}
	}
	if len(grown) == 0 {
		t.Error("every kill came before the file was there")
	}
	got, err := program(t, args("killed.jsonl")...).Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("uninterrupted %v; the file after each kill: %d bytes", took, grown)
	compare := func(what string, got, want []byte) {
		if g, w := seconds.ReplaceAll(got, nil), seconds.ReplaceAll(want, nil); !bytes.Equal(g, w) {
			t.Errorf("%s after ten kills:\n%s\nuninterrupted:\n%s", what, g, w)
		}
	}
	compare("standard output", got, want)
	var files [2][]byte
	for i, name := range []string{"killed.jsonl", "whole.jsonl"} {
		if files[i], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	compare("the file", files[0], files[1])
}

// A file may end anywhere, within its header too.
func TestResumeTakesAFileThatIsTornAnywhere(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.jsonl")
	args := []string{"mc", "--problem", "svt", "--data", smallRPCA, "--lambda", "20", "--samples", "4", "--seeds",
		"3", "--queries", "6", "--resume", "--jsonl"}
	status, want, stderr := command(t, append(args, whole)...)
	if status != exitDone {
		t.Fatal(stderr)
	}
	text, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	torn := filepath.Join(dir, "torn.jsonl")
	for range 25 {
		end := rng.IntN(len(text) + 1)
		tail := ""
		if rng.IntN(2) == 0 && end > 0 && text[end-1] == '\n' || end == 0 {
			tail = "\x00\x00\x00\n"
		}
		if err := os.WriteFile(torn, append(bytes.Clone(text[:end]), tail...), 0o666); err != nil {
			t.Fatal(err)
		}
		status, got, stderr := command(t, append(args, torn)...)
		if status != exitDone || seconds.ReplaceAllString(got, "") != seconds.ReplaceAllString(want, "") {
			t.Fatalf("torn at byte %d of %d: status %d, %s\n%s\nexpected\n%s", end, len(text), status, stderr, got,
				want)
		}
		after, err := os.ReadFile(torn)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(seconds.ReplaceAll(after, nil), seconds.ReplaceAll(text, nil)) {
			t.Fatalf("torn at byte %d of %d: the file is %s", end, len(text), after)
		}
	}
}

func TestResumeRefusesWhatItDidNotBegin(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "mc.jsonl")
	base := []string{"mc", "--problem", "svt", "--data", smallRPCA, "--lambda", "20", "--queries", "6", "--device",
		"cpu", "--jsonl", log}
	if status, _, stderr := command(t, append(base, "--samples", "3")...); status != exitDone {
		t.Fatal(stderr)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	other := filepath.Join(dir, "other.jsonl")
	for _, c := range []struct {
		file string
		args []string
		want string
	}{
		{"", base, "which exists: continue it with --resume, or remove it"},
		{"", append(base, "--resume", "--lambda", "21"), `it was begun with --lambda "20", expected "21"`},
		{"", append(base, "--resume", "--seed", "3"), `it was begun with --seed "0", expected "3"`},
		{"", append(base, "--resume", "--tol", "1e-3"), `it was begun with --tol "1e-8", expected "0.001"`},
		{"", append(base, "--resume", "--first", "1"), `it was begun with --first "0", expected "1"`},
		{"", []string{"mc", "--problem", "svt", "--data", "../../testdata/rpca40.npz", "--lambda", "20", "--queries",
			"6", "--device", "cpu", "--jsonl", log, "--resume"}, "it was begun with other data (sha256:"},
		{strings.Join(lines[1:], ""), nil, "it does not begin with the header of a montecarlo run"},
		{"[1]\n" + lines[1], nil, "it does not begin with the header of a montecarlo run"},
		{lines[0] + lines[2], nil, "line 2: it is sample 1, expected sample 0"},
		{lines[0] + lines[1] + "{\"sa\n" + lines[2], nil, "line 3 is not JSON"},
		{lines[0] + lines[1] + "{}\n", nil, `line 3: it has no "sample"`},
	} {
		args := c.args
		if args == nil {
			if err := os.WriteFile(other, []byte(c.file), 0o666); err != nil {
				t.Fatal(err)
			}
			args = append(append([]string{}, base[:len(base)-1]...), other, "--resume")
		}
		status, _, stderr := command(t, args...)
		if status != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: status %d, %q, expected %q", args, status, stderr, c.want)
		}
	}
	if after, err := os.ReadFile(log); err != nil || !bytes.Equal(after, text) {
		t.Errorf("a refused run changed the file: %v", err)
	}
	// Fewer samples are a part, more extend it.
	for _, n := range []string{"2", "5"} {
		status, stdout, stderr := command(t, append(base, "--resume", "--samples", n)...)
		_, want, _ := command(t, append(base[:len(base)-2:len(base)-2], "--samples", n)...)
		if status != exitDone || seconds.ReplaceAllString(stdout, "") != seconds.ReplaceAllString(want, "") {
			t.Errorf("%s samples: status %d, %s", n, status, stderr)
		}
	}
	other = strings.Replace(string(text), `"device":"cpu"}`, `"device":"abacus"}`, 1)
	if err := os.WriteFile(log, []byte(other), 0o666); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := command(t, append(base, "--resume", "--samples", "3")...); status != exitDone ||
		!strings.Contains(stderr, "on abacus: further samples agree with them up to rounding") {
		t.Errorf("another device: status %d, %s", status, stderr)
	}
}

// smallStack is five samples of 6 x 4 as .npy and as "y" of .npz.
func smallStack(t testing.TB) (npy, npz string) {
	t.Helper()
	y := make([]float64, 5*24)
	for i := range y {
		y[i] = 3 * math.Sin(float64(i*i))
	}
	stack := floats("y", y, 5, 6, 4)
	npy = filepath.Join(t.TempDir(), "y.npy")
	if err := dataio.WriteNPY(npy, stack); err != nil {
		t.Fatal(err)
	}
	return npy, save(t, stack, floats("sigma2", []float64{1}), floats("lambda", []float64{2}))
}

// Wherever a stack comes from its lines are the same, and a part's are the whole's.
func TestStacksFromFilesAndPipes(t *testing.T) {
	npy, npz := smallStack(t)
	run := func(stdin io.Reader, args ...string) []string {
		t.Helper()
		var out, errs bytes.Buffer
		root := newRoot()
		root.SetArgs(append([]string{"mc", "--problem", "svt", "--queries", "6"}, args...))
		root.SetIn(stdin)
		root.SetOut(&out)
		root.SetErr(&errs)
		if err := root.Execute(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return strings.SplitAfter(seconds.ReplaceAllString(out.String(), ""), "\n")
	}
	pipe := func() io.Reader {
		text, err := os.ReadFile(npy)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.NewReader(text)
	}
	settings := []string{"--sigma2", "1", "--lambda", "2"}
	want := run(nil, "--data", npz)
	if len(want) != 7 {
		t.Fatalf("%d lines", len(want))
	}
	for name, got := range map[string][]string{
		"npy":          run(nil, append(settings, "--y", npy)...),
		"npz":          run(nil, append(settings, "--y", npz)...),
		"pipe":         run(pipe(), append(settings, "--y", "-")...),
		"npy and data": run(nil, "--y", npy, "--data", npz),
	} {
		if strings.Join(got, "") != strings.Join(want, "") {
			t.Errorf("%s gives\n%s\nexpected\n%s", name, got, want)
		}
	}
	for name, got := range map[string][]string{
		"npy":    run(nil, append(settings, "--y", npy, "--first", "2", "--samples", "2")...),
		"pipe":   run(pipe(), append(settings, "--y", "-", "--first", "2", "--samples", "2")...),
		"memory": run(nil, "--data", npz, "--first", "2", "--samples", "2"),
	} {
		if strings.Join(got[:2], "") != strings.Join(want[2:4], "") {
			t.Errorf("samples 2 and 3 of %s:\n%s\nof the whole:\n%s", name, got, want[2:4])
		}
	}
	// The first sample is needed for its seeds, and a pipe is read once.
	log := filepath.Join(t.TempDir(), "mc.jsonl")
	whole := run(pipe(), append(settings, "--y", "-", "--first", "1", "--seeds", "3")...)
	run(pipe(), append(settings, "--y", "-", "--first", "1", "--samples", "2", "--jsonl", log)...)
	again := run(pipe(), append(settings, "--y", "-", "--first", "1", "--seeds", "3", "--jsonl", log, "--resume")...)
	if strings.Join(again, "") != strings.Join(whole, "") {
		t.Errorf("a pipe read again:\n%s\nexpected\n%s", again, whole)
	}
	// Simulated samples have numbers of their own too.
	all := run(nil, "--data", smallRPCA, "--lambda", "20", "--samples", "4")
	part := run(nil, "--data", smallRPCA, "--lambda", "20", "--samples", "2", "--first", "2")
	if strings.Join(part[:2], "") != strings.Join(all[2:4], "") {
		t.Errorf("simulated samples 2 and 3:\n%s\nof the whole:\n%s", part, all)
	}
}

func TestStacksThatDoNotFitAreRefusedByShape(t *testing.T) {
	npy, npz := smallStack(t)
	x := save(t, floats("X", []float64{1, 2, 3, 4, 5, 6}, 3, 2), floats("sigma2", []float64{1}))
	vectors := filepath.Join(t.TempDir(), "v.npy")
	if err := dataio.WriteNPY(vectors, floats("v", make([]float64, 8), 2, 4)); err != nil {
		t.Fatal(err)
	}
	mu := save(t, floats("mu", make([]float64, 20), 5, 4), floats("sigma2", []float64{1}))
	entries := save(t, dataio.Array{Name: "indices", Shape: []int{3}, Ints: []int64{0, 1, 5}},
		dataio.Array{Name: "shape", Shape: []int{2}, Ints: []int64{3, 2}}, floats("sigma2", []float64{1}))
	bad := filepath.Join(t.TempDir(), "nan.npy")
	if err := dataio.WriteNPY(bad, floats("y", []float64{1, 2, 3, 1, math.NaN(), 3}, 2, 3)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(npy)
	if err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(t.TempDir(), "short.npy")
	if err := os.WriteFile(short, text[:len(text)-8], 0o666); err != nil {
		t.Fatal(err)
	}
	fifo := text[:len(text)-8]
	for _, c := range []struct {
		args string
		want string
	}{
		{"--problem lasso --lambda 1 --data " + x + " --y " + npy,
			`y.npy: array "y" has shape (6, 4), expected (d,)`},
		{"--problem lasso --lambda 1 --data " + x + " --y " + vectors,
			`v.npy: array "y" has 4 values, expected 3: "X" has shape (3, 2)`},
		{"--problem matrix-completion --lambda 1 --data " + entries + " --y " + vectors,
			entries + `: array "indices" has 3 values, expected 4, as many as "y"`},
		{"--problem svt --lambda 1 --data " + mu + " --y " + npy,
			`array "mu" has shape (5, 4), expected (6, 4) as each sample has`},
		{"--problem lasso --lambda 1 --y " + npy, "--data is missing"},
		{"--problem svt --lambda 1 --sigma2 1 --y " + npy + " --first 5",
			"--first is 5, but " + npy + " holds samples 0 to 4"},
		{"--problem svt --lambda 1 --sigma2 1 --y " + npy + " --samples 4 --first 2", "--samples is 4, but " + npy +
			" holds 3 from sample 2 on"},
		{"--problem svt --lambda 1 --sigma2 1 --y nowhere.npy", "nowhere.npy: no such file"},
		{"--problem svt --lambda 1 --sigma2 1 --y " + short, "short.npy"},
		{"--problem svt --lambda 1 --sigma2 1 --y -", "standard input: is truncated"},
		{"--problem svt --lambda 1 --sigma2 1 --y= --data " + npz, "--y is empty"},
		{"--problem lasso --lambda 1 --data " + x + " --y " + bad,
			"surepipe: " + bad + ": sample 1 of 2 (from 0) holds NaN at [1]"},
		{"--problem svt --data " + npz + " --first -1", "--first is -1, expected 0 or more"},
		{"--problem svt --data " + npz + " --seeds 1", "--seeds is 1, expected at least 2"},
		{"--problem svt --data " + npz + " --resume", "--resume needs --jsonl"},
		{"--problem svt --data " + npz + " --plot x.gif", `--plot is "x.gif"`},
		{"--problem svt --data " + npz + " --running /nowhere/x.png", `--running is "/nowhere/x.png"`},
		{"--problem svt --data " + npz + " --running x.png --plot x.png", `--running and --plot are both "x.png"`},
		{"--problem svt --data " + npz + " --jsonl /nowhere/x.jsonl",
			`--jsonl is "/nowhere/x.jsonl": directory "/nowhere" does not exist`},
	} {
		var out, errs bytes.Buffer
		root := newRoot()
		root.SetArgs(append([]string{"mc"}, strings.Fields(c.args)...))
		root.SetIn(bytes.NewReader(fifo))
		root.SetOut(&out)
		root.SetErr(&errs)
		err := root.Execute()
		if !cli.BadUsage(err) || !strings.Contains(fmt.Sprint("surepipe: ", cli.Text(err)), c.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("surepipe mc %s: %v, expected %q", c.args, err, c.want)
		}
	}
}

// Seeds share the sample: the first is the sample's own, and the spread matches the trace
// estimator's standard error.
func TestSeedsSpreadAsTheTraceEstimatorSays(t *testing.T) {
	dir := t.TempDir()
	plot, running := filepath.Join(dir, "h.png"), filepath.Join(dir, "r.svg")
	status, stdout, stderr := command(t, "mc", "--problem", "svt", "--data", smallRPCA, "--lambda", "20", "--samples",
		"6", "--seeds", "80", "--trace", "hutchinson", "--queries", "20", "--seed", "4", "--plot", plot, "--running",
		running)
	if status != exitDone {
		t.Fatal(stderr)
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if len(lines) != 6+80+1 {
		t.Fatalf("%d lines", len(lines))
	}
	first, err := study.ParseLine([]byte(lines[0]))
	if err != nil {
		t.Fatal(err)
	}
	same, err := study.ParseLine([]byte(lines[6]))
	if err != nil {
		t.Fatal(err)
	}
	if same.Repeat == nil || *same.Repeat != 0 || *same.Sample != 0 || *same.SURE != *first.SURE ||
		!strings.Contains(lines[8], `"seed":6}`) {
		t.Errorf("the first seed gives %s, the sample %s, the third %s", lines[6], lines[0], lines[8])
	}
	var s study.Summary
	if err := json.Unmarshal([]byte(lines[86]), &s); err != nil {
		t.Fatal(err)
	}
	if s.Samples != 6 || s.Seeds != 80 || math.Abs(*s.SeedsSDSURE / *s.SeedsRMSStdErr - 1) > 0.35 ||
		*s.SeedsSDSURE > *s.SDSURE {
		t.Errorf("summary %s", lines[86])
	}
	for path, magic := range map[string]string{plot: "\x89PNG", running: "<?xml"} {
		text, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(text), magic) {
			t.Errorf("%s begins %.8q: %v", path, text, err)
		}
	}
	if !strings.Contains(stderr, "samples/s, ") || !strings.Contains(stderr, "probes/s") {
		t.Errorf("no throughput in %s", stderr)
	}
}

// An interrupt does not wait for a pipe, and what was done is kept.
func TestInterruptDoesNotWaitForAPipe(t *testing.T) {
	npy, _ := smallStack(t)
	text, err := os.ReadFile(npy)
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	defer r.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var out, errs bytes.Buffer
	log := filepath.Join(t.TempDir(), "mc.jsonl")
	root := newRoot()
	root.SetArgs([]string{"mc", "--problem", "svt", "--sigma2", "1", "--lambda", "2", "--y", "-", "--jsonl", log,
		"--parallel", "1"})
	root.SetIn(r)
	root.SetOut(&out)
	root.SetErr(&errs)
	ended := make(chan error)
	go func() { ended <- root.ExecuteContext(ctx) }()
	// Two samples and a part of the third.
	if _, err := w.Write(text[:len(text)-2*24*8-8]); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if text, err := os.ReadFile(log); err == nil && bytes.Count(text, []byte("\n")) == 3 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the first two samples are not done")
		}
	}
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) || !strings.Contains(errs.String(), "2 samples and 0 seeds are in "+log) {
			t.Errorf("%v, %s", err, errs.String())
		}
	case <-time.After(time.Second):
		t.Fatal("the command did not end within a second")
	}
}

// Whatever changes in the data changes their hash.
func TestDataHashSeesEveryPart(t *testing.T) {
	make := func() problems.Data {
		one := 1.0
		return problems.Data{
			X: mat.NewDense(2, 2, []float64{1, 2, 3, 4}), Y: []float64{1, 2}, YShape: []int{2}, Indices: []int{1, 2},
			Shape: []int{2, 2},
			Mu:    []float64{1, 2}, Sigma2: &one, Lambda: &one,
		}
	}
	want := study.DataHash(make())
	if want != study.DataHash(make()) {
		t.Fatal("two hashes of the same data differ")
	}
	two := 2.0
	seen := map[string]int{want: -1}
	for i, change := range []func(d *problems.Data){
		func(d *problems.Data) { d.X.(*mat.Dense).Set(1, 1, 5) },
		func(d *problems.Data) { d.X = mat.NewDense(1, 4, []float64{1, 2, 3, 4}) },
		func(d *problems.Data) { d.Y[1] = 3 },
		func(d *problems.Data) { d.YShape = []int{1, 2} },
		func(d *problems.Data) { d.Indices[0] = 3 },
		func(d *problems.Data) { d.Shape[0] = 3 },
		func(d *problems.Data) { d.Mu = nil },
		func(d *problems.Data) { d.Mu[0] = math.Nextafter(1, 2) },
		func(d *problems.Data) { d.Sigma2 = &two },
		func(d *problems.Data) { d.Sigma2 = nil },
		func(d *problems.Data) { d.Lambda2, d.Lambda = d.Lambda, nil },
		func(d *problems.Data) { d.Gamma = &two },
		func(d *problems.Data) { d.Loss.Name = "logistic" },
		func(d *problems.Data) { d.Loss = problems.Loss{Name: "huber", Parameter: 2} },
	} {
		d := make()
		change(&d)
		h := study.DataHash(d)
		if j, ok := seen[h]; ok {
			t.Errorf("change %d has the hash of change %d", i, j)
		}
		seen[h] = i
	}
}

// What follows the last sample on standard input is an error, though its samples are printed.
func TestNothingFollowsTheSamplesOfAPipe(t *testing.T) {
	whole, err := os.ReadFile(npyFile(t, []float64{1, 2, 3, 4, 5, 7, 6, 5}, 2, 2, 2))
	if err != nil {
		t.Fatal(err)
	}
	for rest, want := range map[string]string{"": "",
		"x": "standard input: continues after the last of the 2 samples"} {
		for _, samples := range []int{1, 2} {
			var out, errs bytes.Buffer
			root := newRoot()
			root.SetArgs([]string{"mc", "--problem", "svt", "--sigma2", "1", "--lambda", "1", "--y", "-", "--samples",
				fmt.Sprint(samples)})
			root.SetIn(bytes.NewReader(append(slices.Clip(whole), rest...)))
			root.SetOut(&out)
			root.SetErr(&errs)
			err := root.Execute()
			refused := err != nil && want != "" && strings.Contains(err.Error(), want)
			if lines := strings.Count(out.String(), "\"sample\":"); lines != samples ||
				refused != (want != "" && samples == 2) || err != nil && !refused {
				t.Errorf("%q after %d of 2 samples: %d lines, %v", rest, samples, lines, err)
			}
		}
	}
}
