package main

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	irises   = "../../testdata/guide/iris.csv"
	veterans = "../../testdata/guide/veteran.csv"
)

// Fits with the multinomial loss have the coefficients of glmnet 4.1.6 (thresh = 1e-16) and its loss. Its lambda is ours
// over the sum of the weights.
func TestMultinomialIsGlmnet(t *testing.T) {
	for _, c := range []struct {
		args string
		want []float64 // by rows of the intercept and the columns
		loss float64
	}{
		{"lasso --lambda 1 --response species --data " + irises, []float64{
			7.013783503, 4.648478118, -11.66226162, 0, 0.2609988631, 0, 2.120188131, 0, -1.607861444, -2.680990266, 0,
			2.367622405, 0, 0, 6.627821433}, 12.9520020197},
		{"ridge --lambda 10 --response species --data " + irises, []float64{
			2.68496868, 2.817051923, -5.502020603, -0.6585146786, 0.181380551, 0.4771341276, 1.242633545, -0.967260765,
			-0.2753727796, -0.4643588554, 0.03386097731, 0.430497878, -1.004954761, -0.2797254719, 1.284680233},
			49.1430525187},
		{"elastic-net --alpha 0.5 --lambda 2 --response species --data " + irises, []float64{
			4.452124268, 3.09390607, -7.546030338, -0.859779746, 0, 0, 2.402454426, 0, -0.5011583049, -0.9663527966, 0,
			1.184555826, -1.938755132, -0.2663604003, 3.521437376}, 24.0780763498},
		// With four classes the median of a column is an interval, of which glmnet takes the middle.
		{"lasso --lambda 3 --response celltype --only time,karno,diagtime,age --data " + veterans, []float64{
			0.3642751704, -0.4164601726, 0.4361030879, -0.3839180857, -0.00234971583, 0.001842382829, -0.001842382829,
			0.003160076525, 0, 0.006437852497, -0.004808560419, 0, -0.02987801077, 0, 0, 0.01342678419, 0,
			-0.004937888887, 0.008516014341, 0}, 170.729775979},
		{"lasso --lambda 3 --weights age --response celltype --only time,karno,diagtime --data " + veterans, []float64{
			0.6848698096, -1.370036935, 1.128846171, -0.4436790451, -0.006123487022, 0.0032632397, -0.0032632397,
			0.004679189468, 0.003279591453, 0.01342485018, -0.005135225948, -0.003279591453, -0.0678444277, 0.002779479283,
			-0.002779479283, 0.02089315369}, 9778.23193834},
		// type.multinomial = "grouped", with lambda multiplied by sqrt(K).
		{"group-lasso --lambda 5 --response species --data " + irises, []float64{
			3.289526088, 2.333100969, -5.622627057, 0, 0, 0, 0.4819334342, -0.382674972, -0.09925846221, -0.6400743819,
			0.07285070135, 0.5672236806, -2.263220799, -0.2998458974, 2.563066696}, 38.8019737984},
		{"group-lasso --lambda 3 --response celltype --only time,karno,diagtime,age --data " + veterans, []float64{
			0.2950360849, -0.324583912, 0.5023318573, -0.4727840303, -0.002542687466, 0.001899432704, -0.002287368587,
			0.002930623349, 0.0007603250193, 0.003085367389, -0.00319119119, -0.0006545012186, -0.01552409828,
			-0.0008906615387, 0.002836551341, 0.01357820848, -0.002214652201, -0.004282750599, 0.004973542895,
			0.001523859905}, 171.458403878},
	} {
		file := filepath.Join(t.TempDir(), "c.csv")
		status, stdout, stderr := command(t, append(strings.Fields("run --json --tol 1e-12 --alo --loss multinomial "+
			"--coefficients-csv "+file+" --problem"), strings.Fields(c.args)...)...)
		if status != 0 {
			t.Errorf("%s: status %d: %s", c.args, status, stderr)
			continue
		}
		var r struct {
			Value      float64 `json:"loss_value"`
			ALO        float64
			Intercepts []float64
			Names      []string
			D, P       int
		}
		if err := json.Unmarshal([]byte(stdout), &r); err != nil {
			t.Fatal(err)
		}
		got := coefficients(t, file)
		if len(got) != len(c.want) || !(r.ALO > 0) || r.D*r.P == 0 || r.P != len(c.want)/len(r.Intercepts)-1 {
			t.Errorf("%s: %d coefficients of %d, %+v", c.args, len(got), len(c.want), r)
		}
		names, most := firstColumn(t, file), 0.0
		for _, v := range c.want {
			most = math.Max(most, math.Abs(v))
		}
		for k, want := range c.want {
			if v := got[names[k]]; math.Abs(v-want) > 2e-6*math.Max(math.Abs(want), most/5) {
				t.Errorf("%s: %s is %.10g, glmnet has %.10g", c.args, names[k], v, want)
			}
		}
		if math.Abs(r.Value-c.loss) > 1e-6*c.loss {
			t.Errorf("%s: the loss is %.12g, in glmnet %.12g", c.args, r.Value, c.loss)
		}
	}
}

