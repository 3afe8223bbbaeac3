package main

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
)

// motors are eight columns of R's mtcars, 16 of its rows.
const motors = `mpg,cyl,disp,hp,drat,wt,qsec
21,6,160,110,3.9,2.62,16.46
22.8,4,108,93,3.85,2.32,18.61
21.4,6,258,110,3.08,3.215,19.44
18.7,8,360,175,3.15,3.44,17.02
18.1,6,225,105,2.76,3.46,20.22
14.3,8,360,245,3.21,3.57,15.84
24.4,4,146.7,62,3.69,3.19,20
22.8,4,140.8,95,3.92,3.15,22.9
19.2,6,167.6,123,3.92,3.44,18.3
16.4,8,275.8,180,3.07,4.07,17.4
10.4,8,472,205,2.93,5.25,17.98
14.7,8,440,230,3.23,5.345,17.42
32.4,4,78.7,66,4.08,2.2,19.47
30.4,4,75.7,52,4.93,1.615,18.52
15.5,8,318,150,2.76,3.52,16.87
27.3,4,79,66,4.08,1.935,18.9
`

// The references are glmnet 4.1 at thresh 1e-22: with penalty.factor, which it scales to the sum p, lower.limits and
// upper.limits.
func TestFactorsAndBoundsAreThoseOfGlmnet(t *testing.T) {
	table, out := text(t, "motors.csv", motors), filepath.Join(t.TempDir(), "fit.npz")
	for _, c := range []struct {
		args string
		want []float64
	}{
		{"--lambda 3.2 --lower cyl=-0.5,wt=-1 --upper dr*=0.3", []float64{32.27850643627, -0.5, -0.01358955151, -0.02587049822,
			0.3, -1, 0}},
		{"--lambda 8 --factors cyl=0,drat=2", []float64{39.005858706, -2.242192127, 0, 0, 0, -1.510189054, 0}},
		{"--lambda 8 --factors drat=2,cyl=0 --solver fista", []float64{39.005858706, -2.242192127, 0, 0, 0, -1.510189054, 0}},
		{"--lambda 1.6 --lower 0", []float64{-20.6334025457, 0, 0, 0, 7.2555544780, 0, 0.8449645487}},
	} {
		o := object(t, append(strings.Fields("run --problem lasso --tol 1e-13 --max-iter 100000 --response mpg --data "+
			table+" --out "+out), strings.Fields(c.args)...)...)
		got := append([]float64{o["intercept"].(float64)}, readArray(t, out, "b")...)
		for j, want := range c.want {
			if math.Abs(got[j]-want) > 1e-6*(1+math.Abs(want)) {
				t.Errorf("%s: coefficient %d is %.10g, expected %.10g", c.args, j, got[j], want)
			}
		}
	}
	for args, want := range map[string]string{
		"--problem lasso --lower wt=1":            "--lower gives 1 to wt, expected numbers of at most 0",
		"--problem lasso --factors weight=0":      `--factors: no column of X has the name or pattern "weight"`,
		"--problem lasso --factors wt=heavy":      `--factors: found "wt=heavy", expected NAME=NUMBER`,
		"--problem group-lasso --lower 0":         "the penalty is not a sum over single coefficients",
		"--problem lasso --column-groups g.csv":   "--column-groups is for group-lasso",
		"--problem group-lasso --column-groups g": "--column-groups g: ",
	} {
		status, _, stderr := command(t, append(strings.Fields("run --lambda 1 --response mpg --data "+table),
			strings.Fields(args)...)...)
		if status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s, expected %s", args, status, stderr, want)
		}
	}
}

// A sweep with bounds works for every weight, and a group of a file is that of an array.
func TestColumnsOfAGroupComeFromAFile(t *testing.T) {
	table := text(t, "motors.csv", motors)
	groups := text(t, "groups.csv", "name,group\ncyl,engine\ndisp,engine\nhp,engine\nwt,body\nq*,body\ndrat,axle\n")
	got := object(t, strings.Fields("run --problem group-lasso --lambda 20 --response mpg --data "+table+
		" --column-groups "+groups)...)
	spec := text(t, "groups.yaml", "data: {file: "+table+", response: mpg}\noperator: {matrix: X}\nregularizer: "+
		"{group-l2: {weight: 20, groups: [7, 7, 7, 2, 1, 1]}}\nintercept: true\nstandardize: true\n")
	want := object(t, "run", "--spec", spec)
	for _, key := range []string{"gcv", "divergence", "residual"} {
		near(t, key, got[key].(float64), want[key].(float64))
	}
	status, stdout, stderr := command(t, strings.Fields("sweep --problem lasso --response mpg --data "+table+
		" --factors cyl=0 --lower wt=-1 --json")...)
	if status != exitDone || !strings.Contains(stdout, `"summary":true`) {
		t.Errorf("status %d, %s, %s", status, fmt.Sprintf("%.200s", stdout), stderr)
	}
}

// Where bounds leave no way down the error of a multiple of the maximum says so.
func TestMaximumWithinBounds(t *testing.T) {
	data := text(t, "t.csv", "a,y\n1,-1\n2,-2.5\n3,-2\n4,-4\n")
	status, _, stderr := command(t, "run", "--problem", "lasso", "--data", data, "--response", "y", "--lower", "0",
		"--lambda", "0.1max")
	if status != exitUsage || !strings.Contains(stderr, "in a direction that the bounds of its coefficient allow") {
		t.Errorf("status %d: %s", status, stderr)
	}
}
