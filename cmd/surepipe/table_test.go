package main

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"surepipe/risk/warning"
)

// stackLoss is Brownlee's (1965) table of the loss of ammonia at a plant, as R's write.csv2 would
// write it.
const stackLoss = `"";"Air.Flow";"Water.Temp";"Acid.Conc.";"stack.loss"
"1";80,0;27;89;42
"2";80;27;88;37
"3";75;25;90;37
"4";62;24;87;28
"5";62;22;87;18
"6";62;23;87;18
"7";62;24;93;19
"8";62;24;93;20
"9";58;23;87;15
"10";58;18;80;14
"11";58;18;89;14
"12";58;17;88;13
"13";58;18;82;11
"14";58;19;93;12
"15";50;18;89;8
"16";50;18;86;7
"17";50;19;72;8
"18";50;19;79;8
"19";50;20;80;9
"20";56;20;82;15
"21";70;20;91;15
`

// stackLossY is its response.
var stackLossY = []float64{42, 37, 37, 28, 18, 18, 19, 20, 15, 14, 14, 13, 11, 12, 8, 7, 8, 8, 9, 15, 15}

// The coefficients of glmnet 4.1-4, with an intercept and by default on standardized columns, at d
// times its lambda: run of
//
//	glmnet(x, y, lambda=15/21, thresh=1e-24, maxit=1e8)
//	glmnet(x, y, lambda=15/21, thresh=1e-24, maxit=1e8, standardize=FALSE)
//	glmnet(x, y, lambda=3, alpha=0.5, thresh=1e-24, maxit=1e8)
func TestTablesHaveTheCoefficientsOfGlmnet(t *testing.T) {
	table := text(t, "loss.csv", stackLoss)
	out := filepath.Join(t.TempDir(), "fit.npz")
	ridge := fmt.Sprint(31.5 / stat.PopStdDev(stackLossY, nil))
	for _, c := range []struct {
		args string
		want []float64
	}{
		{"--problem lasso --lambda 15", []float64{-44.9099683772, 0.626351389669, 1.16539373009, 0}},
		{"--problem lasso --lambda 15 --standardize=false", []float64{-41.7906637568, 0.731582763206, 1.15423156957,
			-0.107118748861}},
		{"--problem elastic-net --lambda 31.5 --lambda2 " + ridge, []float64{-34.5322641894, 0.494781384299,
			1.05033853567, 0}},
	} {
		args := append(strings.Fields("run --tol 1e-12 --response stack.loss --data "+table+" --out "+out),
			strings.Fields(c.args)...)
		o := object(t, args...)
		if standard := !strings.Contains(c.args, "=false"); (o["standardize"] == true) != standard {
			t.Errorf("%s: standardize is %v", c.args, o["standardize"])
		}
		b := readArray(t, out, "b")
		for j, want := range c.want {
			got := o["intercept"].(float64)
			if j > 0 {
				got = b[j-1]
			}
			if math.Abs(got-want) > 1e-8*math.Abs(c.want[0]) {
				t.Errorf("%s: coefficient %d is %.12g, expected %.12g", c.args, j, got, want)
			}
		}
	}
}

// A specification says by keys what the flags say, and the flags replace it.
func TestSpecificationsOfTables(t *testing.T) {
	table := text(t, "loss.csv", stackLoss)
	spec := text(t, "mine.yaml", "data: {file: "+table+", response: stack.loss, drop: [Acid.Conc.], categorical: "+
		"Water.Temp}\n"+
		"operator: {matrix: X}\nregularizer: {group-l2: {weight: lambda, groups: groups}}\nintercept: "+
		"true\nstandardize: true\nlambda: 4\n")
	same := strings.Fields("run --problem group-lasso --lambda 4 --response stack.loss --drop Acid.Conc. " +
		"--categorical Water.Temp --data " + table)
	for _, more := range []string{"", "--standardize=false", "--intercept=false", "--missing drop"} {
		want := object(t, append(same, strings.Fields(more)...)...)
		got := object(t, append([]string{"run", "--spec", spec}, strings.Fields(more)...)...)
		for _, key := range []string{"d", "p", "gcv", "divergence", "residual"} {
			near(t, more+" "+key, got[key].(float64), want[key].(float64))
		}
	}
	if status, _, stderr := command(t, "run", "--spec", spec, "--response", "Acid.Conc."); status != exitUsage ||
		!strings.Contains(stderr, `--drop: column "Acid.Conc." is the response`) {
		t.Errorf("status %d, %s", status, stderr)
	}
}

