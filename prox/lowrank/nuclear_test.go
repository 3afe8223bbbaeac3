package lowrank_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/prox"
	"surepipe/prox/lowrank"
)

// matrix is an m x n matrix of known full SVD.
type matrix struct {
	m, n  int
	sigma []float64 // min(m, n) of them, in any order
	u, v  *mat.Dense
}

func orthogonal(n int, rng *rand.Rand) *mat.Dense {
	a := mat.NewDense(n, n, nil)
	for i := range n {
		for j := range n {
			a.Set(i, j, rng.NormFloat64())
		}
	}
	var qr mat.QR
	qr.Factorize(a)
	var q mat.Dense
	qr.QTo(&q)
	return &q
}

// withSingularValues returns a matrix with random singular vectors.
func withSingularValues(m, n int, sigma ...float64) matrix {
	if len(sigma) != min(m, n) {
		panic("as many singular values as min(m, n)")
	}
	rng := rand.New(rand.NewPCG(uint64(m), uint64(n)))
	return matrix{m, n, sigma, orthogonal(m, rng), orthogonal(n, rng)}
}

// diagonalMatrix returns a matrix whose SVD is exact in floating point.
func diagonalMatrix(m, n int, sigma ...float64) matrix {
	eye := func(n int) *mat.Dense {
		a := mat.NewDense(n, n, nil)
		for i := range n {
			a.Set(i, i, 1)
		}
		return a
	}
	return matrix{m, n, sigma, eye(m), eye(n)}
}

// sandwich returns U Y V*, row-major.
func (x matrix) sandwich(y *mat.Dense) []float64 {
	var out mat.Dense
	out.Product(x.u, y, x.v.T())
	return out.RawMatrix().Data
}

func (x matrix) dense() []float64 {
	y := mat.NewDense(x.m, x.n, nil)
	for i, s := range x.sigma {
		y.Set(i, i, s)
	}
	return x.sandwich(y)
}

// jacobian is DF(X) Z by the divided differences of f(s) = max(s - tau, 0) in
// the basis of the full SVD, an expression that shares nothing with the one
// under test: in that basis the symmetric part of each pair of entries is
// multiplied by (f_i - f_j)/(s_i - s_j) and the antisymmetric part by
// (f_i + f_j)/(s_i + s_j).
func (x matrix) jacobian(tau float64, z []float64) []float64 {
	var w mat.Dense
	w.Product(x.u.T(), mat.NewDense(x.m, x.n, z), x.v)
	y := mat.NewDense(x.m, x.n, nil)
	s := func(i int) float64 {
		if i < len(x.sigma) {
			return x.sigma[i]
		}
		return 0
	}
	f := func(i int) float64 { return max(s(i)-tau, 0) }
	at := func(i, j int) float64 {
		if i < x.m && j < x.n {
			return w.At(i, j)
		}
		return 0
	}
	for i := range x.m {
		for j := range x.n {
			var difference, sum float64
			switch {
			case s(i) > tau && s(j) > tau:
				difference = 1
			case s(i) > tau || s(j) > tau:
				difference = (f(i) - f(j)) / (s(i) - s(j))
			}
			if s(i)+s(j) > 0 {
				sum = (f(i) + f(j)) / (s(i) + s(j))
			}
			if i >= len(x.sigma) || j >= len(x.sigma) {
				// The partner entry lies outside the matrix: what is left is
				// f(s)/s.
				y.Set(i, j, sum*at(i, j))
				continue
			}
			y.Set(i, j, (difference+sum)/2*at(i, j)+(difference-sum)/2*at(j, i))
		}
	}
	return x.sandwich(y)
}

