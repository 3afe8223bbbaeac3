package main

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
)

// budworm is the table of Collett (1991) in R's MASS, moths killed among 20 by dose and sex, with a column of texts.
const budworm = `dose,sex,dead,alive,n,died
0,M,1,19,20,no
1,M,4,16,20,yes
2,M,9,11,20,no
3,M,13,7,20,yes
4,M,18,2,20,no
5,M,20,0,20,yes
0,F,0,20,20,no
1,F,2,18,20,no
2,F,6,14,20,yes
3,F,10,10,20,no
4,F,12,8,20,yes
5,F,16,4,20,yes
`

// The references are those of R 4.2: glm(cbind(dead, alive) ~ dose + sex, binomial); glm(dead ~ dose + sex +
// offset(log(n)), poisson); lm(dead ~ dose + sex, weights = alive, offset = dose).
func TestColumnsOfTheObservationsAreThoseOfR(t *testing.T) {
	table := text(t, "budworm.csv", budworm)
	out := filepath.Join(t.TempDir(), "fit.npz")
	for _, c := range []struct {
		args     string
		want     []float64
		aic, bic float64
	}{
		{"dead --loss logistic --trials n", []float64{-3.473155307, 1.064213970, 1.100743363}, 42.86746524, 44.32218518},
		{"dead --loss poisson --exposure n", []float64{-2.3205302579, 0.4385063968, 0.3457458734}, 58.56599239,
			60.02071234},
		{"dead --weights alive --offset dose --only dose,sex", []float64{-0.9144316525, 2.4974057991, 2.2721373154}, 0, 0},
	} {
		args := append(strings.Fields("run --problem ols --tol 1e-12 --data "+table+" --out "+out+" --response"),
			strings.Fields(c.args)...)
		if !strings.Contains(c.args, "--only") {
			args = append(args, "--only", "dose,sex")
		}
		o, b := object(t, args...), readArray(t, out, "b")
		got := append([]float64{o["intercept"].(float64)}, b...)
		for j, want := range c.want {
			if math.Abs(got[j]-want) > 1e-8*(1+math.Abs(want)) {
				t.Errorf("%s: coefficient %d is %.12g, expected %.12g", c.args, j, got[j], want)
			}
		}
		if c.aic != 0 && (math.Abs(o["aic"].(float64)-c.aic) > 1e-7 || math.Abs(o["bic"].(float64)-c.bic) > 1e-7) {
			t.Errorf("%s: AIC and BIC are %v and %v, expected %g and %g", c.args, o["aic"], o["bic"], c.aic, c.bic)
		}
		if _, stdout, _ := command(t, "predict", "--fit", out, "--data", table); len(strings.Fields(stdout)) < 12 {
			t.Errorf("%s: predictions %s", c.args, stdout)
		}
		// The mean loss of the fit's own rows is the fit's: trials and weights count in it, as in leave-one-out.
		p := object(t, "predict", "--fit", out, "--data", table)
		if whole, ok := o["loss_value"].(float64); ok && math.Abs(p["mean_loss"].(float64)*12/whole-1) > 1e-9 {
			t.Errorf("%s: the mean loss is %v, expected %g", c.args, p["mean_loss"], whole/12)
		}
	}
}

// A response of two texts is coded, by their order or as --success says, and predict knows it; R's glm(died ~ dose +
// sex, binomial).
func TestResponsesOfTwoLevels(t *testing.T) {
	table := text(t, "budworm.csv", budworm)
	out := filepath.Join(t.TempDir(), "fit.npz")
	for success, sign := range map[string]float64{"": 1, "yes": 1, "no": -1} {
		args := strings.Fields("run --problem ols --loss logistic --only dose,sex --tol 1e-12 --response died --data " +
			table + " --out " + out)
		if success != "" {
			args = append(args, "--success", success)
		}
		o := object(t, args...)
		if b0, aic := o["intercept"].(float64), o["aic"].(float64); math.Abs(b0+sign*1.68411722662) > 1e-8 || math.Abs(aic-19.5456760766) > 1e-7 {
			t.Errorf("--success %q: the intercept is %.10g with AIC %.10g", success, b0, aic)
		}
		if _, _, stderr := command(t, "predict", "--fit", out, "--data", table); !strings.Contains(stderr, "12 rows with") {
			t.Errorf("--success %q: %s", success, stderr)
		}
	}
	for args, want := range map[string]string{
		"--response sex --loss squared":                   `column "sex" holds texts such as "F", expected numbers`,
		"--response died --loss logistic --success maybe": `--success: found "maybe", expected one of the levels`,
		"--response dose --loss logistic --success 5":     `column "dose" has 6 levels`,
		"--response dead --loss logistic --trials dose":   "expected a number of successes among the 0 trials",
		"--response dead --loss poisson --trials n":       `--trials is for --loss logistic`,
		"--response dead --loss poisson --exposure dose":  `array "exposure" holds 0 at [0], expected positive numbers`,
		"--response dead --weights dead":                  `--weights: column "dead" is the response`,
		"--response dead --exposure n":                    "--exposure is for a loss with a logarithm as its link",
		"--response y --loss poisson --offset served --data " + text(t, "served.csv", "y,x,served\n1,2,95\n3,4,1512\n2,5,40\n"): "" +
			`array "offset" holds 1512 at [1], expected numbers of size at most 700`,
		"--response dead --loss poisson --offset sex":       `--offset: column "sex" holds texts such as "F"`,
		"--response dead --loss poisson --offset something": `--offset: column "something" is missing`,
	} {
		status, _, stderr := command(t, append(strings.Fields("run --problem ols --data "+table), strings.Fields(args)...)...)
		if status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s, expected %s", args, status, stderr, want)
		}
	}
}
