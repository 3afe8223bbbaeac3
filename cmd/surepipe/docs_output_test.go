package main

import (
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"surepipe/pipeline"
)

// printed is a line of output in an indented block of a document: a label in a column, and what it says.
var printed = regexp.MustCompile(`^    [A-Za-z0-9]+ {2,}\S`)

// The lines that the documents show as printed are those that the command before them prints.
func TestOutputsOfTheDocuments(t *testing.T) {
	if testing.Short() {
		t.Skip("the numbers are the same without a native BLAS")
	}
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for name, text := range documents(t) {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			documentFiles(t, top)
			last, output := "", ""
			for line := range strings.Lines(text) {
				commands := commandLines(line)
				commands = slices.DeleteFunc(commands, func(c string) bool { return strings.HasPrefix(c, "go test") })
				if len(commands) > 0 {
					last, output = strings.Replace(commands[0], "go run ./cmd/surepipe ", "surepipe ", 1), ""
					continue
				}
				if !printed.MatchString(line) {
					continue
				}
				if output == "" {
					args, err := pipeline.SplitCommand(last)
					if err != nil {
						t.Fatalf("%s: %v", last, err)
					}
					_, output, _ = command(t, args[1:]...)
				}
				shown++
				if !prints(output, line) {
					t.Errorf("%s\ndoes not print\n%sbut\n%s", last, line, output)
				}
			}
		})
	}
	if shown < 10 {
		t.Errorf("%d lines of output in the documents: the test reads them no more", shown)
	}
}

// prints is whether one of the lines of output is line, but for spaces, rounding and seconds.
func prints(output, line string) bool {
	want := strings.Fields(line)
	for other := range strings.Lines(output) {
		have, same := strings.Fields(other), true
		if len(have) != len(want) {
			continue
		}
		for i, w := range want {
			seconds := i+1 < len(want) && want[i+1] == "s" && have[i+1] == "s"
			same = same && (seconds || alike(w, have[i]))
		}
		if same {
			return true
		}
	}
	return false
}

// alike is whether two words are the same, or numbers that differ by rounding.
func alike(a, b string) bool {
	x, errX := strconv.ParseFloat(strings.Trim(a, ",;:"), 64)
	y, errY := strconv.ParseFloat(strings.Trim(b, ",;:"), 64)
	if errX != nil || errY != nil {
		return a == b
	}
	return math.Abs(x-y) <= 2e-3*math.Abs(x)
}
