package prox_test

import (
	"fmt"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/prox/lowrank"
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
// A noisy step of height 4: the jump remains, reduced by 2 lambda/4, and the noise is removed. The
// divergence of the map is the number of constant pieces.
// SLOPE: large entries are penalized more, and magnitudes that are close to each other become
// equal.
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
// The constrained form of the LASSO.
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
		lowrank.NewNuclear(shape, 4),
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