// apply returns J z at x with threshold tau.
func apply(t *testing.T, dev array.Device, shape array.Shape, x []float64, tau float64, z []float64) []float64 {
	t.Helper()
	b, d := dev.Alloc(1, len(x)), dev.Alloc(1, len(x))
	defer b.Free()
	defer d.Free()
	dev.Upload(b, x)
	dev.Upload(d, z)
	j, err := lowrank.NewNuclear(shape, 1).Linearize(b, b, tau)
	if err != nil {
		t.Fatal(err)
	}
	j.Apply(d, d)
	j.Release()
	return d.ToHost()
}

// distance is ||x - y|| / ||z||.
func distance(x, y, z []float64) float64 { return floats.Distance(x, y, 2) / floats.Norm(z, 2) }

// nuclearCases are points where the threshold 1 is at least 0.2 away from every
// singular value. They include all that breaks formulas with differences of
// singular values in them.
var nuclearCases = []struct {
	name string
	x    matrix
}{
	{"tall", withSingularValues(9, 5, 4, 2.5, 1.5, 0.7, 0.2)},
	{"wide", withSingularValues(5, 9, 4, 2.5, 1.5, 0.7, 0.2)},
	{"square", withSingularValues(6, 6, 4, 2.5, 1.5, 0.7, 0.5, 0.2)},
	{"active pair equal", withSingularValues(7, 5, 3, 3, 1.5, 0.7, 0.2)},
	{"active pair nearly equal", withSingularValues(7, 5, 3, 3+1e-12, 1.5, 0.7, 0.2)},
	{"every active value equal", withSingularValues(5, 7, 2, 2, 2, 0.7, 0.2)},
	{"inactive pair equal", withSingularValues(7, 5, 3, 2, 1.5, 0.5, 0.5)},
	{"every value equal, active", withSingularValues(5, 5, 2, 2, 2, 2, 2)},
	{"equal values on both sides", withSingularValues(6, 8, 2, 2, 2, 0.5, 0.5, 0.5)},
	{"rank deficient", withSingularValues(8, 6, 4, 2, 0.5, 0, 0, 0)},
	{"rank deficient, no inactive value but 0", withSingularValues(6, 8, 4, 2, 0, 0, 0, 0)},
	{"tiny inactive values", withSingularValues(6, 7, 4, 2, 0.5, 1e-9, 1e-15, 1e-18)},
	{"rank 1 result", withSingularValues(6, 5, 4, 0.8, 0.6, 0.5, 0.1)},
	{"rank 0 result", withSingularValues(6, 5, 0.8, 0.7, 0.6, 0.5, 0.1)},
	{"zero", withSingularValues(4, 5, 0, 0, 0, 0)},
	{"full rank active, tall", withSingularValues(7, 4, 4, 3, 2, 1.5)},
	{"full rank active, wide", withSingularValues(4, 7, 4, 3, 2, 1.5)},
	{"full rank active, square", withSingularValues(5, 5, 5, 4, 3, 2, 1.5)},
	{"all but one active, tall", withSingularValues(7, 4, 4, 3, 2, 0.5)},
	{"all but one active, wide", withSingularValues(4, 7, 4, 3, 2, 0.5)},
	{"all but one active, square", withSingularValues(4, 4, 4, 3, 2, 0.5)},
	{"one row", withSingularValues(1, 6, 2)},
	{"one column", withSingularValues(6, 1, 2)},
	{"one number", withSingularValues(1, 1, 2)},
	{"wide range", withSingularValues(5, 6, 1e6, 1e3, 2, 0.5, 1e-6)},
	// The Gram matrix serves up to 100.
	{"a range of 99, tall", withSingularValues(9, 5, 99, 2.5, 1.5, 0.7, 1e-3)},
	{"a range of 99, wide", withSingularValues(5, 9, 99, 2.5, 1.5, 0.7, 1e-3)},
	{"a range of 99, square, rank deficient", withSingularValues(6, 6, 99, 98, 1.5, 0.7, 1e-12, 0)},
	{"a range of 99, full rank active", withSingularValues(6, 4, 99, 90, 1.5, 1.2)},
	{"a range of 101, tall", withSingularValues(9, 5, 101, 2.5, 1.5, 0.7, 1e-3)},
	{"a range of 101, wide", withSingularValues(5, 9, 101, 2.5, 1.5, 0.7, 1e-3)},
}

