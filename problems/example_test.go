package problems_test

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/vjp"
)

// The risk of a LASSO fit to data in memory: y = (4, -3, 1, 0.2) is observed directly (X = I), and
// sigma2 = 1. The two entries above lambda are kept and shrunk by lambda, and the others are set to
// zero: SURE = -4 + (4 + 4 + 1 + 0.04) + 2 * 2.
func Example() {
	dev := array.NewHost()
	data := problems.Data{
		X:      mat.NewDense(4, 4, []float64{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}),
		Y:      []float64{4, -3, 1, 0.2},
		YShape: []int{4},
	}
	p, err := problems.New("lasso", dev, data, problems.Hyper{Lambda: problems.Absolute(2)})
	if err != nil {
		panic(err)
	}
	defer p.Release()
	solver, err := vjp.NewSolver(context.Background(), p.DefaultSolver, p.Solve(), vjp.Options{Tol: 1e-10})
	if err != nil {
		panic(err)
	}
	defer solver.Release()
	pipe, err := pipeline.New(solver, pipeline.Options{Sigma2: 1})
	if err != nil {
		panic(err)
	}
	risk, err := pipe.Estimate(context.Background(), data.Y)
	if err != nil {
		panic(err)
	}
	fmt.Printf("SURE %.2f, divergence %.2f\n", risk.SURE, risk.Trace.Trace)
	// Output: SURE 9.04, divergence 2.00
}

// Your own problem: y is a smooth sequence with noise, and the LASSO chooses its cosine
// coefficients. The first one, the average, is not penalized.
func ExampleParseSpec() {
	spec, err := problems.ParseSpec([]byte(`
data: {y: [4, 5, 4, 5]}
operator: identity
synthesis: {adjoint: dct}
regularizer:
  l1: {weight: lambda, unpenalized: averages}
lambda: 1
`), "cosines.yaml")
	if err != nil {
		panic(err)
	}
	data, err := spec.Load(problems.SpecFiles{FS: problems.Disk})
	if err != nil {
		panic(err)
	}
	dev := array.NewHost()
	p, err := problems.New(spec.Name, dev, data, problems.Hyper{})
	if err != nil {
		panic(err)
	}
	defer p.Release()
	solver, err := vjp.NewSolver(context.Background(), p.DefaultSolver, p.Solve(), vjp.Options{})
	if err != nil {
		panic(err)
	}
	defer solver.Release()
	pipe, err := pipeline.New(solver, pipeline.Options{Sigma2: 0.25})
	if err != nil {
		panic(err)
	}
	risk, err := pipe.Estimate(context.Background(), data.Y)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s: mu_hat %.2f, divergence %.0f\n", p.Name, risk.MuHat, risk.Trace.Trace)
	// Output: cosines: mu_hat [4.50 4.50 4.50 4.50], divergence 1
}

// The table of named problems has what a program needs to read their data.
func ExampleLookup() {
	n, ok := problems.Lookup("matrix-completion")
	if !ok {
		panic("not registered")
	}
	fmt.Println("y has shape", n.YShape)
	fmt.Println("a design matrix:", n.Design, "- indices and shape:", n.Selection)
	// Output:
	// y has shape (d,)
	// a design matrix: false - indices and shape: true
}

// Weights of the observations are the weights of the problem's loss. The third observation is left
// out.
func ExampleProblem_Solve() {
	spec, err := problems.ParseSpec([]byte(`
data: {y: [3, 1, 7]}
operator: identity
regularizer: {l1: 0.5}
weights: [1, 2, 0]
`), "weighted.yaml")
	if err != nil {
		panic(err)
	}
	data, err := spec.Load(problems.SpecFiles{FS: problems.Disk})
	if err != nil {
		panic(err)
	}
	dev := array.NewHost()
	p, err := problems.New(spec.Name, dev, data, problems.Hyper{})
	if err != nil {
		panic(err)
	}
	defer p.Release()
	z, y := dev.Put([]float64{2, 2, 2}, 1, 3), dev.Put(data.Y, 1, 3)
	defer z.Free()
	defer y.Free()
	fmt.Println("loss", p.Solve().Loss.Value(z, y))
	// Output: loss 1.5
}