// firstColumn is the first column of a file of coefficients.
func firstColumn(t *testing.T, file string) (names []string) {
	t.Helper()
	lines, err := csv.NewReader(strings.NewReader(content(t, file))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines[1:] {
		names = append(names, l[0])
	}
	return names
}

// content is that of a file.
func content(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A sweep's choice predicts the probabilities that it fitted, a refused combination says why, and labels, places of
// classes and shares are the same y.
func TestMultinomialSweepsAndPredicts(t *testing.T) {
	dir := t.TempDir()
	out, path := filepath.Join(dir, "fit.npz"), filepath.Join(dir, "path.csv")
	base := strings.Fields("--loss multinomial --response species --data " + irises)
	status, stdout, stderr := command(t, append(strings.Fields("sweep --problem lasso --lambda 0.01max:max:8 --json --out "+
		out+" --path "+path), base...)...)
	if status != 0 {
		t.Fatal(stderr)
	}
	if head := strings.SplitN(content(t, path), "\n", 2)[0]; !strings.HasSuffix(head,
		"setosa:petal_width,versicolor:petal_width,virginica:petal_width") {
		t.Errorf("the path has %s", head)
	}
	var last struct {
		Chosen struct {
			ALO        float64
			Intercepts []float64
		}
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || len(last.Chosen.Intercepts) != 3 {
		t.Fatalf("%v: %s", err, lines[len(lines)-1])
	}
	status, stdout, stderr = command(t, "predict", "--json", "--fit", out, "--data", irises)
	if status != 0 {
		t.Fatal(stderr)
	}
	var p struct {
		Classes, Predicted []string
		Probabilities      [][]float64
		MeanLoss           float64 `json:"mean_loss"`
	}
	if err := json.Unmarshal([]byte(stdout), &p); err != nil {
		t.Fatal(err)
	}
	wrong, sum := 0, 0.0
	for i, class := range p.Predicted {
		if class != p.Classes[i/50] {
			wrong++
		}
		sum -= math.Log(p.Probabilities[i][i/50]) / 150
	}
	if len(p.Predicted) != 150 || wrong > 5 || math.Abs(sum-p.MeanLoss) > 1e-9 || !(p.MeanLoss < last.Chosen.ALO) {
		t.Errorf("%d predictions, %d wrong, mean loss %g of %g, leave-one-out %g", len(p.Predicted), wrong, p.MeanLoss,
			sum, last.Chosen.ALO)
	}
	status, stdout, _ = command(t, "predict", "--fit", out, "--data", irises)
	if line := strings.Split(stdout, "\n"); status != 0 || line[0] != "prediction,setosa,versicolor,virginica" ||
		!strings.HasPrefix(line[150], "virginica,") {
		t.Errorf("%s", line[0])
	}
	for args, want := range map[string]string{
		"run --problem lasso --lambda 1 --offset sepal_width":         "an offset is given",
		"run --problem fused-lasso --lambda 1":                        "terms need the squared loss",
		"sweep --problem lasso --criterion gcv":                       "not defined for the multinomial loss",
		"run --problem lasso --lambda 1 --sigma2 1":                   "multinomial",
		"run --problem lasso --lambda 1 --loss logistic":              "--loss multinomial takes several levels",
		"run --problem lasso --lambda 1 --trials sepal_width":         "--trials is for",
		"sweep --problem lasso --groups petal_width --criterion sure": "multinomial",
	} {
		args := append(append(strings.Fields(args)[:1:1], base...), strings.Fields(args)[1:]...)
		if status, _, stderr := command(t, args...); status != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%v: status %d, %s, expected %q", args, status, stderr, want)
		}
	}
	// Arrays.
	values := func(args ...string) (loss float64) {
		status, stdout, stderr := command(t, append(strings.Fields("run --json --problem ridge --lambda 2 --intercept "+
			"--standardize --loss multinomial"), args...)...)
		var r struct {
			Value float64 `json:"loss_value"`
		}
		if err := json.Unmarshal([]byte(stdout), &r); status != 0 || err != nil {
			t.Fatal(status, err, stderr)
		}
		return r.Value
	}
	var x, labels, shares strings.Builder
	for i, line := range strings.Split(strings.TrimSpace(content(t, irises)), "\n")[1:] {
		k := i / 50
		x.WriteString(line[:strings.LastIndex(line, ",")] + "\n")
		labels.WriteString(strconv.Itoa(3*k-1) + "\n")
		shares.WriteString([]string{"1,0,0\n", "0,1,0\n", "0,0,1\n"}[k])
	}
	xs := text(t, "x.csv", x.String())
	want := values(base[2:]...)
	for name, y := range map[string]string{"labels": labels.String(), "shares": shares.String()} {
		if got := values("--X", xs, "--y", text(t, "y.csv", y)); math.Abs(got-want) > 1e-9*want {
			t.Errorf("%s: the loss is %g, expected %g", name, got, want)
		}
	}
}