// A five-point difference with step h errs by about h^4 from truncation and
// eps ||X||/h from rounding.
func TestNuclearVJPMatchesCentralDifferences(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		worst := 0.0
		for _, c := range nuclearCases {
			t.Run(c.name, func(t *testing.T) {
				shape := array.Shape{Rows: c.x.m, Cols: c.x.n}
				x := c.x.dense()
				p := lowrank.NewNuclear(shape, 1)
				for seed := range uint64(3) {
					z := normal(seed, len(x))
					floats.Scale(1/floats.Norm(z, 2), z)
					const h = 1e-3
					at := func(a float64) []float64 {
						v := append([]float64(nil), x...)
						floats.AddScaled(v, a*h, z)
						return evaluateOn(t, dev, p, v, 1)
					}
					near, far := floats.SubTo(at(1), at(1), at(-1)), floats.SubTo(at(2), at(2), at(-2))
					want := make([]float64, len(x))
					for i := range want {
						want[i] = (8*near[i] - far[i]) / (12 * h)
					}
					got := apply(t, dev, shape, x, 1, z)
					tol := 1e-9 + 1e-16*floats.Norm(x, 2)/h*30
					d := distance(got, want, z)
					if d > tol {
						t.Errorf("direction %d: J z and differences differ by %.3g of ||z||, tolerance %.3g", seed, d,
							tol)
					}
					if floats.Norm(x, 2) < 100 {
						worst = max(worst, d)
					}
				}
			})
		}
		t.Logf("largest error where ||X|| < 100: %.2g of ||z||", worst)
	})
}

func TestNuclearVJPMatchesFullSVD(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		for _, c := range nuclearCases {
			shape := array.Shape{Rows: c.x.m, Cols: c.x.n}
			x := c.x.dense()
			z := normal(4, len(x))
			got, want := apply(t, dev, shape, x, 1, z), c.x.jacobian(1, z)
			// The matrix is its factors' product up to rounding of ||X||, and J is
			// Lipschitz with a constant of one over the gap at the threshold.
			if d, tol := distance(got, want, z), 1e-13+1e-14*floats.Norm(x, 2); d > tol {
				t.Errorf("%s: J z differs from the full SVD's by %.3g of ||z||, tolerance %.3g", c.name, d, tol)
			}
		}
	})
}

func TestNuclearVJPWithinABillionthOfTheThreshold(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		const gap = 1e-9
		for _, c := range []struct {
			name  string
			sigma []float64
			// Rounding X moves its singular values by some 1e-15. Where active and
			// inactive values are separated by 1e-9 that alone moves J by 1e-6, which no
			// formula can mend; on diagonal matrices, whose SVD is exact, all digits
			// must be there.
			tol float64
		}{
			{"an active value just above", []float64{3, 1 + gap, 0.5, 0.2}, 1e-13},
			{"an inactive value just below", []float64{3, 1.5, 1 - gap, 0.2}, 1e-13},
			{"one on each side", []float64{3, 1 + gap, 1 - gap, 0.2}, 1e-5},
			{"two on each side", []float64{1 + gap, 1 + gap, 1 - gap, 1 - gap}, 1e-5},
			{"an active one just above, the next at the threshold", []float64{3, 1 + gap, 1 - gap/8, 0.2}, 1e-5},
			{"all just above", []float64{1 + gap, 1 + gap, 1 + gap, 1 + 2*gap}, 1e-13},
		} {
			for _, shape := range []array.Shape{{Rows: 6, Cols: 4}, {Rows: 4, Cols: 6}, {Rows: 4, Cols: 4}} {
				z := normal(5, shape.Len())
				x := withSingularValues(shape.Rows, shape.Cols, c.sigma...)
				if d := distance(apply(t, dev, shape, x.dense(), 1, z), x.jacobian(1, z), z); d > c.tol {
					t.Errorf("%s, %v: J z differs from the full SVD's by %.3g of ||z||, tolerance %.3g", c.name,
						shape, d, c.tol)
				}
				x = diagonalMatrix(shape.Rows, shape.Cols, c.sigma...)
				if d := distance(apply(t, dev, shape, x.dense(), 1, z), x.jacobian(1, z), z); d > 1e-13 {
					t.Errorf("%s, %v, diagonal: J z differs from the full SVD's by %.3g of ||z||, tolerance 1e-13",
						c.name, shape, d)
				}
			}
		}
	})
}

