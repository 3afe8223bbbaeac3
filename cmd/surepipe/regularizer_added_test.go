package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"surepipe/problems/spec"
	"surepipe/prox"
)

// huberNorm is W sum_j h(b_j), with the Huber function h(x) = x^2/(2 delta) up to delta, and |x| - delta/2 beyond.
var huberNorm = spec.RegularizerKind{
	Name:       "huber-norm",
	Forms:      []spec.Form{{Syntax: "huber-norm: {weight: W, delta: 1}", Meaning: "W sum_j h(b_j), the Huber function"}},
	Parameters: []spec.Parameter{{Name: "weight", Read: spec.FiniteWeight}, {Name: "delta", Read: spec.Number}},
	Check: func(c *spec.Call) error {
		if delta := c.Number("delta", 0); !(delta > 0) {
			return c.Errorf("delta", "delta is %g, expected a positive number", delta)
		}
		return nil
	},
	Build: func(a *spec.Arguments, in spec.Block) (spec.Penalty, error) {
		delta := a.Number("delta", 0)
		return spec.Penalty{Free: true, Make: a.Weight("weight").Of(func(w float64) prox.Prox {
			each := func(dst, v []float64, t float64) error {
				for i, x := range v {
					if dst[i] = x / (1 + t*w/delta); math.Abs(x) > delta+t*w {
						dst[i] = x - math.Copysign(t*w, x)
					}
				}
				return nil
			}
			return prox.NewFunc(in.Len(), each, nil, nil)
		})}, nil
	},
}

// A kind of regularizer that is added by one row, in a process of its own, is in the help, in errors that name the
// line and the parameter, and in specifications, whose estimate, SURE and sweep are in JSON.
func TestARegularizerIsARow(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	spec.RegisterRegularizer(huberNorm)
	if _, out, _ := command(t, "spec", "--help"); !strings.Contains(out, "huber-norm: {weight: W, delta: 1}") {
		t.Error("spec --help does not name huber-norm")
	}
	file := filepath.Join(t.TempDir(), "huber.yaml")
	write := func(arguments string) {
		text := "data: {y: [4, -3, 2, 0.2]}\noperator: identity\nsigma2: 1\nregularizer:\n  huber-norm: " + arguments + "\n"
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("{weight: 2*lambda, delta: 0.5}")
	status, out, stderr := command(t, "run", "--spec", file, "--lambda", "0.25", "--trace", "exact", "--json")
	var r struct {
		Problem          string
		SURE, Divergence float64
		Lambda, Sigma2   float64
		Residual         float64
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("status %d: %s", status, stderr)
	}
	// 2 lambda = 0.5: the values beyond 1 are moved by 0.5, and the other one is halved.
	residual := 3*0.5*0.5 + 0.1*0.1
	if sure := -4 + residual + 2*3.5; math.Abs(r.Divergence-3.5) > 1e-6 || math.Abs(r.SURE-sure) > 1e-5 ||
		r.Problem != "huber" || r.Lambda != 0.25 {
		t.Errorf("%+v, expected SURE %g and a divergence of 3.5", r, sure)
	}
	if status, out, stderr = command(t, "sweep", "--spec", file, "--lambda", "0.1:1:4", "--json"); status != 0 ||
		strings.Count(out, `"sure"`) < 4 {
		t.Errorf("sweep: status %d: %s", status, stderr)
	}
	for arguments, want := range map[string]string{
		"{weight: lambda, delta: -1}": "huber.yaml:5: delta is -1, expected a positive number",
		"lambda":                      "huber-norm has no delta, expected huber-norm: {weight: W, delta: 1}",
		"{weight: lambda, delt: 1}":   `key "delt" in huber-norm is unknown (did you mean "delta"?)`,
	} {
		write(arguments)
		if status, _, stderr := command(t, "run", "--spec", file, "--lambda", "1"); status != 2 ||
			!strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s, expected %q", arguments, status, stderr, want)
		}
	}
}
