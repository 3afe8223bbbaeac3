package hutch_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"surepipe/array"
	"surepipe/hutch"
)

// The trace of a smoother on a line of 400 points, a Gaussian kernel of width
// 20: its degrees of freedom, 400/(20 sqrt(pi)) = 11.284. Hutch++
// finds it with a quarter of the products that the exact trace takes.
func Example() {
	const d = 400
	kernel := make([]float64, 0, d*d)
	for i := range d {
		for j := range d {
			u := float64(i-j) / 20
			kernel = append(kernel, math.Exp(-u*u)/(20*math.Sqrt(math.Pi)))
		}
	}
	dev := array.NewHost()
	m := dev.Alloc(d, d)
	defer m.Free()
	dev.Upload(m, kernel)
	oracle := func(_ context.Context, dst, v array.Batch, _ []float64) error {
		dev.Gemm(false, false, 1, v, m, 0, dst)
		return nil
	}

	for _, name := range []string{hutch.HutchPP, hutch.Hutchinson, hutch.Exact} {
		plan, err := hutch.NewPlan(name, hutch.DefaultQueries, d)
		if err != nil {
			log.Fatal(err)
		}
		e, err := hutch.Trace(context.Background(), dev, plan, hutch.Exactly(oracle), hutch.Options{Seed: 1})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%-10s %.3f +- %.3f with %d queries\n", e.Estimator, e.Trace, e.StdErr, e.Queries)
	}
	// Output:
	// hutch++    11.284 +- 0.001 with 102 queries
	// hutchinson 11.392 +- 0.377 with 102 queries
	// exact      11.284 +- 0.000 with 400 queries
}

func ExampleNewPlan() {
	_, err := hutch.NewPlan("hutch++", 100, 2500)
	fmt.Println(err)
	plan, _ := hutch.NewPlan("hutch++", 102, 2500)
	fmt.Println(plan.Sketch, plan.Residual)
	plan, _ = hutch.NewPlan("hutch++", 102, 60)
	fmt.Println(plan.Estimator.Name())
	// Output:
	// queries 100: hutch++ takes a multiple of 3 (it has three phases of equal size), such as 99 or 102
	// 34 34
	// exact
}
