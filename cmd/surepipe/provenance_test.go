package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"surepipe/pipeline"
	"surepipe/study"
)

// A fit and a plot have the command that makes them again: run a second time it gives the same bytes.
func TestFilesHaveTheCommandThatMakesThem(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("a table.csv", []byte(strings.ReplaceAll(stackLoss, ",0", "")), 0o666); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := command(t, "sweep", "--problem", "lasso", "--data", "a table.csv", "--response",
		"stack.loss", "--drop", "Acid.Conc.", "--intercept=false", "--lambda", "1:20:4", "--plot", "p.png", "--out",
		"fit.npz"); status != exitDone {
		t.Fatal(stderr)
	}
	first := map[string]string{}
	for _, name := range []string{"p.png", "fit.npz"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		first[name] = string(content)
	}
	line := regexp.MustCompile(`Command\x00{5}([ -~]+)`).FindStringSubmatch(first["p.png"])
	if line == nil || !strings.Contains(first["p.png"], "sha256:") ||
		!strings.Contains(first["p.png"], "surepipe "+study.Version()) {
		t.Fatal("the plot has no command")
	}
	// The chunk's checksum follows the text.
	text := line[1][:strings.LastIndex(line[1], "stack.loss")+len("stack.loss")]
	o := object(t, "predict", "--fit", "fit.npz", "--data", "a table.csv")
	if got := o["fit"].(map[string]any)["command"].(string); !strings.HasPrefix(line[1], got) ||
		!strings.HasPrefix(got, text) {
		t.Errorf("the fit has the command %q, the plot %q", got, line[1])
	} else {
		text = got
	}
	args, err := pipeline.SplitCommand(text)
	if err != nil {
		t.Fatal(err)
	}
	for name := range first {
		os.Remove(name)
	}
	if status, _, stderr := command(t, append(args[1:], "--plot", "p.png", "--out", "fit.npz")...); status != exitDone {
		t.Fatalf("%s: %s", text, stderr)
	}
	if content, err := os.ReadFile("p.png"); err != nil || string(content) != first["p.png"] {
		t.Errorf("%s does not make the same plot: %v", text, err)
	}
	o = object(t, "predict", "--fit", "fit.npz", "--data", "a table.csv")
	if got := o["fit"].(map[string]any)["command"].(string); got != text {
		t.Errorf("%s, then %s", text, got)
	}
}
