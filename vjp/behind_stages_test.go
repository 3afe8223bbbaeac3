package vjp_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/vjp"
)

const stagesSide = 16

// twoPenalties is a problem of an image with total variation and wavelets behind an operator.
func twoPenalties(t *testing.T, dev array.Device, side int, operator string, isotropic bool, lambda,
	gamma float64) vjp.Problem {
	t.Helper()
	n := side * side
	wavelet, err := imaging.NewWavelet2D(side, side, "sym4", 2)
	if err != nil {
		t.Fatal(err)
	}
	var variation prox.Prox = prox.NewL1(lambda)
	if isotropic {
		variation = prox.NewVectorialL2(n, 2, 1, lambda)
	}
	k, r := solve.Terms(solve.Term{K: imaging.NewGradient([]int{side, side}, nil, imaging.Reflecting),
		R: variation}, solve.Term{K: wavelet, R: prox.NewL1(gamma)})
	p := vjp.Problem{A: linops.Identity(n), K: k, R: r, Device: dev}
	switch operator {
	case "blur":
		p.A, err = imaging.NewConvolution2D(side, side, mat.NewDense(3, 3,
			[]float64{1, 2, 1, 2, 6, 2, 1, 2, 1}), imaging.ZeroPadded)
		p.A = linops.Scale(1.0/18, p.A)
	case "gaps":
		var seen []int
		for i := range n {
			if i%5 != 2 {
				seen = append(seen, i)
			}
		}
		p.A, err = linops.NewSelection(dev, n, seen)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// scene is an image with a disc and a ramp, and noise, as A shows it.
func scene(dev array.Device, a linops.Operator, noise float64) []float64 {
	rng := rand.New(rand.NewPCG(7, 11))
	d, n := a.Dims()
	image, side := make([]float64, n), int(math.Sqrt(float64(n)))
	for i := range image {
		x, y := float64(i%side)/float64(side), float64(i/side)/float64(side)
		if image[i] = 0.4 * x; math.Hypot(x-0.4, y-0.5) < 0.3 {
			image[i]++
		}
	}
	b, y := dev.Put(image, 1, len(image)), dev.Alloc(1, d)
	defer array.Free(b, y)
	a.Forward(y, b)
	out := y.ToHost()
	for i := range out {
		out[i] += noise * rng.NormFloat64()
	}
	return out
}

func staged(sol *vjp.Solution) bool {
	for _, c := range sol.Choices {
		if strings.Contains(c.Chosen, "the equations of the others on it") {
			return true
		}
	}
	return false
}

// The derivative on the clusters of total variation, with the equations of the wavelets, is that of dense algebra.
func TestStagesAgainstDenseAlgebra(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	for _, c := range []struct {
		operator  string
		isotropic bool
		gamma     float64
	}{{"identity", true, 0.02}, {"identity", true, 0.2}, {"identity", false, 0.02}, {"identity", false, 0.2},
		{"blur", true, 0.2}, {"blur", false, 0.02}, {"gaps", true, 0.2}, {"gaps", false, 0.2}} {
		t.Run(fmt.Sprintf("%s/isotropic=%v/%v", c.operator, c.isotropic, c.gamma), func(t *testing.T) {
			arraytest.NoLeak(t, dev)
			p := twoPenalties(t, dev, stagesSide, c.operator, c.isotropic, 0.08, c.gamma)
			y := scene(dev, p.A, 0.1)
			o := vjp.Options{Tol: 1e-14, MaxIter: 60000, Derivative: vjp.Implicit}
			dense := solved(t, newSolver(t, "admm", p, o), dev, y)
			defer dense.Release()
			sol := bySaddlePoint(t, dev, p, o, y)
			defer sol.Release()
			if !staged(sol) || staged(dense) {
				t.Fatalf("chosen: %v, %v", sol.Choices, dense.Choices)
			}
			want, got := jacobian(t, dense.Linearization, dev, len(y)), jacobian(t, sol.Linearization, dev, len(y))
			got.Sub(got, want)
			if most := mat.Norm(got, 2); !(most <= 1e-6) {
				t.Errorf("the derivative is off by %.2g", most)
			}
			if off := math.Abs(mat.Trace(got)); !(off <= 1e-8*mat.Trace(want)) {
				t.Errorf("the trace %.9g is off by %.2g", mat.Trace(want), off)
			}
		})
	}
}

func bySaddlePoint(t *testing.T, dev array.Device, p vjp.Problem, o vjp.Options, y []float64) *vjp.Solution {
	t.Helper()
	defer vjp.BySaddlePoint()()
	return solved(t, newSolver(t, "admm", p, o), dev, y)
}

// Images of the derivative are central differences of solutions.
func TestStagesAgainstDifferences(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	for _, operator := range []string{"identity", "blur"} {
		p := twoPenalties(t, dev, stagesSide, operator, true, 0.08, 0.2)
		y := scene(dev, p.A, 0.1)
		o := vjp.Options{Tol: 1e-14, MaxIter: 60000, Derivative: vjp.Implicit}
		sol := bySaddlePoint(t, dev, p, o, y)
		j := jacobian(t, sol.Linearization, dev, len(y))
		sol.Release()
		const step, at = 1e-5, 100
		shifted := func(by float64) *mat.VecDense {
			z := append([]float64(nil), y...)
			z[at] += by
			sol := solved(t, newSolver(t, "admm", p, o), dev, z) // settled by Newton's method
			defer sol.Release()
			return mat.NewVecDense(len(z), sol.MuHat.ToHost())
		}
		var difference mat.VecDense
		difference.SubVec(shifted(step), shifted(-step))
		difference.ScaleVec(1/(2*step), &difference)
		difference.SubVec(&difference, j.RowView(at))
		if off := mat.Norm(&difference, 2); !(off <= 1e-5) {
			t.Errorf("%s: the image of a unit vector, of length %.3f, is off by %.2g", operator, mat.Norm(j.RowView(at), 2),
				off)
		}
	}
}

// Where equations depend on each other, as in an image without edges and at weights that leave one constant, the
// trace counts what is left.
func TestStagesOfAFlatImage(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	for _, isotropic := range []bool{true, false} {
		for _, flat := range []bool{true, false} {
			lambda := 0.05
			p := twoPenalties(t, dev, stagesSide, "identity", isotropic, lambda, 0.3)
			y := scene(dev, p.A, 0.1)
			if flat {
				for i := range y {
					y[i] = 7
				}
			} else {
				p = twoPenalties(t, dev, stagesSide, "identity", isotropic, 200, 0.3)
			}
			sol := bySaddlePoint(t, dev, p, vjp.Options{Tol: 1e-12, MaxIter: 60000, Derivative: vjp.Implicit}, y)
			j := jacobian(t, sol.Linearization, dev, len(y))
			if trace := mat.Trace(j); !staged(sol) || math.Abs(trace-1) > 1e-7 {
				t.Errorf("isotropic %v, flat %v: trace %.9g, want 1; %v", isotropic, flat, trace, sol.Choices)
			}
			sol.Release()
		}
	}
}

// With more coordinates than a dense inverse takes, the derivative along a direction is the difference of solutions.
func TestStagesOfManyCoordinates(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	arraytest.NoLeak(t, dev)
	p := twoPenalties(t, dev, 72, "identity", true, 0.005, 0.01)
	y, rng := scene(dev, p.A, 0.1), rand.New(rand.NewPCG(3, 4))
	along := make([]float64, len(y))
	for i := range along {
		along[i] = rng.NormFloat64()
	}
	o := vjp.Options{Tol: 1e-12, MaxIter: 60000, Derivative: vjp.Implicit}
	at := func(step float64, of func(sol *vjp.Solution)) {
		z := slices.Clone(y)
		floats.AddScaled(z, step, along)
		sol := solved(t, newSolver(t, "admm", p, o), dev, z)
		defer sol.Release()
		of(sol)
	}
	const step = 1e-6
	var want, got []float64
	at(step, func(sol *vjp.Solution) { want = sol.MuHat.ToHost() })
	at(-step, func(sol *vjp.Solution) { floats.Sub(want, sol.MuHat.ToHost()) })
	floats.Scale(1/(2*step), want)
	at(0, func(sol *vjp.Solution) {
		b := dev.Put(along, 1, len(along))
		defer b.Free()
		if err := sol.Linearization.VJP(t.Context(), b, b); err != nil {
			t.Fatal(err)
		}
		if got = b.ToHost(); !staged(sol) || sol.Linearization.Bytes() <= 0 {
			t.Errorf("%v, %d bytes", sol.Choices, sol.Linearization.Bytes())
		}
	})
	if off := floats.Distance(got, want, 2) / floats.Norm(want, 2); !(off <= 1e-4) {
		t.Errorf("the derivative along a direction is off by %.2g of its length", off)
	}
}

// Rows of K on which r does not depend do not keep a solve from its certificate: every feasible multiplier is 0 there.
func TestUnpenalizedRowsBehindKAreCertified(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	p := twoPenalties(t, dev, stagesSide, "blur", true, 0.08, 0.2)
	parts, weights := linops.Above(p.K), make([]float64, stagesSide*stagesSide)
	for i := range weights {
		if i >= 16 { // the averages
			weights[i] = 0.2
		}
	}
	penalty, err := prox.NewWeightedL1(dev, 1, weights)
	if err != nil {
		t.Fatal(err)
	}
	defer prox.Release(penalty)
	_, p.R = solve.Terms(solve.Term{K: parts[0], R: prox.NewVectorialL2(stagesSide*stagesSide, 2, 1, 0.08)},
		solve.Term{K: parts[1], R: penalty})
	y := scene(dev, p.A, 0.1)
	var mu [2]*mat.VecDense
	bound := 0.0
	for i, tol := range []float64{1e-4, 1e-9} {
		sol := solved(t, newSolver(t, "admm", p, vjp.Options{Tol: tol, Derivative: vjp.None}), dev, y)
		if mu[i] = mat.NewVecDense(len(y), sol.MuHat.ToHost()); i == 0 {
			bound = sol.Error
		}
		sol.Release()
	}
	mu[0].SubVec(mu[0], mu[1])
	if off := mat.Norm(mu[0], 2); !(off <= bound) || !(bound <= 0.1) {
		t.Errorf("mu_hat is off by %.2g, the bound is %.2g", off, bound)
	}
}
