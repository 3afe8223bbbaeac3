package pipeline_test

import (
	"encoding/csv"
	"math"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/risk"
	"surepipe/risk/folds"
)

// grouped is a table whose rows belong to groups.
type grouped struct {
	name   string
	x      *mat.Dense
	y      []float64
	labels []int
}

// rows are those at the places.
func (g grouped) rows(places []int) grouped {
	_, p := g.x.Dims()
	out := grouped{x: mat.NewDense(len(places), p, nil)}
	for k, i := range places {
		out.x.SetRow(k, g.x.RawRowView(i))
		out.y = append(out.y, g.y[i])
	}
	return out
}

// simulated are 40 subjects with 3 to 9 rows each, effects of the subjects, and columns that are alike within them.
func simulated(kind string, p int) grouped {
	r := rand.New(rand.NewPCG(5, 11))
	g := grouped{name: "simulated " + kind}
	var rows []float64
	for s := range 40 {
		effect, own := 0.6*r.NormFloat64(), make([]float64, p)
		for j := range own {
			own[j] = r.NormFloat64()
		}
		for range 3 + r.IntN(7) {
			z := effect
			for j := range p {
				v := 0.7*own[j] + 0.7*r.NormFloat64()
				rows = append(rows, v)
				if j < 4 {
					z += []float64{0.8, -0.5, 0.3, 0.2}[j] * v
				}
			}
			switch kind {
			case "logistic":
				z = math.Round(1 / (1 + math.Exp(-z-r.NormFloat64())))
			case "poisson":
				z = math.Round(math.Exp(0.5+z/2) * math.Exp(0.5*r.NormFloat64()))
			default:
				z += r.NormFloat64()
			}
			g.y, g.labels = append(g.y, z), append(g.labels, s)
		}
	}
	g.x = mat.NewDense(len(g.y), p, rows)
	return g
}

// tablesOfR holds the tables that R was asked for.
var tablesOfR = map[string]grouped{}

// tableOfR is y, the group and the columns of a model matrix that R makes. The test is skipped where there is no R, or
// not the package.
func tableOfR(t *testing.T, name, expression string) grouped {
	t.Helper()
	if g, read := tablesOfR[name]; read {
		return g
	}
	program, err := exec.LookPath("Rscript")
	if err != nil {
		t.Skip("there is no Rscript (Debian: r-base-core)")
	}
	cmd := exec.CommandContext(t.Context(), program, "-")
	cmd.Stdin = strings.NewReader(expression + `
		x <- scale(model.matrix(f, d)[, -1, drop = FALSE])
		colnames(x) <- NULL
		write.csv(data.frame(y = y, g = as.integer(factor(g)), x), quote = FALSE, row.names = FALSE)`)
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("R does not have the table: %v", err)
	}
	records, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var g grouped
	p := len(records[0]) - 2
	g.name, g.x = name, mat.NewDense(len(records)-1, p, nil)
	for i, record := range records[1:] {
		var row []float64
		for _, text := range record {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			row = append(row, v)
		}
		g.y, g.labels = append(g.y, row[0]), append(g.labels, int(row[1]))
		g.x.SetRow(i, row[2:])
	}
	tablesOfR[name] = g
	return g
}

// fitGroups makes a problem with an intercept and solves it.
func fitGroups(t *testing.T, dev array.Device, problem, loss string, g grouped, lambda problems.Weight, o pipeline.SweepOptions) (
	r pipeline.Risk, b []float64, at float64) {
	t.Helper()
	data := problems.Data{X: g.x, Y: g.y, Intercept: true, Loss: problems.Loss{Name: loss}}
	q, err := problems.New(problem, dev, data, problems.Hyper{Lambda: lambda})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Release()
	o.Refine, o.KeepB = -1, true
	for point, err := range pipeline.Sweep(t.Context(), g.y, familyOf(q), [][]float64{{q.Lambda}}, o) {
		if err != nil {
			t.Fatal(err)
		}
		if point.Stage == pipeline.MinimizerStage {
			b0, _ := q.Intercept(point.MuHat, point.B)
			r, b = point.Risk, append([]float64{b0}, q.Coefficients(point.B)...)
		}
	}
	return r, b, q.Lambda
}

