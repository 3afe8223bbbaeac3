package krylov_test

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/krylov"
)

func ExampleNorm2() {
	dev := array.NewHost()
	sel, err := linops.NewSelection(dev, 6, []int{5, 0, 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sel.Release()
	est, err := krylov.Norm2(context.Background(), dev, linops.Scale(3, sel), krylov.NormOptions{})
	fmt.Println(est.Value, est.Error, est.Iterations, err)
	// Output: 9 0 0 <nil>
}

func ExampleNewNystrom() {
	dev := array.NewHost()
	defer dev.Close()
	const n = 400
	eigenvalues, ones := make([]float64, n), make([]float64, n)
	for i := range eigenvalues {
		eigenvalues[i], ones[i] = math.Exp(-float64(i)/4), 1
	}
	weights, rhs, x := dev.Alloc(1, n), dev.Alloc(1, n), dev.Alloc(1, n)
	dev.Upload(weights, eigenvalues)
	dev.Upload(rhs, ones)
	m := func(dst, x array.Batch) { dev.Mul(dst, x, weights) }
	const mu = 1e-6
	sketch, err := krylov.NewNystrom(context.Background(), dev, n, m, krylov.NystromOptions{Shift: mu, MaxRank: 100})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sketch.Release()
	precondition, free := sketch.Precondition(mu)
	defer free()
	shifted := func(dst, x array.Batch) {
		m(dst, x)
		dev.Lin(dst, 1, dst, mu, x)
	}
	plain, _ := krylov.CG(context.Background(), x, rhs, shifted, krylov.CGOptions{Tol: 1e-8})
	fast, _ := krylov.CG(context.Background(), x, rhs, shifted, krylov.CGOptions{Tol: 1e-8, Precondition: precondition})
	fmt.Println("rank:", sketch.Rank())
	fmt.Println("a tenth of the steps:", fast.Converged && 10*fast.Iterations < plain.Iterations)
	// Output:
	// rank: 64
	// a tenth of the steps: true
}
