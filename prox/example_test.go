package prox_test

import (
	"fmt"

	"surepipe/array"
	"surepipe/prox"
)

// The soft threshold and its derivative, applied to two directions at once.
func ExampleNewL1() {
	dev := array.NewHost()
	v, z := dev.Alloc(1, 4), dev.Alloc(2, 4)
	dev.Upload(v, []float64{3, -0.5, -2, 1})
	dev.Upload(z, []float64{1, 1, 1, 1, 1, 2, 3, 4})

	j, err := prox.NewL1(1).Linearize(v, v, 1)
	if err != nil {
		panic(err)
	}
	defer j.Release()
	j.Apply(z, z)
	fmt.Println(v.ToHost())
	fmt.Println(z.ToHost())
	// Output:
	// [2 0 -1 0]
	// [1 0 1 0 1 0 3 0]
}

// The singular value threshold of a 2 x 3 matrix with singular values 5 and 1:
// what remains has rank 1.
func ExampleNewNuclear() {
	dev := array.NewHost()
	v := dev.Alloc(1, 6)
	dev.Upload(v, []float64{
		0, 5, 0,
		0, 0, 1,
	})
	p := prox.NewNuclear(array.Shape{Rows: 2, Cols: 3}, 2)
	if err := p.Eval(v, v, 1); err != nil {
		panic(err)
	}
	fmt.Printf("%.1f\n", v.ToHost())
	fmt.Printf("%.1f\n", prox.StructureOf(p).Value(v))
	// Output:
	// [0.0 3.0 0.0 0.0 0.0 0.0]
	// 6.0
}

// A noisy step of height 4: the jump remains, reduced by 2 lambda/4, and the noise is removed. The
// divergence of the map is the number of constant pieces.
func ExampleNewTV1D() {
	dev := array.NewHost()
	v := dev.Alloc(1, 8)
	dev.Upload(v, []float64{0.5, -0.5, 0.25, -0.25, 4.25, 3.75, 4.5, 3.5})
	j, err := prox.NewTV1D(8, 1).Linearize(v, v, 1)
	if err != nil {
		panic(err)
	}
	defer j.Release()
	fmt.Println(v.ToHost())

	units := dev.Alloc(8, 8)
	dev.Fill(units, 0)
	for i := range 8 {
		dev.Fill(units.Rows(i, i+1).Cols(i, i+1), 1)
	}
	j.Apply(units, units)
	divergence := 0.0
	for i, x := range units.ToHost() {
		if i%9 == 0 {
			divergence += x
		}
	}
	fmt.Println(divergence)
	// Output:
	// [0.25 0.25 0.25 0.25 3.75 3.75 3.75 3.75]
	// 2
}

// SLOPE: large entries are penalized more, and magnitudes that are close to each other become
// equal.
func ExampleNewSortedL1() {
	p, err := prox.NewSortedL1([]float64{3, 2, 1, 1})
	if err != nil {
		panic(err)
	}
	dev := array.NewHost()
	v := dev.Alloc(1, 4)
	dev.Upload(v, []float64{-5, 0.5, 5.5, 3})
	if err := p.Eval(v, v, 1); err != nil {
		panic(err)
	}
	fmt.Println(v.ToHost())
	fmt.Println(prox.StructureOf(p).Value(v))
	// Output:
	// [-2.75 0 2.75 2]
	// 15.75
}

// The largest entries of a group are cut to one level; a small group vanishes.
func ExampleNewGroupLinf() {
	dev := array.NewHost()
	p, err := prox.NewGroupLinf(dev, 5, 2, [][]int{{0, 1, 2}, {3, 4}}, nil)
	if err != nil {
		panic(err)
	}
	defer prox.Release(p)
	v := dev.Alloc(1, 5)
	dev.Upload(v, []float64{4, -3, 1, 0.5, -1})
	if err := p.Eval(v, v, 1); err != nil {
		panic(err)
	}
	fmt.Println(v.ToHost())
	// Output: [2.5 -2.5 1 0 0]
}

// The nearest probability vector, and a direction projected on its face.
func ExampleNewSimplex() {
	dev := array.NewHost()
	v, z := dev.Alloc(1, 4), dev.Alloc(1, 4)
	dev.Upload(v, []float64{0.75, 0.5, 0.5, -1})
	dev.Upload(z, []float64{3, 0, 0, 7})
	j, err := prox.NewSimplex(4, 1).Linearize(v, v, 1)
	if err != nil {
		panic(err)
	}
	defer j.Release()
	j.Apply(z, z)
	fmt.Printf("%.2f\n", v.ToHost())
	fmt.Printf("%.0f\n", z.ToHost())
	// Output:
	// [0.50 0.25 0.25 0.00]
	// [2 -1 -1 0]
}

// The constrained form of the LASSO.
func ExampleNewL1Ball() {
	dev := array.NewHost()
	v := dev.Alloc(2, 3)
	dev.Upload(v, []float64{3, -2, 0.5, 0.5, 0.5, -0.5})
	if err := prox.NewL1Ball(3, 2).Eval(v, v, 1); err != nil {
		panic(err)
	}
	fmt.Println(v.ToHost())
	// Output: [1.5 -0.5 0 0.5 0.5 -0.5]
}

// A bound on the size of every entry.
func ExampleNewLinfBall() {
	dev := array.NewHost()
	v := dev.Alloc(1, 3)
	dev.Upload(v, []float64{3, -2, 0.5})
	if err := prox.NewLinfBall(3, 1).Eval(v, v, 1); err != nil {
		panic(err)
	}
	fmt.Println(v.ToHost())
	// Output: [1 -1 0.5]
}

// Robust PCA's regularizer: a low-rank matrix and a sparse one.
func ExampleNewSeparable() {
	shape := array.Shape{Rows: 20, Cols: 30}
	p := prox.NewSeparable(
		prox.NewNuclear(shape, 4),
		prox.Block{Prox: prox.NewL1(0.5), N: shape.Len()},
	)
	fmt.Println(p.Dim())
	// Output: 1200
}

// A user's own regularizer: the constraint that the entries sum to zero, whose proximal operator
// subtracts the mean.
func ExampleNewFunc() {
	center := func(dst, v []float64) {
		mean := 0.0
		for _, x := range v {
			mean += x / float64(len(v))
		}
		for i, x := range v {
			dst[i] = x - mean
		}
	}
	p := prox.NewFunc(0,
		func(dst, v []float64, t float64) error { center(dst, v); return nil },
		func(dst, v, z []float64, t float64) { center(dst, z) },
		nil)

	dev := array.NewHost()
	v := dev.Alloc(1, 4)
	dev.Upload(v, []float64{1, 2, 3, 6})
	if err := p.Eval(v, v, 1); err != nil {
		panic(err)
	}
	fmt.Println(v.ToHost())
	// Output: [-2 -1 0 3]
}
