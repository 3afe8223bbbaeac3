package surepipe_test

import (
	"context"
	"testing"
	"fmt"
	"encoding/json"

	"surepipe"
)

func TestX(t *testing.T) {
	ctx := context.Background()
	e, err := surepipe.Open(ctx, surepipe.File("testdata/diabetes.npz"), surepipe.Options{Problem: surepipe.Lasso})
	if err != nil { t.Fatal(err) }
	defer e.Close()
	f, err := e.Fit(ctx)
	if err != nil { t.Fatal(err) }
	b, err := json.Marshal(f)
	fmt.Println(string(b), err)
	c, err := f.Coefficients(ctx)
	fmt.Println(c, err)
	p, err := e.Sweep(ctx, surepipe.Grid{Lambda: "0.01max:max:12"})
	if err != nil { t.Fatal(err) }
	fmt.Println(len(p.Points), *p.Summary.Chosen.Lambda)
	c, err = p.Fit.Coefficients(ctx)
	fmt.Println(c, err)
}
