package pipeline_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"surepipe/array"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/risk"
	"surepipe/risk/folds"
	"surepipe/risk/warning"
)

// audited are the audits of a sweep of a problem by a criterion.
func audited(t *testing.T, name string, data problems.Data, grid []float64, o pipeline.SweepOptions) []*pipeline.Audit {
	t.Helper()
	q, err := problems.New(name, array.NewHost(), data, problems.Hyper{Lambda: problems.Absolute(1)})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Release()
	o.Audit, o.Refine = pipeline.AlwaysAudit, -1
	var last pipeline.SweepPoint
	for point, err := range pipeline.Sweep(t.Context(), data.Y, familyOf(q), [][]float64{grid}, o) {
		if err != nil {
			t.Fatal(err)
		}
		last = point
	}
	return last.Audits
}

// subjects are rows of subjects whose response has an effect of the subject, which columns that are constant within
// subjects follow.
func subjects(seed uint64, effect float64) (data problems.Data, labels []int) {
	const n, rows, p = 40, 12, 20
	r := rand.New(rand.NewPCG(seed, 3))
	data = problems.Data{X: mat.NewDense(n*rows, p, nil), Y: make([]float64, n*rows), Intercept: true}
	x := data.X.(*mat.Dense)
	for s := range n {
		u := effect * r.NormFloat64()
		constant := make([]float64, p)
		for j := range constant {
			constant[j] = r.NormFloat64()
		}
		for i := s * rows; i < (s+1)*rows; i++ {
			x.SetRow(i, constant)
			x.Set(i, 0, r.NormFloat64())
			data.Y[i] = x.At(i, 0) + u + r.NormFloat64()
			labels = append(labels, s)
		}
	}
	return data, labels
}

// Where rows are independent audits agree with the criterion, by ones and by groups, in nearly all draws; where they come
// in groups the audit by groups does not.
func TestAuditByGroupsFindsWhatGCVDoesNotKnow(t *testing.T) {
	wrong, found := 0, 0
	grid := []float64{0.1, 0.3, 1, 3, 10, 30}
	for seed := range uint64(12) {
		data, labels := subjects(seed, 0)
		for _, f := range []folds.Folds{{}, {Groups: labels}} {
			for _, a := range audited(t, "ridge", data, grid, pipeline.SweepOptions{Folds: f, Criterion: risk.GCV}) {
				if a.Disagrees() {
					wrong++
				}
			}
		}
		data, labels = subjects(seed, 3)
		for _, a := range audited(t, "ridge", data, grid, pipeline.SweepOptions{Folds: folds.Folds{Groups: labels},
			Criterion: risk.GCV}) {
			if a.Disagrees() && a.Error > a.Says && len(a.Warnings()) == 1 &&
				a.Warnings()[0].Is(warning.CriterionDisagrees) {
				found++
			}
		}
	}
	if wrong > 1 || found < 8 {
		t.Errorf("%d of 24 marked though right, %d of 12 found", wrong, found)
	}
}

// A trend under white noise is unmarked; under correlated noise it is marked, or the grid's best is chosen; also where
// values of the sequence are missing.
func TestRunsFindCorrelatedNoise(t *testing.T) {
	const n = 200
	grid := make([]float64, 25)
	for i := range grid {
		grid[i] = 0.01 * math.Pow(10, float64(i)/3)
	}
	for _, c := range []struct {
		rho         float64
		gaps        bool
		least, most int
	}{{0, false, 0, 1}, {0.5, false, 15, 20}, {0.8, false, 15, 20}, {0, true, 0, 1}, {0.8, true, 15, 20}} {
		marked := 0
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 8))
			y, e := make([]float64, n), 0.0
			for i := range y {
				e = c.rho*e + math.Sqrt(1-c.rho*c.rho)*r.NormFloat64()
				y[i] = 2*math.Sin(float64(i)/16) + e/2
			}
			data := problems.Data{Y: y}
			if c.gaps {
				data = problems.Data{Shape: []int{n}}
				for i, v := range y {
					if i%8 != 3 {
						data.Y, data.Indices = append(data.Y, v), append(data.Indices, i)
					}
				}
			}
			for _, a := range audited(t, "whittaker", data, grid, pipeline.SweepOptions{}) {
				if a.By == "runs" && len(a.Warnings()) == 1 && a.Warnings()[0].Is(warning.Correlated) {
					marked++
				}
			}
		}
		if marked < c.least || marked > c.most {
			t.Errorf("AR(%g), gaps %t: %d of 20 marked", c.rho, c.gaps, marked)
		}
	}
}

