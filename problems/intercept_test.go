package problems_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/internal/dataio"
	"surepipe/internal/noise"
	"surepipe/linops"
	"surepipe/linops/linopstest"
	"surepipe/problems"
	"surepipe/space"
	"surepipe/vjp"
)

// tabled is a regression whose columns and response have means far from 0.
func tabled(d, p int) problems.Data {
	rng := rand.New(rand.NewPCG(3, 1))
	data := problems.Data{X: mat.NewDense(d, p, nil), Y: make([]float64, d), Intercept: true}
	for i := range d {
		data.Y[i] = 5 + rng.NormFloat64()
		for j := range p {
			if j%3 > 0 || rng.Float64() < 0.5 {
				data.X.(*mat.Dense).Set(i, j, rng.NormFloat64()+float64(j))
			}
		}
	}
	return data
}

func sparsely(x *mat.Dense) *dataio.Sparse {
	d, p := x.Dims()
	s := &dataio.Sparse{Rows: d, Cols: p, IndPtr: []int{0}}
	for i := range d {
		for j := range p {
			if v := x.At(i, j); v != 0 {
				s.Indices, s.Values = append(s.Indices, j), append(s.Values, v)
			}
		}
		s.IndPtr = append(s.IndPtr, len(s.Indices))
	}
	return s
}

// The operator of a problem with an intercept is the given one less the means of its
// columns, however it is kept, and so are its restrictions.
func TestOperatorsAreCentered(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const d, p = 9, 6
		data := tabled(d, p)
		want := mat.DenseCopyOf(data.X)
		for j := range p {
			mean := mat.Sum(want.ColView(j)) / d
			for i := range d {
				want.Set(i, j, want.At(i, j)-mean)
			}
		}
		sparse := data
		sparse.X = problems.Matrix{Sparse: sparsely(data.X.(*mat.Dense))}
		list := func(x *mat.Dense) string {
			var rows []string
			for i := range d {
				rows = append(rows, strings.ReplaceAll(fmt.Sprint(x.RawRowView(i)), " ", ", "))
			}
			return "[" + strings.Join(rows, ", ") + "]"
		}
		inSpec := func(operator string) problems.Data {
			s, err := problems.ParseSpec([]byte(fmt.Sprintf("data: {X: %s, y: %s}\noperator: %s\nregularizer: "+
				"{l1: lambda}\n",
				list(data.X.(*mat.Dense)), strings.ReplaceAll(fmt.Sprint(data.Y), " ", ", "), operator)), "s.yaml")
			if err != nil {
				t.Fatal(err)
			}
			loaded, err := s.Load(problems.SpecFiles{FS: problems.Disk})
			if err != nil {
				t.Fatal(err)
			}
			loaded.Intercept = true
			return loaded
		}
		for name, data := range map[string]problems.Data{
			"dense": data, "sparse": sparse, "specified": inSpec("{dense: X}"),
			"product": inSpec("{product: [scale: {by: 0.5, operator: identity}, scale: {by: 2, operator: " +
				"{dense: X}}]}"),
		} {
			live := dev.Stats().Live
			problem, err := problems.New("lasso", dev, data, problems.Hyper{Lambda: problems.Absolute(1)})
			if err != nil {
				t.Fatal(name, err)
			}
			if err := linopstest.Check(dev, problem.Operator); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if got := linops.ToDense(dev, problem.Operator); !mat.EqualApprox(got, want, 1e-13) {
				t.Errorf("%s is\n%v\nexpected\n%v", name, mat.Formatted(got), mat.Formatted(want))
			}
			if norms := linops.StructureOf(problem.Operator).ColumnNorms2; norms != nil {
				for j, v := range norms() {
					if n := mat.Norm(want.ColView(j), 2); math.Abs(v-n*n) > 1e-10 {
						t.Errorf("%s: column %d has norm^2 %g, expected %g", name, j, v, n*n)
					}
				}
			}
			columns := space.Coordinates(dev, p, []int{1, 4})
			if part, native := linops.On(dev, problem.Operator, columns); native {
				if err := linopstest.Check(dev, part); err != nil {
					t.Errorf("%s restricted: %v", name, err)
				}
				got := linops.ToDense(dev, part)
				for i := range d {
					if math.Abs(got.At(i, 0)-want.At(i, 1)) > 1e-13 || math.Abs(got.At(i, 1)-want.At(i, 4)) > 1e-13 {
						t.Errorf("%s: row %d of columns 1 and 4 is %v", name, i, got.RawRowView(i))
					}
				}
				part.Release()
			} else {
				t.Errorf("%s does not restrict itself", name)
			}
			columns.Release()
			problem.Release()
			if got := dev.Stats().Live; got != live {
				t.Errorf("%s: %d batches left", name, got-live)
			}
		}
	})
}

