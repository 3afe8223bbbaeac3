package main

import (
	"math"
	"strings"
	"testing"
)

// Without a penalty the errors of coefficients, the deviance, AIC and BIC are those of R 4.2's glm and of survival
// 3.5.3's coxph on real tables. glm ends at a relative change of the deviance of 1e-8, so that its errors have five
// digits.
func TestErrorsOfCoefficientsAreThoseOfR(t *testing.T) {
	const guide = "../../testdata/guide/"
	for _, c := range []struct {
		args               string
		errs               []float64
		deviance, aic, bic float64
	}{
		{"votes.csv --response vote --loss logistic --success Dole", []float64{0.0001196207773, 0.0511410392137,
			0.1165156522928, 0.1148088043484, 0.1052398180996, 0.0802694548811, 0.0085778028886, 0.0889912923392,
			0.0241030800141}, 424.857086317, 444.857086317, 493.358347978},
		// The dispersion is 5: sandwich's vcovHC of type HC3.
		{"visits.csv --response visits --loss poisson", []float64{0.04127015528, 0.1613620901, 0.0239870022,
			0.02651726326, 0.2435692992, 0.008025887327, 0.1349066006, 0.4154098893, 0.3335940467},
			1920.50347769, 2960.79113727, 3003.03672156},
		{"budworm.csv --response dead --trials n --loss logistic", []float64{0.1310774501, 0.3558270657}, 6.75706423223,
			42.8674652336, 44.322185183},
		{"budworm.csv --response dead --exposure n --loss poisson", []float64{0.06537353819, 0.19267523398},
			9.86576530788, 58.5659923865, 60.0207123358},
		{"veteran.csv --response status --time time --loss cox-efron --only trt,karno,diagtime,age,prior", []float64{
			0.186445877428, 0.005341394956, 0.009003360787, 0.009247433916, 0.022152076281}, 0, 977.6293, 991.8894},
	} {
		r := object(t, append([]string{"run", "--problem", "ols", "--coefficients", "--data"},
			strings.Fields(guide+c.args)...)...)
		// Single yes or no, and times of events, have no dispersion; trials and counts have.
		_, disperses := r["dispersion"]
		if counts := strings.Contains(c.args, "poisson") || strings.Contains(c.args, "--trials"); disperses != counts {
			t.Errorf("%s: dispersion %v", c.args, r["dispersion"])
		}
		var errs []float64
		for _, k := range r["coefficients"].([]any) {
			if v, ok := k.(map[string]any)["debiased_stderr"]; ok {
				errs = append(errs, v.(float64))
				if k := k.(map[string]any); math.Abs(k["debiased"].(float64)-k["estimate"].(float64)) > 1e-6 {
					t.Errorf("%s: %v, debiased %v at the maximum of the likelihood", c.args, k["estimate"], k["debiased"])
				}
			}
		}
		if len(errs) != len(c.errs) {
			t.Fatalf("%s: errors %v, expected %v", c.args, errs, c.errs)
		}
		for j, v := range errs {
			if math.Abs(v-c.errs[j]) > 1e-4*c.errs[j] {
				t.Errorf("%s: error %d is %.10g, R's %.10g", c.args, j, v, c.errs[j])
			}
		}
		for key, want := range map[string]float64{"deviance": c.deviance, "aic": c.aic, "bic": c.bic} {
			if got := r[key].(float64); want != 0 && math.Abs(got-want) > 1e-7*want {
				t.Errorf("%s: %s is %.12g, R's %.12g", c.args, key, got, want)
			}
		}
	}
}
