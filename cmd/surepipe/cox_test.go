package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// ovarian is R's survival::ovarian, with futime in units of 100 days rounded up, t, a beginning s and weights w.
const ovarian = `futime,fustat,age,resid.ds,rx,ecog.ps,t,s,w
59,1,72.3315,2,1,1,1,0,2
115,1,74.4932,2,1,1,2,1,3
156,1,66.4658,2,1,2,2,1,1
421,0,53.3644,2,2,1,5,0,2
431,1,50.3397,2,1,1,5,0,3
448,0,56.4301,1,1,2,5,0,1
464,1,56.937,2,2,2,5,0,2
475,1,59.8548,2,2,2,5,0,3
477,0,64.1753,2,1,1,5,2,1
563,1,55.1781,1,2,2,6,0,2
638,1,56.7562,1,1,2,7,0,3
744,0,50.1096,1,2,1,8,0,1
769,0,59.6301,2,2,2,8,0,2
770,0,57.0521,2,2,1,8,0,3
803,0,39.2712,1,1,1,9,0,1
855,0,43.1233,1,1,2,9,0,2
1040,0,38.8932,2,1,2,11,0,3
1106,0,44.6,1,1,1,12,0,1
1129,0,53.9068,1,2,1,12,0,2
1206,0,44.2055,2,2,1,13,0,3
1227,0,59.589,1,2,2,13,0,1
268,1,74.5041,2,1,2,3,2,2
329,1,43.137,2,1,1,4,0,3
353,1,63.2192,1,2,2,4,2,1
365,1,64.4247,2,2,1,4,2,2
377,0,58.3096,1,2,1,4,0,3
`

// Fits with the Cox losses have the coefficients, the likelihood, AIC and BIC of survival 3.5.3's coxph, and the
// penalized coefficients of glmnet 4.1.6, whose lambda is that of d times.
func TestCoxIsCoxphAndGlmnet(t *testing.T) {
	table := text(t, "ovarian.csv", ovarian)
	for _, c := range []struct {
		args     string
		names    string
		want     []float64
		value    float64 // 0 for not known
		aic, bic float64
	}{
		{"ols --loss cox --response fustat --time t --start s --strata rx --only age,resid.ds,ecog.ps",
			"age resid.ds ecog.ps", []float64{0.13103114634301, 1.00941481627137, 0.58706618853587},
			18.064043339507, 42.128086679015, 43.582806628379},
		{"ols --loss cox-efron --response fustat --time t --start s --strata rx --only age,resid.ds,ecog.ps",
			"age resid.ds ecog.ps", []float64{0.13634628590852, 1.04256618270594, 0.59857662781998},
			17.096356278936, 40.192712557873, 41.647432507237},
		{"ols --loss cox --response fustat --time t --weights w --only age,resid.ds,rx,ecog.ps",
			"age resid.ds rx ecog.ps", []float64{0.12398109556610, 0.99348637014577, -1.34596259222932,
				0.12257460294225}, 79.567243241693, 0, 0},
		{"ols --loss cox-efron --response fustat --time t --weights w --only age,resid.ds,rx,ecog.ps",
			"age resid.ds rx ecog.ps", []float64{0.12410626496614, 1.04747633657065, -1.32518170163925,
				0.10096355938445}, 77.78358694412, 0, 0},
		{"lasso --lambda 2.08 --loss cox --response fustat --time futime --drop t,s,w", "age resid.ds rx ecog.ps",
			[]float64{0.10307913979832, 0.37335253271125, -0.49619393955854, 0}, 0, 0, 0},
		{"lasso --lambda 0.78 --loss cox-efron --response fustat --time futime --drop t,s,w", "age resid.ds rx ecog.ps",
			[]float64{0.11703399005658, 0.61095407955585, -0.73378456044857, 0.12737492237655}, 0, 0, 0},
		{"elastic-net --alpha 0.3 --lambda 2.08 --loss cox --response fustat --time futime --drop t,s,w",
			"age resid.ds rx ecog.ps", []float64{0.09633810347255, 0.66114713434230, -0.70173805879057,
				0.15829318839338}, 0, 0, 0},
	} {
		file := filepath.Join(t.TempDir(), "c.csv")
		status, stdout, stderr := command(t, append(strings.Fields("run --json --tol 1e-12 --data "+table+
			" --coefficients-csv "+file+" --problem"), strings.Fields(c.args)...)...)
		if status != 0 {
			t.Errorf("%s: status %d: %s", c.args, status, stderr)
			continue
		}
		var r struct {
			Value    float64 `json:"loss_value"`
			AIC, BIC float64
			ALO      float64
		}
		if err := json.Unmarshal([]byte(stdout), &r); err != nil {
			t.Fatal(err)
		}
		got := coefficients(t, file)
		for k, name := range strings.Fields(c.names) {
			if math.Abs(got[name]-c.want[k]) > 1e-6*math.Max(1, math.Abs(c.want[k])) {
				t.Errorf("%s: %s is %.12g, R has %.12g", c.args, name, got[name], c.want[k])
			}
		}
		if _, ok := got["(intercept)"]; ok || !(r.ALO > 0) {
			t.Errorf("%s: %+v, ALO %g", c.args, got, r.ALO)
		}
		for _, v := range [][2]float64{{r.Value, c.value}, {r.AIC, c.aic}, {r.BIC, c.bic}} {
			if v[1] != 0 && math.Abs(v[0]-v[1]) > 1e-8*v[1] {
				t.Errorf("%s: %.12g, R has %.12g", c.args, v[0], v[1])
			}
		}
	}
}