// A difference over a step much smaller than the gap has few digits left: with
// gap 1e-5 and step 1e-8, about eps/step = 1e-7 of them from rounding.
func TestNuclearVJPNearTheThresholdMatchesShortDifferences(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const gap, h = 1e-5, 1e-8
		shape := array.Shape{Rows: 6, Cols: 4}
		p := lowrank.NewNuclear(shape, 1)
		for _, sigma := range [][]float64{{3, 1 + gap, 0.5, 0.2}, {3, 1.5, 1 - gap, 0.2}, {3, 1 + gap, 1 - gap, 0.2}} {
			x := withSingularValues(6, 4, sigma...).dense()
			z := normal(6, len(x))
			floats.Scale(1/floats.Norm(z, 2), z)
			plus, minus := append([]float64(nil), x...), append([]float64(nil), x...)
			floats.AddScaled(plus, h, z)
			floats.AddScaled(minus, -h, z)
			want := floats.SubTo(make([]float64, len(x)), evaluateOn(t, dev, p, plus, 1),
				evaluateOn(t, dev, p, minus, 1))
			floats.Scale(1/(2*h), want)
			// (h/gap)^2 = 1e-6 from truncation.
			if d := distance(apply(t, dev, shape, x, 1, z), want, z); d > 1e-6 {
				t.Errorf("sigma %v: J z and differences differ by %.3g, tolerance 1e-6", sigma, d)
			}
		}
	})
}

func TestNuclearCountsAValueAtTheThresholdAsInactive(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		x := diagonalMatrix(3, 3, 3, 1, 0.5)
		p := lowrank.NewNuclear(array.Shape{Rows: 3, Cols: 3}, 1)
		got := evaluateOn(t, dev, p, x.dense(), 1)
		if got[0] != 2 || got[4] != 0 {
			t.Errorf("diagonal of the result starts %v, %v, want 2, 0", got[0], got[4])
		}
		z := normal(7, 9)
		j := apply(t, dev, array.Shape{Rows: 3, Cols: 3}, x.dense(), 1, z)
		if j[4] != 0 {
			t.Errorf("derivative %v at the singular value that equals the threshold, want 0", j[4])
		}
	})
}

// divergence is the closed form of Candes, Sing-Long and Trzasko, "Unbiased
// risk estimates for singular value thresholding" (2013), for simple singular
// values.
func divergence(x matrix, tau float64) float64 {
	div := 0.0
	for i, s := range x.sigma {
		if s <= tau {
			continue
		}
		div += 1 + math.Abs(float64(x.m-x.n))*(1-tau/s)
		for j, s2 := range x.sigma {
			if i != j {
				div += 2 * s * (s - tau) / (s*s - s2*s2)
			}
		}
	}
	return div
}

