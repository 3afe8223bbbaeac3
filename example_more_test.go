package surepipe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math"
	"testing/fstest"

	"surepipe"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
)

// check ends an example.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A noisy photograph, denoised by the total variation of least estimated risk.
func ExampleFit_WriteImage() {
	ctx := context.Background()
	square := image.NewGray(image.Rect(0, 0, 24, 24))
	for i := range square.Pix {
		square.Pix[i] = uint8(80 + 20*math.Sin(float64(i*i)))
		if at := i % 24; at > 6 && at < 18 && i > 6*24 && i < 18*24 {
			square.Pix[i] += 90
		}
	}
	var file bytes.Buffer
	check(png.Encode(&file, square))
	photo, err := surepipe.Read(ctx, "noisy.png", &file)
	check(err)
	e, err := surepipe.Open(ctx, photo, surepipe.Options{Problem: surepipe.TV2D, Sigma2: 0.003})
	check(err)
	defer e.Close()
	path, err := e.Sweep(ctx, surepipe.Grid{Lambda: "0.02:0.5:4", Refine: new(0)})
	check(err)
	var clean bytes.Buffer
	_, err = path.Fit.WriteImage(&clean, "clean.png")
	check(err)
	fmt.Printf("%s: weight %.2f, a PNG: %t\n", path.Summary.Criterion, *path.Summary.Chosen.Lambda,
		bytes.HasPrefix(clean.Bytes(), []byte("\x89PNG")))
	// Output: sure: weight 0.06, a PNG: true
}

// A completion that says how far it is, and that its caller cancels.
func ExampleEstimator_Fit() {
	ctx, cancel := context.WithCancelCause(context.Background())
	steps := make(chan struct{}, 1)
	o := surepipe.Options{Problem: surepipe.Completion, Lambda: "0.05max"}
	o.Progress = func(surepipe.Progress) { // it must not wait
		select {
		case steps <- struct{}{}:
		default:
		}
	}
	e, err := surepipe.Open(ctx, surepipe.File("testdata/mc60x40.npz"), o)
	check(err)
	defer e.Close()
	go func() {
		<-steps
		cancel(errors.New("the user has gone"))
	}()
	for err == nil {
		_, err = e.Fit(ctx)
	}
	fmt.Println(err)
	// Output: context canceled: the user has gone
}

// A stream takes samples as its results are taken.
func ExampleEstimator_Stream() {
	ctx := context.Background()
	shape, err := surepipe.Arrays{Y: make([]float64, 6)}.Data()
	check(err)
	e, err := surepipe.Open(ctx, shape, surepipe.Options{Problem: surepipe.TV1D, Lambda: "0.5", Sigma2: 0.1})
	check(err)
	defer e.Close()
	source := func(yield func([]float64, error) bool) {
		for i := 0; yield([]float64{0, 0.1, -0.1, 2, 2.1, 1.9 + float64(i)}, nil); i++ {
		}
	}
	for result, err := range e.Stream(ctx, source) {
		check(err)
		fmt.Printf("sample %d: SURE %.2f, df %g\n", *result.Sample, *result.SURE, result.Divergence)
		if *result.Sample == 1 {
			break // the source ends too
		}
	}
	// Output:
	// sample 0: SURE 0.01, df 2
	// sample 1: SURE 0.55, df 4
}

// A sweep in two parts, of which one was interrupted, as on two machines.
func ExampleEstimator_Merge() {
	ctx := context.Background()
	e, err := surepipe.Open(ctx, surepipe.File("testdata/diabetes.npz"), surepipe.Options{Problem: surepipe.Lasso})
	check(err)
	defer e.Close()
	grid := surepipe.Grid{Lambda: "0.01max:max:8", Chain: 2}
	kept := fstest.MapFS{} // any fs.FS
	for i := range 2 {
		var lines bytes.Buffer
		part := grid
		part.Shard, part.Lines = surepipe.Shard{Index: i, Count: 2}, &lines
		_, err := e.Sweep(ctx, part)
		check(err)
		half := lines.Bytes()[:lines.Len()/2] // what is left of it after an interruption
		var all bytes.Buffer
		part.Known, part.Lines = bytes.NewReader(half), &all
		_, err = e.Sweep(ctx, part)
		check(err)
		kept[fmt.Sprint("part", i)] = &fstest.MapFile{Data: all.Bytes()}
	}
	parts, err := surepipe.ReadShards(ctx, false, kept, "part0", "part1")
	check(err)
	path, err := e.Merge(ctx, grid, parts)
	check(err)
	fmt.Printf("%d points, minimum at %.1f\n", len(path.Points), *path.Summary.Minimizer.Lambda)
	// Output: 18 points, minimum at 5.5
}

// An operator (a running mean), a regularizer (the LASSO's) and a loss (a smooth absolute value) of one's own.
func ExampleOwn() {
	ctx := context.Background()
	const d = 12
	mean := func(dst, b []float64) {
		for i := range dst {
			dst[i] = (b[i] + b[(i+1)%d]) / 2
		}
	}
	adjoint := func(dst, z []float64) {
		for i := range dst {
			dst[i] = (z[i] + z[(i+d-1)%d]) / 2
		}
	}
	smooth, err := loss.Scalar("smooth", func(z, y float64) float64 { return math.Sqrt(1 + (z-y)*(z-y)) },
		func(z, y float64) (slope, curvature float64) {
			root := math.Sqrt(1 + (z-y)*(z-y))
			return (z - y) / root, 1 / (root * root * root)
		}, nil)
	check(err)
	data, err := surepipe.Arrays{Y: []float64{0, 3, 3, 0, 0, 9, 0, -2, -2, 0, 0, 0}}.Data()
	check(err)
	e, err := surepipe.Open(ctx, data, surepipe.Options{Own: &surepipe.Own{
		Operator:    linops.NewFunc(d, d, mean, adjoint),
		Regularizer: func(lambda, _, _ float64) (prox.Prox, error) { return prox.NewL1(lambda), nil }, Loss: smooth}})
	check(err)
	defer e.Close()
	path, err := e.Sweep(ctx, surepipe.Grid{Lambda: "0.05:1:6"})
	check(err)
	fmt.Printf("%s chooses %.2f\n", path.Summary.Criterion, *path.Summary.Chosen.Lambda)
	// Output: cv chooses 1.00
}

// A function of y alone.
func ExampleBlackBox() {
	ctx := context.Background()
	half := &surepipe.BlackBox{Eval: func(_ context.Context, _ map[string]float64, y []float64) ([]float64, error) {
		mu := make([]float64, len(y))
		for i, v := range y {
			mu[i] = v / 2
		}
		return mu, nil
	}}
	data, err := surepipe.Arrays{Y: []float64{1, -2, 3, 0}}.Data()
	check(err)
	o := surepipe.Options{BlackBox: half, Sigma2: 1}
	o.Trace = "exact"
	e, err := surepipe.Open(ctx, data, o)
	check(err)
	defer e.Close()
	fit, err := e.Fit(ctx)
	check(err)
	fmt.Printf("divergence %.3f, SURE %.3f\n", fit.Divergence, *fit.SURE) // -4 + 14/4 + 2 * 4/2
	// Output: divergence 2.000, SURE 3.500
}
