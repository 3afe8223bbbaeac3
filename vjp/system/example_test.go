package system_test

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/space"
	"surepipe/vjp/system"
)

// Ridge regression with the weight 1: K = A*A + I is factored, and all of D mu_hat is known.
func Example() {
	dev := array.NewHost()
	a := linops.NewDense(dev, mat.NewDense(3, 2, []float64{1, 0, 0, 1, 1, 1}))
	defer a.Release()
	all := space.All(2)
	m, _ := linops.On(dev, a, all)
	s, fit, err := system.Factor(context.Background(), dev, system.Equations{
		M: m, Space: all, Q: []float64{1, 0, 0, 1}, Norm: math.Sqrt(3),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Release()
	known := s.Closed()
	diagonal, err := known.Diagonal()
	fmt.Printf("factored%s: trace %.3f, diagonal %.3f %v\n", fit.By, known.Trace, diagonal, err)
	// Output:
	// factored by Cholesky's method: trace 1.250, diagonal [0.375 0.375 0.500] <nil>
}
