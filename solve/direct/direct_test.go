package direct_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/engine"
	"surepipe/solve/internal/roomtest"
	"surepipe/solve/solvetest"
)

// Wide matrices, and those with a singular value of 0, as centered columns have one, take eigenvalues too: b is that of
// the pseudo-inverse, and the trace that of the singular values.
func TestDirectTakesEigenvaluesOfTheShorterSideWithoutThoseOfZero(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	for _, c := range []struct {
		d, p   int
		near   float64 // how far the first row, or column, of the shorter side is from the second
		curve  float64
		rows   bool // A has no Gram matrix of its own
		chosen string
	}{
		{40, 120, 1, 3, false, "eigenvalues of A*A or A A*"},
		{40, 120, 0, 3, false, "eigenvalues of A*A or A A*"},
		{40, 120, 0, 0, false, "eigenvalues of A*A or A A*"},
		{120, 40, 0, 3, false, "eigenvalues of A*A or A A*"},
		{120, 40, 1, 3, true, "eigenvalues of A*A or A A*"},
		{40, 120, 1e-9, 3, false, "singular value decomposition"},
		{120, 40, 1e-9, 3, false, "singular value decomposition"},
	} {
		rng := rand.New(rand.NewPCG(23, 24))
		short, long := min(c.d, c.p), max(c.d, c.p)
		x := mat.NewDense(short, long, solvetest.Gaussian(rng, short*long))
		for j := range long {
			x.Set(0, j, x.At(1, j)+c.near*x.At(0, j))
		}
		if c.d > c.p {
			x = mat.DenseCopyOf(x.T())
		}
		values := solvetest.Gaussian(rng, c.d)
		var a linops.Operator = roomtest.Dense(t, dev, c.d, c.p, x.RawMatrix().Data)
		if c.rows {
			ones := slices.Repeat([]float64{1}, c.d)
			a = engine.NewWeightedRows(a, roomtest.On(t, dev, ones), ones, nil)
		}
		s := roomtest.NewSolver(t, "direct", solve.Problem{A: a, R: prox.NewSquaredL2(c.curve), Device: dev},
			solve.Options{Point: true})
		sol := roomtest.At(t, s, roomtest.On(t, dev, values))
		roomtest.CheckChoice(t, sol, "method", c.chosen)
		var svd mat.SVD
		var u, v mat.Dense
		svd.Factorize(x, mat.SVDThin)
		svd.UTo(&u)
		svd.VTo(&v)
		want, trace := mat.NewVecDense(c.p, nil), 0.0
		for k, sv := range svd.Values(nil) {
			if sv > 1e-13*svd.Values(nil)[0] {
				along := mat.Dot(u.ColView(k), mat.NewVecDense(c.d, values))
				want.AddScaledVec(want, along/(sv+c.curve/sv), v.ColView(k))
				trace += sv * sv / (sv*sv + c.curve)
			}
		}
		for j, b := range sol.B.ToHost() {
			if math.Abs(b-want.AtVec(j)) > 1e-9*mat.Norm(want, 2) {
				t.Errorf("%+v: b[%d] = %g, expected %g", c, j, b, want.AtVec(j))
			}
		}
		if got := sol.At.Linear.Traces().Trace; math.Abs(got-trace) > 1e-9*trace {
			t.Errorf("%+v: trace %g, expected %g", c, got, trace)
		}
		roomtest.CheckMapped(t, rng, dev, c.d, func(dst, v array.Batch) bool {
			sol.At.Linear.Images(dst, v)
			return true
		}, sol.At.Linear.(interface {
			Mapped(v *array.Mapped) []float64
		}).Mapped)
	}
}

