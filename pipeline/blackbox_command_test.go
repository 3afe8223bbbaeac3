package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"surepipe/internal/dataio"
	"surepipe/pipeline"
)

// asProgram is the environment variable with which this test binary is a program of its own: its
// value says which.
const asProgram = "SUREPIPE_TEST_PROGRAM"

func init() {
	if len(os.Args) > 2 && os.Args[1] == asProgram {
		program(os.Args[2], os.Args[3:])
		os.Exit(0)
	}
}

// program reads y from its standard input and answers in the way of its name.
func program(name string, args []string) {
	text, err := io.ReadAll(os.Stdin)
	y, decoded := dataio.DecodeNPY("y", text)
	if err != nil || decoded != nil {
		fmt.Fprintln(os.Stderr, err, decoded)
		os.Exit(9)
	}
	lambda := 1.
	if len(args) > 0 {
		if lambda, err = strconv.ParseFloat(args[0], 64); err != nil {
			panic(err)
		}
	}
	y.Data, _ = softly(context.Background(), []float64{lambda}, y.Data)
	switch name {
	case "crash":
		fmt.Fprintln(os.Stderr, "one\ntwo: cannot go on")
		os.Exit(7)
	case "silent":
		return
	case "text":
		fmt.Println("hello")
		return
	case "shape":
		y.Shape = []int{len(y.Data)}
	case "nan":
		y.Data[1] = math.NaN()
	case "endless":
		for {
			os.Stdout.Write(text)
		}
	case "sleep":
		// A child of its own, which must end too.
		child := exec.Command("sleep", "30")
		child.Stdout = os.Stdout
		if err := child.Start(); err != nil {
			panic(err)
		}
		if len(args) > 1 {
			if err := os.WriteFile(args[1], []byte(strconv.Itoa(child.Process.Pid)), 0o666); err != nil {
				panic(err)
			}
		}
		child.Wait()
	}
	if err := dataio.EncodeNPY(os.Stdout, y); err != nil {
		panic(err)
	}
	if name == "more" {
		fmt.Println("done")
	}
}

// commandOf is this test binary as a program, with a weight.
func commandOf(t *testing.T, timeout time.Duration, name string, more ...string) *pipeline.BlackBox {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := pipeline.Command{Args: append([]string{self, asProgram, name, "{lambda}"}, more...),
		Weights: []string{"lambda"}, Shape: []int{2, 3}, Timeout: timeout}
	b, err := c.BlackBox()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A program that is not ours has the values of the function that it computes, bit by bit.
func TestCommandIsTheFunction(t *testing.T) {
	y := []float64{3, -2, 0.1, 1. / 3, math.Pi, -5}
	for _, method := range normalMethods() {
		b := commandOf(t, time.Minute, "soft")
		b.Divergence = method
		f := &pipeline.BlackBox{Name: "soft", D: 6, Eval: softly, Divergence: method}
		o := pipeline.Options{Sigma2: 1, Queries: 6, Parallel: 2}
		lambda := []float64{1. / 3}
		got, err := b.Estimate(context.Background(), lambda, y, o)
		if err != nil {
			t.Fatal(err)
		}
		want, err := f.Estimate(context.Background(), lambda, y, o)
		if err != nil || got.SURE != want.SURE || !slices.Equal(got.MuHat, want.MuHat) {
			t.Errorf("%s: SURE %g, want %g, %v", method, got.SURE, want.SURE, err)
		}
	}
}

// What goes wrong with a program is one clear error that names it.
func TestCommandErrors(t *testing.T) {
	y := []float64{3, -2, 0.1, 1, 2, -5}
	for name, want := range map[string]string{
		"crash":   "crash 0.5: exit status 7; its standard error ends:\n    one\n    two: cannot go on",
		"silent":  "silent 0.5: wrote nothing, expected mu_hat as a .npy array of real numbers, of shape (2, 3)",
		"text":    "expected mu_hat as a .npy array of real numbers, of shape (2, 3)",
		"shape":   "wrote an array of shape (6,), expected mu_hat as a .npy array of real numbers, of shape (2, 3)",
		"nan":     `array "mu_hat" holds NaN at [0, 1]`,
		"more":    `5 bytes follow the array, expected its end`,
		"endless": "wrote more than",
		"sleep":   "took longer than the time limit, 300ms, and was killed",
	} {
		begun := time.Now()
		limit := time.Minute
		if name == "sleep" {
			limit = 300 * time.Millisecond
		}
		_, err := commandOf(t, limit, name).Estimate(context.Background(), []float64{0.5}, y,
			pipeline.Options{Sigma2: 1})
		var failed *pipeline.CommandError
		if !errors.As(err, &failed) || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "command /") {
			t.Errorf("%s: error\n%v\nwant\n%s", name, err, want)
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("%s: it took %v", name, took)
		}
	}
	for _, c := range []struct {
		command pipeline.Command
		want    string
	}{
		{pipeline.Command{Args: []string{"/nowhere/denoise"}, Shape: []int{3}},
			"the command /nowhere/denoise: no such file"},
		{pipeline.Command{Args: []string{"no-such-program-anywhere"}, Shape: []int{3}},
			"executable file not found in $PATH"},
		{pipeline.Command{Args: []string{"cat"}, Weights: []string{"lambda"}, Shape: []int{3}},
			"the command cat has no {lambda}"},
		{pipeline.Command{Shape: []int{3}}, "without a program"},
	} {
		if _, err := c.command.BlackBox(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// When the context ends, the program and its children end within a second.
func TestCancelledCommandIsKilledWithItsChildren(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	b := commandOf(t, 0, "sleep", pidFile)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := b.Estimate(ctx, []float64{1}, make([]float64, 6), pipeline.Options{Sigma2: 1})
		done <- err
	}()
	var pid string
	for range 500 {
		if text, err := os.ReadFile(pidFile); err == nil && len(text) > 0 {
			pid = string(text)
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if pid == "" {
		t.Fatal("the program has not started")
	}
	cancel()
	begun := time.Now()
	if err := <-done; !errors.Is(err, context.Canceled) || time.Since(begun) > time.Second {
		t.Errorf("error %v after %v", err, time.Since(begun))
	}
	for range 100 {
		state, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(state), ") Z ") {
			return // gone, or where there is no /proc, not known
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %s, a child of the program, is still there", pid)
}

func TestSplitCommand(t *testing.T) {
	for line, want := range map[string][]string{
		`a b  c`:                            {"a", "b", "c"},
		` ./d --s {lambda} `:                {"./d", "--s", "{lambda}"},
		`sh -c 'cat | f "$x" \n'`:           {"sh", "-c", `cat | f "$x" \n`},
		`p "a \"b\" \\ \n" e\ f '' x''y`:    {"p", `a "b" \ \n`, "e f", "", "xy"},
		"a\tb\nc":                           {"a", "b", "c"},
		`python3 -c "print('é')" --k="v w"`: {"python3", "-c", "print('é')", "--k=v w"},
	} {
		got, err := pipeline.SplitCommand(line)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", line, got, err, want)
		}
	}
	for line, want := range map[string]string{"": "empty", "  ": "empty", `a 'b`: "a quote ' without its end",
		`a "b\"`: `a quote " without its end`} {
		if _, err := pipeline.SplitCommand(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", line, err, want)
		}
	}
}
