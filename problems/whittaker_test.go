package problems_test

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/problems"
	"surepipe/vjp"
)

// smoothed is b of the named problem, and what is known of its derivative.
func smoothed(t *testing.T, data problems.Data, lambda float64) (b []float64, p *problems.Problem, closed vjp.Closed) {
	t.Helper()
	dev := array.NewHost()
	p, err := problems.New("whittaker", dev, data, problems.Hyper{Lambda: problems.Absolute(lambda)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Release)
	s, err := vjp.NewSolver(t.Context(), p.DefaultSolver, p.Solve(), vjp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Release)
	y := dev.Alloc(1, len(data.Y))
	dev.Upload(y, data.Y)
	sol, err := s.Solve(t.Context(), y)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sol.Release(); y.Free() })
	return sol.B.ToHost(), p, sol.Linearization.Closed()
}

// A value that is missing is predicted as if its weight were 0, and what a fit without an observation
// predicts for it gives its left-out residual exactly: (y_i - mu_i)/(1 - H_ii).
func TestGapsAreFilled(t *testing.T) {
	const n, gone = 40, 17
	rng := rand.New(rand.NewPCG(5, 6))
	y := gaussians(rng, n, func(i int) float64 { return float64(i*i) / 100 })
	all, p, closed := smoothed(t, problems.Data{Y: y, YShape: []int{n}}, 3)
	if p.Signal != nil || !linops.StructureOf(p.Operator).Identity {
		t.Error("without gaps the operator is not the identity")
	}
	data := problems.Data{YShape: []int{n - 1}, Shape: []int{n}}
	for i, v := range y {
		if i != gone {
			data.Indices, data.Y = append(data.Indices, i), append(data.Y, v)
		}
	}
	filled, p, _ := smoothed(t, data, 3)
	if p.Signal == nil || p.SignalShape[0] != n || p.D != n-1 || p.P != n {
		t.Errorf("D %d, P %d, signal of shape %v", p.D, p.P, p.SignalShape)
	}
	h, err := closed.Diagonal()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := y[gone]-filled[gone], (y[gone]-all[gone])/(1-h[gone]); math.Abs(got-want) > 1e-11 {
		t.Errorf("left out, the residual is %g, expected %g", got, want)
	}
}

// Places that are evenly spaced change nothing, in any units, and uneven ones leave polynomials of the
// order alone.
func TestPlacesOfASequence(t *testing.T) {
	const n = 30
	rng := rand.New(rand.NewPCG(7, 8))
	y := gaussians(rng, n, nil)
	for _, order := range []int{1, 2, 3} {
		data := problems.Data{Y: y, YShape: []int{n}, Variant: problems.Variant{Order: &order}}
		want, _, closed := smoothed(t, data, 5)
		trace := closed.Trace
		data.At = make([]float64, n)
		for i := range data.At {
			data.At[i] = 1960 + float64(i)/4
		}
		got, _, again := smoothed(t, data, 5)
		same := again.Trace
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-10 || math.Abs(same-trace) > 1e-10 {
				t.Fatalf("order %d: %g at %d and a trace of %g with even places, %g and %g without",
					order, got[i], i, same, want[i], trace)
			}
		}
		for i := range data.At {
			data.At[i] = float64(i) + 0.9*rng.Float64()
		}
		line := make([]float64, n)
		for i, x := range data.At {
			line[i] = math.Pow(x-12, float64(order-1))
		}
		data.Y = line
		kept, _, _ := smoothed(t, data, 1e6)
		for i, v := range line {
			if math.Abs(kept[i]-v) > 1e-6*(1+math.Abs(v)) {
				t.Errorf("order %d: a polynomial is %g at %d after smoothing, %g before", order, kept[i], i, v)
			}
		}
	}
	for _, at := range [][]float64{{1, 2}, {1, 3, 2, 4}, {1, 2, 2, 3}, {1, 2, 3, math.Inf(1)}} {
		data := problems.Data{Y: y[:4], YShape: []int{4}, At: at}
		_, err := problems.New("whittaker", array.NewHost(), data, problems.Hyper{Lambda: problems.Absolute(1)})
		if err == nil || !strings.Contains(err.Error(), "place") {
			t.Errorf("places %v: %v", at, err)
		}
	}
}

// The places of a table's index count in differences of a specification, of the whole sequence or of
// what was observed.
func TestPlacesOfATable(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("y.csv", "day,y\n2024-01-09,1\n2024-01-06,2\n2024-01-05,NA\n2024-01-03,4\n2024-01-01,7\n")
	for operator, want := range map[string][]float64{
		"{selection: {indices: indices, shape: shape}}": {0, 3, 4, 6, 8},
		"identity": {0, 3, 6, 8},
	} {
		spec, err := problems.ReadSpec(write("s.yaml",
			"data: {file: y.csv, response: y, missing: drop}\noperator: "+operator+
				"\nterms:\n  - operator: {differences: {order: 1}}\n    regularizer: {squared-l2: 2}\n"))
		if err != nil {
			t.Fatal(err)
		}
		data, err := spec.Load(problems.SpecFiles{FS: problems.Disk})
		if err != nil {
			t.Fatal(err)
		}
		for i := range data.At {
			if data.At[i]-data.At[0] != want[i] || len(data.At) != len(want) {
				t.Fatalf("%s: places %v, expected %v and a constant", operator, data.At, want)
			}
		}
		p, err := problems.New("s", array.NewHost(), data, problems.Hyper{})
		if err != nil {
			t.Fatal(err)
		}
		if p.D != 4 || p.P != len(want) || p.DefaultSolver != "direct" || len(data.At) == 0 {
			t.Errorf("%s: D %d, P %d by %s", operator, p.D, p.P, p.DefaultSolver)
		}
		p.Release()
	}
}