func TestNuclearTraceIsTheClosedFormDivergence(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		for _, x := range []matrix{
			withSingularValues(9, 5, 4, 2.5, 1.5, 0.7, 0.2),
			withSingularValues(5, 9, 4, 2.5, 1.5, 0.7, 0.2),
			withSingularValues(6, 6, 4, 2.5, 1.5, 0.7, 0.5, 0.2),
			withSingularValues(4, 7, 4, 3, 2, 1.5),
			withSingularValues(7, 4, 4, 3, 2, 1.5),
			withSingularValues(4, 4, 4, 3, 2, 1.5),
			withSingularValues(6, 5, 0.9, 0.8, 0.7, 0.6, 0.5),
			withSingularValues(1, 6, 2),
			withSingularValues(12, 10, 9, 8, 7, 6, 5, 0.9, 0.8, 0.3, 1e-8, 0),
			// By the Gram matrix up to 100, whose small eigenvalues are rounding errors.
			withSingularValues(12, 10, 99, 8, 7, 6, 5, 0.9, 0.8, 0.3, 1e-8, 0),
			withSingularValues(8, 11, 99, 98, 1.1, 0.9, 0.3, 1e-6, 1e-8, 1e-9),
			withSingularValues(9, 9, 99, 98, 1.1, 0.9, 0.3, 1e-6, 1e-8, 1e-9, 0),
			withSingularValues(12, 10, 150, 8, 7, 6, 5, 0.9, 0.8, 0.3, 1e-8, 0),
		} {
			p := x.m * x.n
			v, unit := dev.Alloc(1, p), dev.Alloc(p, p)
			dev.Upload(v, x.dense())
			dev.Fill(unit, 0)
			dev.Fill(unit.Diagonal(), 1)
			j, err := lowrank.NewNuclear(array.Shape{Rows: x.m, Cols: x.n}, 2).Linearize(v, v, 0.5)
			if err != nil {
				t.Fatal(err)
			}
			j.Apply(unit, unit)
			trace, square := 0.0, 0.0
			var diagonal []float64
			if d := j.Model().Diagonal; d != nil {
				diagonal = d()
			}
			for i, e := range unit.ToHost() {
				if i/p == i%p {
					trace += e
					if diagonal != nil && math.Abs(diagonal[i/p]-e) > 1e-8 {
						t.Errorf("%d x %d, sigma %v: entry %d of the diagonal of J is %g, expected %g", x.m, x.n, x.sigma,
							i/p, diagonal[i/p], e)
					}
				}
				square += e * e
			}
			told, told2 := 0.0, 0.0 // where nothing is left
			if q := j.Model().Curvature; q != nil {
				told, told2, _ = q.Trace()
			}
			j.Release()
			v.Free()
			unit.Free()
			// Condition of the closed form itself: gaps of 0.1 and more, where the range is
			// small; X's rounding moves values by eps sigma_1, which is at most 1000 of that.
			want, tol := divergence(x, 1), 1e-12
			if x.sigma[0] > 50 {
				tol = 1e-11
			}
			for _, got := range []float64{trace, told} {
				if math.Abs(got-want) > tol*(1+want) {
					t.Errorf("%d x %d, sigma %v: traces %.14g and %.14g, closed form %.14g", x.m, x.n, x.sigma, trace,
						told, want)
				}
			}
			if math.Abs(told2-square) > tol*(1+square) {
				t.Errorf("%d x %d, sigma %v: ||J||^2 %.14g, from unit vectors %.14g", x.m, x.n, x.sigma, told2, square)
			}
		}
	})
}

func TestNuclearDoesNotDependOnTheUnit(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		x := withSingularValues(7, 5, 4, 2.5, 1.5, 0.7, 0.2)
		shape := array.Shape{Rows: 7, Cols: 5}
		z := normal(8, 35)
		want := apply(t, dev, shape, x.dense(), 1, z)
		for _, unit := range []float64{1e-150, 1e-30, 1e30, 1e150} {
			v := x.dense()
			floats.Scale(unit, v)
			if d := distance(apply(t, dev, shape, v, unit, z), want, z); !(d <= 1e-13) {
				t.Errorf("X and tau in units of %v: J z differs by %.3g of ||z||", 1/unit, d)
			}
		}
	})
}

