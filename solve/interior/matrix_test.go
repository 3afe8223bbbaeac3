package interior_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/internal/roomtest"
	"surepipe/solve/solvetest"
)

// Beside a matrix interior points have the solution of ADMM: with fewer rows than columns, with columns that nearly
// depend on each other, and with groups.
func TestInteriorPointsBesideAMatrix(t *testing.T) {
	dev := array.NewHost()
	rng := rand.New(rand.NewPCG(55, 12))
	difference := linops.Operator(imaging.NewDifference1D(750))
	fused, both := solve.Terms(solve.Term{K: linops.Identity(750), R: prox.NewL1(0.5)},
		solve.Term{K: difference, R: prox.NewL1(5)})
	grid := imaging.NewGradient([]int{18, 18}, nil, imaging.Reflecting)
	q, _ := grid.Dims()
	groups := make([][]int, q/2)
	for i := range groups {
		groups[i] = []int{i, i + q/2}
	}
	isotropic, err := prox.NewGroupL2(dev, q, 3, groups, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer prox.Release(isotropic)
	for _, c := range []struct {
		name   string
		d, p   int
		k      linops.Operator
		r      prox.Prox
		smooth bool
	}{
		{name: "fused", d: 120, p: 750, k: fused, r: both},
		{name: "smooth", d: 300, p: 750, k: fused, r: both, smooth: true},
		{name: "isotropic", d: 400, p: 324, k: grid, r: isotropic},
	} {
		x := mat.NewDense(c.d, c.p, solvetest.Gaussian(rng, c.d*c.p))
		if c.smooth {
			for i := range c.d {
				for j := 1; j < c.p; j++ {
					x.Set(i, j, 0.95*x.At(i, j-1)+0.3*x.At(i, j))
				}
			}
		}
		b := mat.NewVecDense(c.p, nil)
		for j := c.p / 4; j < c.p/3; j++ {
			b.SetVec(j, 1)
		}
		var y mat.VecDense
		y.MulVec(x, b)
		data := y.RawVector().Data
		floats.Add(data, solvetest.Gaussian(rng, c.d))
		p := solve.Problem{A: roomtest.Dense(t, dev, c.d, c.p, x.RawMatrix().Data), K: c.k, R: c.r, Device: dev}
		if name := solve.Default(p); name != "interior-point" {
			t.Errorf("the default is %s", name)
		}
		var mu [2][]float64
		for i, method := range []string{"interior-point", "admm"} {
			s := roomtest.NewSolver(t, method, p, solve.Options{Tol: 1e-9, MaxIter: 100000})
			sol := roomtest.At(t, s, roomtest.On(t, dev, data))
			if !sol.Converged || sol.Method != "" {
				t.Errorf("%s by %s: %+v", c.name, method, sol.Convergence)
			}
			mu[i] = sol.MuHat.ToHost()
		}
		roomtest.Near(t, fmt.Sprint("mu_hat of ", c.name), mu[0], mu[1], 1e-4)
	}
}