// A matrix in a file whose A*A is known stays there: the numbers are those of one in memory, where A*A resolves them.
func TestDirectTakesTheGramMatrixOfAFile(t *testing.T) {
	const d, p = 400, 6
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	rng := rand.New(rand.NewPCG(21, 23))
	y := roomtest.On(t, dev, solvetest.Gaussian(rng, d))
	for _, c := range []struct{ unit, copied, curve, other float64 }{
		{1, 1, 0, 2}, {1e-7, 1, 3, 0.01}, {1, 1e-3, 0.5, 0}, {1, 1e-9, 0, 1},
	} {
		x := mat.NewDense(d, p, solvetest.Gaussian(rng, d*p))
		for i := range d {
			row := x.RawRowView(i)
			row[1] *= c.unit
			row[2] = row[3] + c.copied*row[2]
		}
		dense, stored := roomtest.Dense(t, dev, d, p, x.RawMatrix().Data), roomtest.Stored(x)
		both := [2]solve.Solver{}
		for i, a := range []linops.Operator{dense, stored} {
			both[i] = roomtest.NewSolver(t, "direct", solve.Problem{A: a, R: prox.NewSquaredL2(c.curve), Device: dev},
				solve.Options{Point: true})
		}
		for range 2 {
			want, got := roomtest.At(t, both[0], y), roomtest.At(t, both[1], y)
			if c.copied < 1e-8 {
				roomtest.CheckChoice(t, got, "method", "all coordinates")
				break
			}
			roomtest.CheckChoice(t, got, "method", "a dense Cholesky factor of A*A")
			roomtest.Near(t, "mu_hat", got.MuHat.ToHost(), want.MuHat.ToHost(), 1e-9)
			there, here := want.At.Linear.Traces(), got.At.Linear.Traces()
			if math.Abs(here.Trace-there.Trace) > 1e-8 || math.Abs(here.Frobenius2-there.Frobenius2) > 1e-8 ||
				!got.Converged || !(here.Below < 1e-3) {
				t.Errorf("%+v: %+v, %+v, expected %+v", c, here, got.Convergence, there)
			}
			for i, s := range both {
				other, err := s.Reweight(t.Context(), prox.NewSquaredL2(c.other))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(other.Release)
				both[i] = other
			}
		}
	}
}

// Tall matrices with singular values of one size are factorized by A*A, others by their own singular
// value decomposition: the same numbers as the normal equations and the singular values give.
func TestDirectTakesEigenvaluesWhereTheyResolveTheSpectrum(t *testing.T) {
	const d, p = 120, 40
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	rng := rand.New(rand.NewPCG(21, 22))
	values := solvetest.Gaussian(rng, d)
	y := roomtest.On(t, dev, values)
	for _, c := range []struct {
		spread float64 // of the singular values, beyond that of a Gaussian matrix
		curve  float64
		chosen string
	}{
		{1, 0, "eigenvalues of A*A or A A*"},
		{1, 3, "eigenvalues of A*A or A A*"},
		{20, 0, "eigenvalues of A*A or A A*"},
		{1e4, 0.5, "singular value decomposition"},
	} {
		// The last direction, which all columns share, is shrunk.
		x := mat.NewDense(d, p, solvetest.Gaussian(rng, d*p))
		for i := range d {
			row := x.RawRowView(i)
			mean := 0.0
			for _, v := range row {
				mean += v / p
			}
			for j := range row {
				row[j] -= mean * (1 - 1/c.spread)
			}
		}
		s := roomtest.NewSolver(t, "direct", solve.Problem{A: roomtest.Dense(t, dev, d, p, x.RawMatrix().Data),
			R: prox.NewSquaredL2(c.curve), Device: dev}, solve.Options{Point: true})
		sol := roomtest.At(t, s, y)
		roomtest.CheckChoice(t, sol, "method", c.chosen)
		// The reference: QR of [x; sqrt(c) I].
		tall := mat.NewDense(d+p, p, nil)
		tall.Slice(0, d, 0, p).(*mat.Dense).Copy(x)
		for j := range p {
			tall.Set(d+j, j, math.Sqrt(c.curve))
		}
		var qr mat.QR
		qr.Factorize(tall)
		var want mat.VecDense
		if err := qr.SolveVecTo(&want, false, mat.NewVecDense(d+p,
			append(append([]float64{}, values...), make([]float64, p)...))); err != nil {
			t.Fatal(err)
		}
		for j, b := range sol.B.ToHost() {
			if math.Abs(b-want.AtVec(j)) > 1e-9*c.spread*mat.Norm(&want, 2)/100 {
				t.Errorf("%+v: b[%d] = %g, expected %g", c, j, b, want.AtVec(j))
			}
		}
		var svd mat.SVD
		svd.Factorize(x, mat.SVDNone)
		trace := 0.0
		for _, v := range svd.Values(nil) {
			trace += v * v / (v*v + c.curve)
		}
		if got := sol.At.Linear.Traces(); math.Abs(got.Trace-trace) > 1e-9 || !(got.Margin > 1e6) || !sol.Converged {
			t.Errorf("%+v: trace %g, expected %g; margin %g, converged %v", c, got.Trace, trace, got.Margin,
				sol.Converged)
		}
	}
}