func TestNuclearValueIsTheSumOfSingularValues(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		b := dev.Alloc(1, 20)
		dev.Upload(b, withSingularValues(4, 5, 4, 2.5, 1, 0.5).dense())
		p := lowrank.NewNuclear(array.Shape{Rows: 4, Cols: 5}, 3)
		if got := prox.StructureOf(p).Value(b); math.Abs(got-24) > 1e-13 {
			t.Errorf("value %v, want 24", got)
		}
	})
}

func TestNuclearRefusesWhatIsNotFinite(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		p := lowrank.NewNuclear(array.Shape{Rows: 3, Cols: 2}, 1)
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			v := dev.Alloc(1, 6)
			dev.Upload(v, []float64{1, 2, 3, bad, 5, 6})
			if err := p.Eval(v, v, 1); err == nil {
				t.Errorf("Eval at a matrix with %v: no error", bad)
			}
			if _, err := p.Linearize(v, v, 1); err == nil {
				t.Errorf("Linearize at a matrix with %v: no error", bad)
			}
			v.Free()
		}
		if live := dev.Stats().Live; live != 0 {
			t.Errorf("%d batches on loan after errors", live)
		}
	})
}

func TestNuclearDerivativeDropsWhatDoesNotMatter(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		v := dev.Alloc(1, 8*6)
		bytes := func(x matrix) int64 {
			dev.Upload(v, x.dense())
			dst := dev.Alloc(1, 8*6)
			defer dst.Free()
			j, err := lowrank.NewNuclear(array.Shape{Rows: 8, Cols: 6}, 1).Linearize(dst, v, 1)
			if err != nil {
				t.Fatal(err)
			}
			defer j.Release()
			return j.Bytes()
		}
		index := func(n int) int64 {
			idx := dev.NewIndex(make([]int, n))
			defer idx.Free()
			return idx.Bytes()
		}
		for _, c := range []struct {
			x    matrix
			want int64
		}{
			{diagonalMatrix(8, 6, 4, 2, 0, 0, 0, 0), 8*(2*(2*8+2*6)+2*2*2) + index(2*2)},
			{diagonalMatrix(8, 6, 4, 2, 0.5, 0, 0, 0), 8*(3*8+3*6+2*8+2*6+2*2*3) + index(2*2)},
			{diagonalMatrix(8, 6, 6, 5, 4, 3, 2, 2), 8*(6*8+6*6+6*8+2*6*6) + index(6*6)},
			{diagonalMatrix(8, 6, 0, 0, 0, 0, 0, 0), 0},
		} {
			if got := bytes(c.x); got != c.want {
				t.Errorf("sigma %v: %d bytes, want %d", c.x.sigma, got, c.want)
			}
		}
	})
}

// On large matrices the derivative comes from the Gram matrix, and is the same.
func TestNuclearDerivativeOfLargeMatrices(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		rng := rand.New(rand.NewPCG(8, 9))
		const q = 400
		values := func(active int) []float64 {
			sigma := make([]float64, q)
			for i := range sigma {
				switch {
				case i < active/2:
					sigma[i] = 1.5 + 30*rng.Float64()
				case i < active:
					sigma[i] = 1.3 // repeated
				case i < 380:
					sigma[i] = 0.9 * rng.Float64()
				case i < 390:
					sigma[i] = 1e-9 * rng.Float64()
				}
			}
			return sigma
		}
		for _, c := range []struct {
			name         string
			m, n, active int
		}{{"tall", 430, q, 60}, {"wide", q, 420, 60}, {"square", q, q, 150}} {
			t.Run(c.name, func(t *testing.T) {
				x := withSingularValues(c.m, c.n, values(c.active)...)
				z := make([]float64, c.m*c.n)
				for i := range z {
					z[i] = rng.NormFloat64()
				}
				got := apply(t, dev, array.Shape{Rows: c.m, Cols: c.n}, x.dense(), 1, z)
				if d := distance(got, x.jacobian(1, z), z); !(d < 1e-11) {
					t.Errorf("off by %.3g of the direction", d)
				}
			})
		}
	})
}