// The variance of the noise is that of least squares with a reference level, where all levels have a
// column.
func TestSigma2OfATableWithAllLevels(t *testing.T) {
	table := text(t, "loss.csv", stackLoss)
	flags := strings.Fields("run --sigma2 auto --lambda 1 --response stack.loss --categorical Water.Temp --data " +
		table)
	want := object(t, strings.Fields("run --problem ols --sigma2 auto --response stack.loss --categorical "+
		"Water.Temp --data "+table)...)
	got := object(t, append(flags, "--problem", "lasso")...)
	near(t, "sigma2", got["sigma2"].(float64), want["sigma2"].(float64))
	if got["p"].(float64) != want["p"].(float64)+1 {
		t.Errorf("p is %v and %v", got["p"], want["p"])
	}
}

// Columns of very different scales are noted where they are penalized as they are.
func TestUnscaledColumnsAreNoted(t *testing.T) {
	x, y := make([]float64, 60), make([]float64, 20)
	for i := range 20 {
		y[i] = math.Sin(float64(i))
		for j := range 3 {
			x[3*i+j] = math.Cos(float64(i*(j+1))) * math.Pow(30, float64(j))
		}
	}
	npz := save(t, floats("X", x, 20, 3), floats("y", y, 20))
	csv := "a,b,c,y\n"
	for i := range 20 {
		csv += fmt.Sprintf("%g,%g,%g,%g\n", x[3*i], x[3*i+1], x[3*i+2], y[i])
	}
	table := text(t, "t.csv", csv)
	for args, want := range map[string]bool{
		"--problem lasso --lambda 1 --data " + npz:                                             true,
		"--problem lasso --lambda 1 --standardize --data " + npz:                               false,
		"--problem ols --data " + npz:                                                          false,
		"--problem lasso --lambda 1 --response y --data " + table:                              false,
		"--problem lasso --lambda 1 --response y --standardize=false --data " + table:          true,
		"--problem lasso --lambda 1 --response y --standardize=false --only a --data " + table: false,
	} {
		status, stdout, stderr := command(t, append([]string{"run", "--json"}, strings.Fields(args)...)...)
		if noted := strings.Contains(stderr, "--standardize makes it independent of them") &&
			strings.Contains(stdout, warning.UnscaledColumns.Code); status != exitDone || noted != want {
			t.Errorf("%s: status %d, %s", args, status, stderr)
		}
	}
}

// Rows of weight 0 are no observations: what they hold, and that they are there, changes no number.
func TestRowsOfWeightZeroAreLeftOut(t *testing.T) {
	const table = "y,x,w\n1,1,1\n2.1,2,0\n3,3,1\n4.2,4,2\n5,5,1\n,6,0\n7,7.5,1\n"
	without := strings.ReplaceAll(strings.ReplaceAll(table, "2.1,2,0\n", ""), ",6,0\n", "")
	for _, flags := range []string{"--problem ols", "--problem lasso --lambda 0.1 --loss poisson", "--problem ridge --lambda 1 --sigma2 0.1"} {
		var said []string
		for _, data := range []string{table, without} {
			args := append(strings.Fields("run --json --response y --weights w "+flags), "--data", text(t, "w.csv", data))
			stdout, stderr, status := capture(t, args)
			if status != exitDone {
				t.Fatal(stderr)
			}
			if left := strings.Contains(stderr, "2 of 7 rows have weight 0"); left != (data == table) {
				t.Errorf("%s: %s", flags, stderr)
			}
			if equal := strings.Contains(stderr, "the weights differ"); equal == strings.Contains(flags, "poisson") {
				t.Errorf("%s: %s", flags, stderr)
			}
			numbers, _, _ := strings.Cut(seconds.ReplaceAllString(stdout, ""), `"choices"`)
			said = append(said, numbers)
		}
		if said[0] != said[1] {
			t.Errorf("%s:\n%s\nwithout those rows\n%s", flags, said[0], said[1])
		}
	}
}

// A column of quoted numbers with a text among them is a category, and a note says so, in the JSON too.
func TestNumbersInQuotesWithATextAreNoted(t *testing.T) {
	table := "a,b,y\n"
	for i := range 40 {
		mark := fmt.Sprint(1 + i%7)
		if i == 17 {
			mark = "n/a?"
		}
		table += fmt.Sprintf("%d,%q,%d\n", i*i%11, mark, i%7+i%3)
	}
	run := "run --problem lasso --lambda 0.1max --response y --data " + text(t, "t.csv", table)
	o := object(t, strings.Fields(run)...)
	if all := fmt.Sprint(o["warnings"]); !strings.Contains(all, "numbers-as-category") ||
		!strings.Contains(all, `column "b"`) || !strings.Contains(all, `"n/a?" among them`) ||
		!strings.Contains(all, "8 levels") {
		t.Errorf("warnings %v", all)
	}
	for _, more := range []string{" --categorical b", " --na n/a? --missing drop"} {
		if _, _, stderr := command(t, strings.Fields(run+more)...); strings.Contains(stderr, "among them") {
			t.Errorf("%s: %s", more, stderr)
		}
	}
}
