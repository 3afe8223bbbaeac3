package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// What was meant is named, and where to read on.
func TestMisspelledCommandsAndFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"sweeep --problem ridge", `unknown command "sweeep" (did you mean "sweep"?); see surepipe --help`},
		{"help sweeep", `unknown command "sweeep" (did you mean "sweep"?)`},
		{"help paper figurs", `unknown command "figurs" (did you mean "figures"?); see surepipe paper --help`},
		{"paper figurs", `unknown command "figurs" (did you mean "figures"?)`},
		{"xyzzy", `unknown command "xyzzy"; see`},
		{"run lasso", `surepipe run takes flags only, found "lasso"`},
		{"run --problm lasso", "unknown flag --problm (did you mean --problem?); see surepipe run --help"},
		{"run --samples 3", "unknown flag --samples; it is a flag of surepipe montecarlo"},
		{"run --xyzzyx", "unknown flag --xyzzyx; see surepipe run --help"},
		{"run -z", "unknown shorthand flag: 'z' in -z"},
		{"run --problem laso", `--problem is "laso" (did you mean "lasso"?), expected one of ols`},
		{"run --json=maybe", `--json is "maybe", expected true or false`},
		{"run --seed -1", `--seed is "-1", expected a whole number, 0 or more`},
		{"run --seed", "--seed has no value, expected a whole number, 0 or more"},
		{"run --tol x", `--tol is "x", expected a number`},
		{"run --max-iter 1.5", `--max-iter is "1.5", expected a whole number`},
		{"run --queries few", `--queries is "few": expected a number or auto`},
		{"run --out fit --problem lasso --data ../../testdata/diabetes.npz --lambda 1",
			`--out is "fit", expected a name that ends in .npz`},
		{"man", "--out is missing, expected a folder"},
	} {
		status, stdout, stderr := command(t, strings.Fields(c.args)...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, c.want) ||
			strings.Count(stderr, "\n") != 1 {
			t.Errorf("surepipe %s: status %d, stdout %q, stderr %q, expected %q", c.args, status, stdout, stderr,
				c.want)
		}
		if strings.Contains(stderr, "strconv") {
			t.Errorf("surepipe %s: %q speaks of strconv", c.args, stderr)
		}
	}
}

// Help goes by a command's name or alias, and a shell's completion still works.
func TestHelpOfCommands(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"help", "Available Commands:"},
		{"help run", "surepipe run [flags]"},
		{"help mc", "surepipe montecarlo [flags]"},
		{"help paper figures", "surepipe paper figures [flags]"},
		{"help tables", "--missing"},
		{"completion bash", "bash completion"},
		{"__complete run --proble", "--problem"},
		{"__complete help pap", "paper"},
		{"cite", "@software{surepipe"},
	} {
		status, stdout, stderr := command(t, strings.Fields(c.args)...)
		if status != exitDone || !strings.Contains(stdout, c.want) {
			t.Errorf("surepipe %s: status %d, %q, expected %q in %q", c.args, status, stderr, c.want, stdout)
		}
	}
}

// Every flag of run, sweep and montecarlo is described in a line of its help, or listed there under a topic, whose
// help describes it, or listed as run's, which describes it. No line of help is longer than 100 columns, and
// run's has 80 lines at most, the flags first.
func TestFlagsAreDescribedOnceAndListed(t *testing.T) {
	help := func(args ...string) string {
		status, text, stderr := command(t, args...)
		if status != exitDone {
			t.Fatalf("surepipe %v: status %d, %s", args, status, stderr)
		}
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
				t.Errorf("surepipe %v: %d columns: %s", args, n, line)
			}
		}
		return text
	}
	of := map[string]string{}
	for _, c := range topics() {
		text := help("help", c.Name)
		for _, name := range c.Flags {
			of[name] = c.Name
			if !strings.Contains(text, "\n      --"+name+" ") {
				t.Errorf("surepipe help %s does not describe --%s", c.Name, name)
			}
		}
	}
	ofRun, _, _ := strings.Cut(help("run", "--help"), "More flags")
	if n := strings.Count(help("run", "--help"), "\n"); n > 80 || !strings.Contains(ofRun[:200], "Flags:") {
		t.Errorf("run --help has %d lines, expected 80 at most, the flags first", n)
	}
	for _, name := range []string{"run", "sweep", "montecarlo"} {
		list, _, _ := strings.Cut(help(name, "--help"), "\nExamples:")
		own, rest, _ := strings.Cut(list, "More flags")
		more, others, _ := strings.Cut(rest, "Flags as in surepipe run:")
		var cmd *cobra.Command
		for _, c := range newRoot().Commands() {
			if c.Name() == name {
				cmd = c
			}
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			places := 0
			for _, text := range []string{own, more, others} {
				if strings.Contains(strings.ReplaceAll(text, "\n", " "), " --"+f.Name+" ") {
					places++
				}
			}
			switch listed := strings.Contains(strings.ReplaceAll(others, "\n", " "), " --"+f.Name+" "); {
			case f.Hidden:
			case places != 1:
				t.Errorf("%s --help: --%s is in %d places, expected one", name, f.Name, places)
			case listed && !strings.Contains(ofRun, " --"+f.Name+" "):
				t.Errorf("%s --help refers to run --help for --%s, which does not describe it", name, f.Name)
			}
		})
	}
}

func TestManualPages(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "man1")
	if status, _, stderr := command(t, "man", "--out", folder); status != exitDone {
		t.Fatal(stderr)
	}
	for page, want := range map[string]string{
		"surepipe.1": "Exit status:", "surepipe-run.1": "matrix-completion", "surepipe-paper-figures.1": "scale",
		"surepipe-sweep.1": `\fB--criterion\fP`,
	} {
		text, err := os.ReadFile(filepath.Join(folder, page))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("%s does not hold %q", page, want)
		}
	}
	if status, _, stderr := command(t, "man", "--out", "/dev/null/x"); status != exitUsage ||
		!strings.Contains(stderr, `--out is "/dev/null/x"`) {
		t.Errorf("status %d, %q", status, stderr)
	}
}
