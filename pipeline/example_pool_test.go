package pipeline_test

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/prox"
	"surepipe/vjp"
)

// A pool spreads samples over devices: here two, in one program.
func ExamplePool() {
	var members []*pipeline.Pipeline
	for range 2 {
		dev := array.NewHost() // or array.Open("cuda:1", 0)
		a := linops.NewDense(dev, mat.NewDense(3, 2, []float64{1, 0, 0, 1, 1, 1}))
		defer a.Release()
		s, err := vjp.NewSolver(context.Background(), "fista", vjp.Problem{A: a, R: prox.NewL1(0.5), Device: dev},
			vjp.Options{})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer s.Release()
		p, err := pipeline.New(s, pipeline.Options{Sigma2: 1})
		if err != nil {
			fmt.Println(err)
			return
		}
		members = append(members, p)
	}
	lost := func(device string, fault error) { fmt.Println(device, "has failed:", fault) }
	pool, err := pipeline.NewPool(lost, members...)
	if err != nil {
		fmt.Println(err)
		return
	}
	ys := func(yield func([]float64, error) bool) {
		_ = yield([]float64{3, 1, 4}, nil) && yield([]float64{2, 0, 2}, nil)
	}
	for risk, err := range pool.Stream(context.Background(), ys) {
		fmt.Printf("%d: %.3f %v\n", risk.Index, risk.SURE, err)
	}
	// Output:
	// 0: 1.167 <nil>
	// 1: -0.875 <nil>
}