// coefficients are the estimates of a file of --coefficients-csv.
func coefficients(t *testing.T, file string) map[string]float64 {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, l := range lines[1:] {
		if all[l[0]], err = strconv.ParseFloat(l[1], 64); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// A fit predicts the linear predictors that it had, with or without the response; a sweep by cross-validation and one by
// leave-one-out of as many folds as observations agree.
func TestCoxSweepsAndPredicts(t *testing.T) {
	table, out := text(t, "ovarian.csv", ovarian), filepath.Join(t.TempDir(), "fit.npz")
	base := strings.Fields("--problem ridge --loss cox --response fustat --time t --drop futime,s,w --data " + table)
	status, _, stderr := command(t, append(strings.Fields("run --lambda 1 --out "+out), base...)...)
	if status != 0 {
		t.Fatal(stderr)
	}
	var p struct {
		Predictions []float64
		MeanLoss    *float64 `json:"mean_loss"`
	}
	_, stdout, stderr := command(t, "predict", "--json", "--fit", out, "--data", table)
	if err := json.Unmarshal([]byte(stdout), &p); err != nil {
		t.Fatal(err, stderr)
	}
	for i, z := range readArray(t, out, "mu_hat") {
		if math.Abs(p.Predictions[i]-z) > 1e-12 {
			t.Errorf("row %d is predicted as %g, the fit has %g", i, p.Predictions[i], z)
		}
	}
	if p.MeanLoss != nil {
		t.Error("a single row has no loss")
	}
	at := func(more string) (value float64) {
		_, stdout, stderr := command(t, append(strings.Fields("sweep --json --refine 0 --audit=false --lambda 2:3:2 "+more),
			base...)...)
		for _, line := range strings.Split(strings.TrimSpace(stdout), "\n") {
			var l struct {
				Lambda   float64
				ALO      *float64
				Criteria struct{ CV *float64 }
			}
			if json.Unmarshal([]byte(line), &l); l.Lambda == 2 && l.Criteria.CV != nil {
				return *l.Criteria.CV
			} else if l.Lambda == 2 && l.ALO != nil {
				return *l.ALO
			}
		}
		t.Fatal(stdout, stderr)
		return 0
	}
	// The folds' lambda is smaller by their share of the rows, which changes the error less than this.
	if alo, cv := at("--criterion alo"), at("--criterion cv --folds 26"); math.Abs(alo-cv) > 5e-3*cv {
		t.Errorf("leave-one-out is %g, by folds %g", alo, cv)
	}
}

// Offsets that differ by much make the risk sets small: Newton steps end at the solution all the same.
func TestCoxWithLargeOffsetsConverges(t *testing.T) {
	for seed := range uint64(8) {
		rng, table := rand.New(rand.NewPCG(seed, 7)), strings.Builder{}
		table.WriteString("status,time,of,x0,x1,x2,x3\n")
		for range 60 {
			fmt.Fprintf(&table, "%d,%d,%g", min(rng.IntN(4), 1), 1+rng.IntN(12), 5*rng.NormFloat64())
			for range 4 {
				fmt.Fprintf(&table, ",%g", rng.NormFloat64())
			}
			table.WriteString("\n")
		}
		got := object(t, "run", "--problem", "lasso", "--loss", "cox", "--data", text(t, "o.csv", table.String()),
			"--response", "status", "--time", "time", "--offset", "of", "--lambda", "0.2max")
		if s := got["solver"].(map[string]any); s["converged"] != true {
			t.Errorf("seed %d: %v", seed, s)
		}
	}
}

// Where a column orders the times its coefficient is infinite, and curvatures underflow on the way there: a fit that
// does not end says which column that is.
func TestCoxOrderedByAColumn(t *testing.T) {
	rng, table := rand.New(rand.NewPCG(1, 7)), strings.Builder{}
	table.WriteString("status,time,w,x\n")
	for i := range 40 {
		fmt.Fprintf(&table, "%d,%d,%g,%g\n", min(rng.IntN(4), 1), 1+i, -5*float64(i)-rng.Float64(), rng.NormFloat64())
	}
	for _, name := range []string{"cox", "cox-efron"} {
		status, _, stderr := command(t, "run", "--problem", "ols", "--loss", name, "--data",
			text(t, "o.csv", table.String()), "--response", "status", "--time", "time")
		if status != exitNotConverged || !strings.Contains(stderr, "no penalty bounds the coefficients of w, ") {
			t.Errorf("%s: status %d, %s", name, status, stderr)
		}
	}
}

func TestCoxErrors(t *testing.T) {
	table := text(t, "ovarian.csv", ovarian)
	for args, want := range map[string]string{
		"--response fustat":                           "time is missing, which the Cox loss needs",
		"--response rx --time t":                      "--success names that of an event",
		"--response fustat --time t --intercept":      "an intercept is asked for",
		"--response fustat --time s --start t":        "start[0] is 1",
		"--response fustat --time t --criterion gcv":  "not defined for the cox loss",
		"--response fustat --time t --criterion sure": "not defined for the cox loss",
		"--response fustat --time t --loss logistic":  "--time is for the losses of events",
		"--response fustat --time nothing":            "nothing",
		"--response fustat --time t --sigma2 1":       "--sigma2 is given",
	} {
		head := "sweep --problem lasso --lambda 0.1max:max:3 --data " + table
		if !strings.Contains(args, "--loss") {
			head += " --loss cox"
		}
		status, _, stderr := command(t, append(strings.Fields(head), strings.Fields(args)...)...)
		if status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s, expected %s", args, status, stderr, want)
		}
	}
}

// Fewer than five groups are said to be few, under every criterion that leaves groups out and no other.
func TestFewGroupsAreMarked(t *testing.T) {
	for groups, marked := range map[int]bool{2: true, 4: true, 5: false} {
		r := rand.New(rand.NewPCG(5, uint64(groups)))
		table := "site,x,z,y\n"
		for i := range 60 {
			x := r.NormFloat64()
			table += fmt.Sprintf("s%d,%g,%g,%g\n", i%groups, x, r.NormFloat64(), x+r.NormFloat64())
		}
		for _, criterion := range []string{"lgo", "cv", "gcv"} {
			_, _, s := sweepLines(t, "--problem", "ridge", "--data", text(t, "g.csv", table), "--response", "y",
				"--groups", "site", "--criterion", criterion, "--lambda", "0.1:10:3")
			told := strings.Contains(fmt.Sprint(s.Warnings), "few-groups")
			if told != (marked && criterion != "gcv") {
				t.Errorf("%d groups, %s: %v", groups, criterion, s.Warnings)
			}
		}
	}
}

// Counts that are none are told, as R's glm does; means of counts that their weights make whole are not.
func TestValuesThatAreNoCountsAreTold(t *testing.T) {
	for _, c := range []struct {
		rows string
		no   bool
	}{
		{"0,1,3\n1,1,1\n3,1,2.5\n4,1,6\n2,1,0\n5,1,4\n", true}, {"0,1,3\n1,1,1\n3,2,2.5\n4,1,6\n2,1,0\n5,1,4\n", false},
		{"0,3,0.3333333333333333\n1,1,1\n3,3,2.6666666666666665\n4,1,6\n2,1,0\n5,1,4\n", false},
	} {
		_, _, s := sweepLines(t, "--problem", "ridge", "--loss", "poisson", "--data", text(t, "n.csv", "x,w,n\n"+c.rows),
			"--response", "n", "--weights", "w", "--lambda", "0.1:10:3")
		if told := strings.Contains(fmt.Sprint(s.Warnings), "not-counts"); told != c.no {
			t.Errorf("%q: warnings %v", c.rows, s.Warnings)
		}
	}
}

// Groups of events are left out by refits, which is the default then; visits of counts and rows of events that agree
// are told.
func TestGroupsUnderOtherLosses(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 2))
	var events, counts, repeated strings.Builder
	events.WriteString("id,x,t,e\n")
	repeated.WriteString("id,x,t,e\n")
	counts.WriteString("id,x,n\n")
	for id := range 30 {
		much, row := math.Exp(r.NormFloat64()), fmt.Sprintf("%d,%g,%g,%d\n", id, r.NormFloat64(), r.ExpFloat64(), id%2)
		for range 4 {
			repeated.WriteString(row)
			x, n, below := r.NormFloat64(), 0, 5*much
			for below -= r.ExpFloat64(); below > 0; below -= r.ExpFloat64() {
				n++
			}
			fmt.Fprintf(&events, "%d,%g,%g,%d\n", id, x, r.ExpFloat64(), r.IntN(2))
			fmt.Fprintf(&counts, "%d,%g,%d\n", id, x, n)
		}
	}
	_, _, s := sweepLines(t, "--problem", "lasso", "--loss", "cox", "--data", text(t, "e.csv", events.String()),
		"--response", "e", "--time", "t", "--groups", "id", "--lambda", "0.1max:max:3")
	if s.Criterion != "cv" || strings.Contains(fmt.Sprint(s.Warnings), "criterion-undefined") {
		t.Errorf("criterion %s, warnings %v", s.Criterion, s.Warnings)
	}
	for _, c := range []struct{ data, as string }{
		{counts.String(), "poisson --response n"}, {repeated.String(), "cox --response e --time t"},
		{events.String(), "cox --response e --time t"},
	} {
		args := append(strings.Fields("--problem lasso --lambda 0.1max:max:3 --loss "+c.as), "--data",
			text(t, "n.csv", c.data))
		_, _, s = sweepLines(t, args...)
		got := fmt.Sprint(s.Warnings)
		if told := strings.Contains(got, "rows-in-groups"); told == (c.data == events.String()) {
			t.Errorf("%s: warnings %s", c.as, got)
		}
	}
}

// A penalty that is next to none does not bound a coefficient either: the fit says what it is, not to go on.
func TestCoxNearlyOrderedByAColumn(t *testing.T) {
	rng, table := rand.New(rand.NewPCG(1, 7)), strings.Builder{}
	table.WriteString("status,time,w,x\n")
	for i := range 40 {
		fmt.Fprintf(&table, "%d,%d,%g,%g\n", min(rng.IntN(4), 1), 1+i, -5*float64(i)-rng.Float64(), rng.NormFloat64())
	}
	status, _, stderr := command(t, "run", "--problem", "ridge", "--loss", "cox", "--data", text(t, "o.csv",
		table.String()), "--response", "status", "--time", "time", "--lambda", "1e-12")
	if status != exitNotConverged || !strings.Contains(stderr, "a column orders the times of events") ||
		strings.Contains(stderr, "max-iter") {
		t.Errorf("status %d, %s", status, stderr)
	}
}