// A multiple of the maximum refers to the centered problem: just below it b is not 0.
func TestMaximumWithAnIntercept(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		data := tabled(30, 8)
		sparse := data
		sparse.X = problems.Matrix{Sparse: sparsely(data.X.(*mat.Dense))}
		for _, share := range []float64{0.999, 1.001} {
			for kind, data := range map[string]problems.Data{"dense": data, "sparse": sparse} {
				for _, name := range []string{"lasso", "elastic-net"} {
					hyper := problems.Hyper{Lambda: problems.OfMax(share)}
					if name == "elastic-net" {
						hyper.Lambda2 = problems.Absolute(1)
					}
					p, err := problems.New(name, dev, data, hyper)
					if err != nil {
						t.Fatal(err)
					}
					solver, err := vjp.NewSolver(t.Context(), p.DefaultSolver, p.Solve(), vjp.Options{})
					if err != nil {
						t.Fatal(err)
					}
					y := dev.Alloc(1, p.D)
					centered := make([]float64, p.D)
					mean := mat.Sum(mat.NewVecDense(p.D, data.Y)) / float64(p.D)
					for i, v := range data.Y {
						centered[i] = v - mean
					}
					dev.Upload(y, centered)
					s, err := solver.Solve(t.Context(), y)
					if err != nil {
						t.Fatal(err)
					}
					if largest := mat.Norm(mat.NewVecDense(p.P, s.B.ToHost()),
						math.Inf(1)); (largest > 0) != (share < 1) {
						t.Errorf("%s, %s: at %gmax b is %g", name, kind, share, largest)
					}
					s.Release()
					y.Free()
					solver.Release()
					p.Release()
				}
			}
		}
	})
}

// The residual variance is that of OLS on X and a column of ones, whatever the means.
func TestSigma2WithAnIntercept(t *testing.T) {
	const d, p = 20, 5
	data := tabled(d, p)
	with := mat.NewDense(d, p+1, nil)
	for i := range d {
		copy(with.RawRowView(i), data.X.(*mat.Dense).RawRowView(i))
		with.Set(i, p, 1)
	}
	want, err := noise.OLSResidual(with, data.Y)
	if err != nil {
		t.Fatal(err)
	}
	far := data
	far.X = mat.DenseCopyOf(data.X)
	far.X.(*mat.Dense).Apply(func(_, _ int, v float64) float64 { return v + 1<<20 }, far.X)
	sparse := data
	sparse.X = problems.Matrix{Sparse: sparsely(data.X.(*mat.Dense))}
	for name, data := range map[string]problems.Data{"dense": data, "sparse": sparse, "far": far} {
		got, err := problems.EstimateSigma2("auto", "lasso", data)
		if err != nil || math.Abs(got.Sigma2-want.Sigma2) > 1e-8*want.Sigma2 || got.RelStdErr != want.RelStdErr {
			t.Errorf("%s: %+v, %v, expected %+v", name, got, err, want)
		}
	}
	constant := tabled(d, p)
	constant.X.(*mat.Dense).SetCol(2, slices.Repeat([]float64{0.3}, d))
	if _, err := problems.EstimateSigma2("auto", "ols", constant); err == nil ||
		!strings.Contains(err.Error(), "column 2 of X is constant, and so is the intercept") {
		t.Errorf("error %v", err)
	}
	var refused *noise.Refusal
	if _, err := problems.EstimateSigma2("ols-residual", "ols", tabled(p+1, p)); !errors.As(err, &refused) ||
		!strings.Contains(err.Error(), "X is 6 x 5 and there is an intercept, expected d > p + 1") {
		t.Errorf("error %v", err)
	}
}

// Problems without a place for an intercept refuse one.
func TestInterceptIsRefusedWhereItHasNoPlace(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		_, err := problems.New("svt", dev, problems.Data{Y: []float64{1, 2, 3, 4}, YShape: []int{2, 2},
			Intercept: true}, problems.Hyper{Lambda: problems.Absolute(1)})
		if err == nil || !strings.Contains(err.Error(),
			"an intercept is asked for, but svt cannot have that: expected ols, ridge, lasso, elastic-net, "+
				"group-lasso, fused-lasso, "+
				"generalized-lasso, or a specification") {
			t.Errorf("error %v", err)
		}
		data, err := load(t, t.TempDir(), "data: {y: [1, 2, 3, 4]}\noperator: identity\nsynthesis: {adjoint: "+
			"dct}\nregularizer: {l1: 1}\n")
		if err != nil {
			t.Fatal(err)
		}
		data.Intercept = true
		if _, err := problems.New("", dev, data, problems.Hyper{}); err == nil ||
			!strings.Contains(err.Error(), "problem.yaml:3: an intercept is asked for, but a specification with a "+
				"synthesis cannot have one") {
			t.Errorf("error %v", err)
		}
	})
}
