package active

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/loss"
)

// Factors of blocks have R*R = l^(2) + the diagonal, and their methods are those of that matrix.
func TestBlockRootsAreThoseOfTheSecondDerivative(t *testing.T) {
	const n, k, columns = 70, 3, 2
	dev := array.NewHost()
	r := rand.New(rand.NewPCG(4, 2))
	draw := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = r.NormFloat64()
		}
		return v
	}
	l, err := loss.NewMultinomial(loss.Observed{Classes: k})
	if err != nil {
		t.Fatal(err)
	}
	y, more := make([]float64, n*k), make([]float64, n*k)
	for i := range n {
		y[i*k+r.IntN(k)] = 1
	}
	for i := range more {
		more[i] = r.Float64()
	}
	z := dev.Put(draw(n*k), 1, n*k)
	on := dev.Put(y, 1, n*k)
	curve := dev.Alloc(1, n*k)
	l.Curvature(curve, z, on)
	a := linops.NewDense(dev, mat.NewDense(n*k, columns, draw(n*k*columns)))
	roots := blocksOf(l, a, z, on, curve.ToHost(), more)
	if roots == nil {
		t.Fatal("no factors")
	}
	v := draw(n * k)
	rv, back, want := make([]float64, n*k), make([]float64, n*k), dev.Put(append([]float64(nil), v...), 1, n*k)
	roots.Forward(rv, v)
	roots.Adjoint(back, rv)
	l.Product(want, want, z, on)
	for i, h := range want.ToHost() {
		// What makes blocks invertible is a millionth.
		if c := h + more[i]*v[i]; back[i]-c > 1e-5 || c-back[i] > 1e-5 {
			t.Errorf("R*R v at %d is %g, expected %g", i, back[i], c)
		}
	}
	same := func(what string, got, want []float64) {
		t.Helper()
		if !floats.EqualApprox(got, want, 1e-10) {
			t.Errorf("%s is %v, expected %v", what, got[:k], want[:k])
		}
	}
	roots.Inverse(back, rv)
	same("R^-1 R v", back, v)
	roots.Adjoint(back, v)
	roots.InverseAdjoint(back, back)
	same("R*^-1 R* v", back, v)
	square, square2 := roots.square(), make([]float64, n*k*k)
	for i := range n * k {
		square2[i*k+i%k] = 1
	}
	roots.Columns(square2, k)
	for from := 0; from < len(square2); from += k * k {
		block := mat.NewDense(k, k, square2[from:from+k*k])
		block.Mul(block.T(), mat.DenseCopyOf(block))
	}
	same("R*R", square, square2)
	x := mat.DenseCopyOf(linops.ToDense(dev, a))
	first := mat.Col(nil, 1, x)
	roots.Forward(first, first)
	roots.Columns(x.RawMatrix().Data, columns)
	same("a column", mat.Col(nil, 1, x), first)
}