// refits are the mean error of groups in fits to all others, and its standard error over groups.
func refits(t *testing.T, dev array.Device, problem, loss string, g grouped, lambda float64) risk.CrossValidation {
	t.Helper()
	f := folds.Folds{Groups: g.labels}
	unit, n := f.Units(len(g.y))
	sums := make([]float64, n)
	for u := range n {
		var keep []int
		for i, v := range unit {
			if v != u {
				keep = append(keep, i)
			}
		}
		_, b, _ := fitGroups(t, dev, problem, loss, g.rows(keep), problems.Absolute(lambda), pipeline.SweepOptions{})
		for i, v := range unit {
			if v == u {
				sums[u] += errorOf(loss, g.y[i], b[0]+mat.Dot(mat.NewVecDense(len(b)-1, b[1:]), g.x.RowView(i)))
			}
		}
	}
	return risk.OverUnits(sums, len(g.y))
}

// errorOf is the loss of a linear predictor z, without terms of y alone.
func errorOf(loss string, y, z float64) float64 {
	switch loss {
	case "logistic":
		return math.Log1p(math.Exp(z)) - y*z
	case "poisson":
		return math.Exp(z) - y*z
	}
	return (y - z) * (y - z)
}

// Leave-group-out is the mean error of refits without each group, of so few groups exactly, on simulated and on real
// tables, and so is its error over groups.
func TestLeaveGroupOutAgainstRefits(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	chick := func(t *testing.T) grouped {
		return tableOfR(t, "ChickWeight", `d <- as.data.frame(ChickWeight); f <- ~ Diet * poly(Time, 3); y <- d$weight / 10; g <- d$Chick`)
	}
	sleep := func(t *testing.T) grouped {
		return tableOfR(t, "sleepstudy", `d <- lme4::sleepstudy; f <- ~ poly(Days, 4); y <- d$Reaction / 50; g <- d$Subject`)
	}
	epil := func(t *testing.T) grouped {
		return tableOfR(t, "epil", `d <- MASS::epil; f <- ~ trt * log(base / 4) + log(age) + V4; y <- d$y; g <- d$subject`)
	}
	bacteria := func(t *testing.T) grouped {
		return tableOfR(t, "bacteria", `d <- MASS::bacteria; f <- ~ trt * week; y <- as.integer(d$y == "y"); g <- d$ID`)
	}
	draw := func(kind string) func(t *testing.T) grouped {
		return func(*testing.T) grouped { return simulated(kind, 12) }
	}
	for _, c := range []struct {
		problem, loss string
		table         func(t *testing.T) grouped
		share         float64 // of the smallest lambda whose estimate is 0; for ridge lambda itself
	}{
		{"ridge", "squared", draw("squared"), 3}, {"ridge", "squared", chick, 20}, {"ridge", "squared", sleep, 5},
		{"lasso", "squared", draw("squared"), 0.02}, {"lasso", "squared", draw("squared"), 0.2},
		{"lasso", "squared", chick, 0.01}, {"lasso", "squared", chick, 0.1}, {"lasso", "squared", sleep, 0.05},
		{"lasso", "logistic", draw("logistic"), 0.05}, {"ridge", "logistic", draw("logistic"), 3},
		{"lasso", "logistic", bacteria, 0.05}, {"ridge", "logistic", bacteria, 2},
		{"lasso", "poisson", draw("poisson"), 0.05}, {"ridge", "poisson", draw("poisson"), 5},
		{"lasso", "poisson", epil, 0.02}, {"ridge", "poisson", epil, 10},
	} {
		t.Run(c.problem+"/"+c.loss, func(t *testing.T) {
			g := c.table(t)
			lambda := problems.Absolute(c.share)
			if c.problem == "lasso" {
				lambda = problems.OfMax(c.share)
			}
			r, _, at := fitGroups(t, dev, c.problem, c.loss, g, lambda, pipeline.SweepOptions{Criterion: risk.LGO,
				Folds: folds.Folds{Groups: g.labels}})
			if r.LGO == nil {
				t.Fatal(r.LGOErr)
			}
			want := refits(t, dev, c.problem, c.loss, g, at)
			const most = 1e-5
			off, bar := r.LGO.Mean/want.Mean-1, r.LGO.StdErr/want.StdErr-1
			t.Logf("%s, df %.3g: %.5g ± %.2g, refits %.5g ± %.2g: off by %.2g, the bar by %.2g; alo %.4g", g.name,
				r.Trace.Trace, r.LGO.Mean, r.LGO.StdErr, want.Mean, want.StdErr, off, bar, r.ALO)
			if math.Abs(off) > most || math.Abs(bar) > 5*most {
				t.Errorf("%s: %.6g ± %.3g, refits %.6g ± %.3g", g.name, r.LGO.Mean, r.LGO.StdErr, want.Mean, want.StdErr)
			}
			if d := len(slices.Compact(slices.Sorted(slices.Values(g.labels)))); r.LGO.Units != d {
				t.Errorf("%d units, expected %d", r.LGO.Units, d)
			}
		})
	}
}
