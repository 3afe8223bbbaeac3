package main

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
)

// --alpha a is the elastic net with lambda a and lambda (1 - a); 1 is the LASSO.
func TestAlphaMixesTheElasticNet(t *testing.T) {
	table := text(t, "loss.csv", stackLoss)
	fit := func(args string) map[string]any {
		return object(t, strings.Fields("run --response stack.loss --data "+table+" "+args)...)
	}
	for _, c := range [][2]string{
		{"--problem elastic-net --alpha 0.25 --lambda 16", "--problem elastic-net --lambda 4 --lambda2 12"},
		{"--problem elastic-net --alpha 1 --lambda 0.1max", "--problem lasso --lambda 0.1max"},
	} {
		got, want := fit(c[0]), fit(c[1])
		for _, key := range []string{"gcv", "divergence", "residual", "intercept"} {
			near(t, c[0]+" "+key, got[key].(float64), want[key].(float64))
		}
	}
	// The maximum is that of the l1 part.
	near(t, "max", fit("--problem elastic-net --alpha 0.25 --lambda max")["lambda"].(float64),
		4*fit("--problem lasso --lambda max")["lambda"].(float64))
	for args, want := range map[string]string{
		"--problem lasso --alpha 0.5 --lambda 1":                   "--alpha is for --problem elastic-net",
		"--problem elastic-net --alpha 0 --lambda 1":               "--alpha is 0, expected a number above 0",
		"--problem elastic-net --alpha 0.5 --lambda 1 --lambda2 3": "--alpha and --lambda2 are both given",
	} {
		status, _, stderr := command(t, append(strings.Fields("run --response stack.loss --data "+table),
			strings.Fields(args)...)...)
		if status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s, expected %s", args, status, stderr, want)
		}
	}
}

// Where two weights are open a sweep has a map of 8 x 8, down to 0.02 of the largest weights at which either part is
// 0; and --spec takes the name of a listed specification.
func TestASweepOfTwoOpenWeightsIsAMap(t *testing.T) {
	y := text(t, "y.csv", "1,2,3,1\n2,4,6,9\n3,6,8,3\n0,1,1,0\n5,1,2,2\n")
	for _, problem := range []string{"--problem robust-pca", "--spec robust-pca"} {
		_, stdout, stderr := command(t, strings.Fields("sweep --json --refine 0 --audit=false --data "+y+" "+problem)...)
		var header struct {
			Grid []struct {
				Name     string
				From, To float64
				Points   int
			}
		}
		first, _, _ := strings.Cut(stdout, "\n")
		if err := json.Unmarshal([]byte(first), &header); err != nil || len(header.Grid) != 2 {
			t.Fatalf("%s: %v, %s %s", problem, err, first, stderr)
		}
		// At gamma = max no entry is in the sparse part: gamma's maximum is the largest entry, 9.
		for _, g := range header.Grid {
			if g.Points != 8 || math.Abs(g.From/g.To-0.02) > 1e-12 || g.Name == "gamma" && math.Abs(g.To-9) > 1e-12 {
				t.Errorf("%s: the grid is %+v", problem, g)
			}
		}
	}
}

// Without a grid a sweep has the path of glmnet: 100 weights, down to 1e-4 of the maximum where there are more rows than
// columns; that of ridge is over the squared singular values of X, whatever the unit of the response.
func TestASweepHasADefaultPath(t *testing.T) {
	table := text(t, "loss.csv", stackLoss)
	top, share := map[string]float64{}, map[string]float64{"lasso": 1e-4, "ridge": 1e-7}
	for _, problem := range []string{"lasso", "ridge"} {
		_, stdout, stderr := command(t, strings.Fields("sweep --json --refine 0 --audit=false --problem "+problem+
			" --response stack.loss --data "+table)...)
		var header struct {
			Grid []struct {
				From, To float64
				Points   int
			}
		}
		first, _, _ := strings.Cut(stdout, "\n")
		if err := json.Unmarshal([]byte(first), &header); err != nil || len(header.Grid) != 1 {
			t.Fatalf("%s: %v, %s %s", problem, err, first, stderr)
		}
		g := header.Grid[0]
		if top[problem] = g.To; g.Points != 100 || math.Abs(g.From/g.To-share[problem]) > 1e-12 {
			t.Errorf("%s: the grid is %+v", problem, g)
		}
	}
	near(t, "ridge", top["ridge"], 10*21*3) // 3 standardized columns of 21 rows
	max := object(t, strings.Fields("run --problem lasso --lambda max --response stack.loss --data "+table)...)
	near(t, "lasso", top["lasso"], max["lambda"].(float64))
	if _, _, stderr := command(t, strings.Fields("sweep --problem ols --response stack.loss --data "+table)...); !strings.Contains(stderr, "no weight is a grid") {
		t.Errorf("ols: %s", stderr)
	}
}

// A table whose best fit is that of least squares has its least at the lower end, below which nothing is left to gain;
// that of a grid which ends far above is told.
func TestALeastNearZeroIsNoEdge(t *testing.T) {
	var table strings.Builder
	table.WriteString("a,b,y\n")
	for i := range 40 {
		a, b := math.Sin(float64(3*i)), math.Cos(float64(5*i))
		fmt.Fprintf(&table, "%g,%g,%g\n", a, b, 2*a-3*b+0.3*math.Sin(float64(i*i)))
	}
	path := text(t, "near.csv", table.String())
	for _, problem := range []string{"lasso", "ridge"} {
		for grid, want := range map[string]bool{"": false, " --lambda 5:20:4 --refine 0": true} {
			_, stdout, stderr := command(t, strings.Fields("sweep --problem "+problem+" --response y --data "+path+grid)...)
			if got := strings.Contains(stdout+stderr, "edge of the grid"); got != want {
				t.Errorf("%s%s: told %v: %s %s", problem, grid, got, stdout, stderr)
			}
		}
	}
}

// Leave-one-out with a loss is work of its own: a sweep by another criterion has it at its answer, or where it is asked
// for, and its JSON says why points have none.
func TestLeaveOneOutIsComputedWhereItIsAskedFor(t *testing.T) {
	for args, want := range map[string]bool{"aic": false, "aic --alo": true, "alo": true} {
		_, stdout, stderr := command(t, strings.Fields("sweep --json --audit=false --problem lasso --loss poisson --response "+
			"stack.loss --lambda 1:20:4 --data "+text(t, "loss.csv", stackLoss)+" --criterion "+args)...)
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		if len(lines) < 6 || strings.Contains(lines[0], `"not_computed":{"alo":`) == want ||
			strings.Contains(lines[1], `"alo":`) != want || !strings.Contains(lines[len(lines)-1], `"alo":`) {
			t.Errorf("%s: %s %s", args, stdout, stderr)
		}
	}
}

// A multiple of the maximum is told in the JSON, and not on standard error.
func TestRelativeWeightsAreToldQuietly(t *testing.T) {
	_, stdout, stderr := command(t, strings.Fields("run --problem lasso --json --lambda 0.1max --response stack.loss --data "+
		text(t, "loss.csv", stackLoss))...)
	if stderr != "" || !strings.Contains(stdout, `"relative-weight"`) {
		t.Errorf("standard error %q, result %s", stderr, stdout)
	}
}
