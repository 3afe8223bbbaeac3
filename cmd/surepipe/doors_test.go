package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"surepipe"
	"surepipe/pipeline"
	"surepipe/study"
)

// door is a request that the command, Go and the packages for other languages answer with the same digits
// (python/tests/test_results.py).
type door struct {
	Name, Verb, Data string
	Problem          surepipe.Problem
	Options          map[string]any
}

// ask is the request's JSON from the front door in Go.
func (d door) ask(t *testing.T, path string) string {
	t.Helper()
	o, g := surepipe.Options{Problem: d.Problem}, surepipe.Grid{}
	for name, v := range d.Options {
		text := fmt.Sprint(v)
		yes, number := v == true, 0.0
		number, _ = v.(float64)
		switch name {
		case "lambda":
			if d.Verb == "sweep" {
				g.Lambda = text
			} else {
				o.Lambda = text
			}
		case "lambda2":
			o.Lambda2 = text
		case "sigma2":
			if o.Sigma2 = number; number == 0 {
				o.Sigma2By = text
			}
		case "criterion":
			g.Criterion = surepipe.Criterion(text)
		case "rule":
			g.Rule = pipeline.Rule(text)
		case "intercept":
			o.Intercept = &yes
		case "standardize":
			o.Standardize = &yes
		case "response":
			o.Table.Response = text
		case "time":
			o.Table.Time = text
		case "loss":
			o.Loss = text
		case "effects":
			o.Effects = strings.Split(text, ",")
		case "trace":
			o.Trace = text
		case "queries":
			o.Queries = int(number)
		case "seed":
			o.Seed = uint64(number)
		case "tol":
			o.Tol = number
		default:
			t.Fatalf("%s has the option %s, which this test does not know", d.Name, name)
		}
	}
	e, err := surepipe.Open(t.Context(), surepipe.File(path), o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var found any
	if d.Verb == "sweep" {
		p, err := e.Sweep(t.Context(), g)
		if err != nil {
			t.Fatal(err)
		}
		found = p.Points
	} else {
		all := make([]surepipe.Result, len(e.Responses()))
		err := e.Each(t.Context(), func(ctx context.Context, k int, e *surepipe.Estimator) error {
			f, err := e.Fit(ctx)
			if err == nil {
				all[k] = f.Result
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if found = all; len(all) == 1 {
			found = all[0]
		}
	}
	text, err := json.Marshal(found)
	if err != nil {
		t.Fatal(err)
	}
	return parsed(string(text))
}

// parsed is JSON without what depends on the clock, and without what only resuming needs.
func parsed(text string) string { return string(study.WithoutTimes([]byte(text), "digest")) }

// The command and the front door in Go give the same digits for the same request.
func TestDoorsGiveTheSameDigits(t *testing.T) {
	text, err := os.ReadFile("../../testdata/doors.json")
	if err != nil {
		t.Fatal(err)
	}
	var doors []door
	if err := json.Unmarshal(text, &doors); err != nil || len(doors) < 5 {
		t.Fatalf("%d requests, %v", len(doors), err)
	}
	for _, d := range doors {
		t.Run(d.Name, func(t *testing.T) {
			path := filepath.Join("../../testdata", d.Data)
			args := []string{d.Verb, "--problem", string(d.Problem), "--data", path, "--json"}
			for _, name := range slices.Sorted(maps.Keys(d.Options)) {
				v := d.Options[name]
				if number, ok := v.(float64); ok {
					v = strconv.FormatFloat(number, 'g', -1, 64)
				}
				args = append(args, fmt.Sprintf("--%s=%v", name, v))
			}
			status, out, stderr := command(t, args...)
			if status != exitDone {
				t.Fatalf("status %d: %s", status, stderr)
			}
			if d.Verb == "sweep" { // between a header and the summary
				lines := strings.Split(strings.TrimSpace(out), "\n")
				out = "[" + strings.Join(lines[1:len(lines)-1], ",") + "]"
			}
			want := strings.ReplaceAll(parsed(out), "--", "") // texts name options without it elsewhere
			if found := strings.ReplaceAll(d.ask(t, path), "--", ""); found != want {
				t.Errorf("Go: %s\nthe command: %s", found, want)
			}
		})
	}
}
