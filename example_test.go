package surepipe_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"surepipe"
)

const prices = `price,area,rooms,town
310,72,3,Ely
250,55,2,Ely
420,110,4,Ware
180,48,1,Ware
365,96,3,Ely
295,70,3,Ware
510,140,5,Ely
205,51,2,Ware
330,84,3,Ely
275,66,2,Ely
460,118,4,Ware
240,60,2,Ware
`

// From a table to coefficients and predictions.
func Example() {
	ctx := context.Background()
	table, err := surepipe.Read(ctx, "prices.csv", strings.NewReader(prices))
	if err != nil {
		panic(err)
	}
	e, err := surepipe.Open(ctx, table, surepipe.Options{
		Problem: surepipe.Lasso, Table: surepipe.Table{Response: "price"},
	})
	if err != nil {
		panic(err)
	}
	defer e.Close()
	path, err := e.Sweep(ctx, surepipe.Grid{Lambda: "0.01max:max:20"})
	if err != nil {
		panic(err)
	}
	best := path.Summary.Chosen
	fmt.Printf("%s: %.0f ± %.0f\n", path.Summary.Criterion, *best.GCV, *best.GCVStdErr)
	c, err := path.Fit.Coefficients(ctx)
	if err != nil {
		panic(err)
	}
	for _, c := range c.Coefficients {
		fmt.Printf("%-12s %7.2f\n", c.Name, c.Estimate)
	}
	var saved bytes.Buffer
	if _, err := path.Fit.WriteTo(&saved); err != nil { // as surepipe sweep --out fit.npz
		panic(err)
	}
	fit, err := surepipe.ReadFit(&saved)
	if err != nil {
		panic(err)
	}
	rows, err := surepipe.Read(ctx, "new.csv", strings.NewReader("area,rooms,town\n100,4,Ely\n50,1,Ware\n"))
	if err != nil {
		panic(err)
	}
	p, err := fit.Predict(ctx, rows)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.0f\n", p.Predictions)
	// Output:
	// gcv: 266 ± 240
	// (intercept)    56.91
	// area            2.48
	// rooms          21.98
	// town=Ware       0.00
	// [393 203]
}