// A single group that is left out has no error bar, and is no audit.
func TestOneGroupIsNoAudit(t *testing.T) {
	data, _ := subjects(1, 1)
	labels := make([]int, len(data.Y))
	for i := range labels {
		labels[i] = 3 * i / len(labels)
	}
	for _, a := range audited(t, "ridge", data, []float64{1, 10}, pipeline.SweepOptions{Folds: folds.Folds{Groups: labels},
		Criterion: risk.GCV}) {
		if math.IsNaN(a.Bars) || a.Units < 2 {
			t.Errorf("%+v", a)
		}
	}
}

// The solver of an image's total variation needs A*A = c I, which an image without some pixels has not: by default there
// is then no audit, and the sweep ends well; where one is asked for, another solver serves. The solution of a spectrum's
// thresholding is given by factors.
func TestAuditsWhereTheSolverDoesNotServe(t *testing.T) {
	data := problems.Data{Y: gaussian(rand.New(rand.NewPCG(3, 4)), 12*10), YShape: []int{12, 10}}
	for _, name := range []string{"tv2d", "svt"} {
		if a := audited(t, name, data, axis(0.5, 3, 12), pipeline.SweepOptions{}); len(a) == 0 {
			t.Errorf("%s: no audit, which was asked for", name)
		}
		q, err := problems.New(name, array.NewHost(), data, problems.Hyper{Lambda: problems.Absolute(1)})
		if err != nil {
			t.Fatal(err)
		}
		defer q.Release()
		grid := [][]float64{axis(0.5, 3, 12)}
		for _, err := range pipeline.Sweep(t.Context(), data.Y, familyOf(q), grid, pipeline.SweepOptions{Refine: -1}) {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// The entries of a matrix under a nuclear norm are in no order: its sweep leaves out no neighbours.
func TestMatricesHaveNoNeighbours(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	y, left, right := make([]float64, 30*20), gaussians(rng, 30), gaussians(rng, 20)
	for i := range y {
		y[i] = left[i/20]*right[i%20] + 0.3*rng.NormFloat64()
	}
	for _, a := range audited(t, "svt", problems.Data{Y: y, YShape: []int{30, 20}}, []float64{1, 1.5, 2, 3, 4, 6, 8},
		pipeline.SweepOptions{}) {
		if a.Together() || len(a.Warnings()) > 0 {
			t.Errorf("%+v", a)
		}
	}
}

// An image is audited by patches: white noise is unmarked.
func TestImagesAreAuditedByPatches(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	const n = 16
	y := make([]float64, n*n)
	for i := range y {
		y[i] = 3*float64(i/n/8) + 2*float64(i%n/8) + 0.3*rng.NormFloat64()
	}
	all := audited(t, "tv2d", problems.Data{Y: y, YShape: []int{n, n}}, []float64{0.1, 0.2, 0.4, 0.8, 1.2, 1.6, 2.4},
		pipeline.SweepOptions{Audit: pipeline.AlwaysAudit})
	if len(all) == 0 || all[0].By != "patches" || all[0].Units != n*n/4 {
		t.Fatalf("%+v", all)
	}
	if all[0].Correlates() {
		t.Errorf("%+v", all[0])
	}
}

// Counts have losses exp z - y z that may have any sign: their size says nothing of how far an audit is off.
func TestAuditsOfCounts(t *testing.T) {
	wrong, found := 0, 0
	for seed := range uint64(12) {
		for _, effect := range []float64{0, 3} {
			data, labels := subjects(seed, effect)
			data.Loss.Name = "poisson"
			r := rand.New(rand.NewPCG(seed, 4))
			for i, y := range data.Y {
				data.Y[i] = distuv.Poisson{Lambda: math.Exp(3 + y/10), Src: r}.Rand()
			}
			for _, a := range audited(t, "ridge", data, []float64{1, 10}, pipeline.SweepOptions{Criterion: risk.ALO,
				Folds: folds.Folds{Groups: labels}}) {
				switch {
				case effect == 0 && a.Disagrees():
					wrong++
				case effect > 0 && a.Bars > 1.5:
					found++
				}
			}
		}
	}
	if wrong > 1 || found < 10 {
		t.Errorf("%d of 12 marked though right, %d of 12 seen", wrong, found)
	}
}
