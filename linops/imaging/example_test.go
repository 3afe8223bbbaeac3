package imaging_test

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/imaging"
)

func ExampleNewDifference2D() {
	dev := array.NewHost()
	d := imaging.NewDifference2D(2, 3)
	image, differences := dev.Alloc(1, 6), dev.Alloc(1, 7)
	defer image.Free()
	defer differences.Free()
	dev.Upload(image, []float64{
		1, 2, 4,
		5, 5, 5,
	})
	d.Forward(differences, image)
	norm2 := linops.StructureOf(d).Norm2.Value
	fmt.Println("down", differences.ToHost()[:3], "along", differences.ToHost()[3:])
	fmt.Printf("||D||^2 = %.4f\n", norm2)
	// Output:
	// down [4 3 1] along [1 2 0 0]
	// ||D||^2 = 5.0000
}

func ExampleNewConvolution1D() {
	dev := array.NewHost()
	blur, err := imaging.NewConvolution1D(6, []float64{1, 2, 3}, imaging.Circular)
	if err != nil {
		fmt.Println(err)
		return
	}
	b, z := dev.Alloc(1, 6), dev.Alloc(1, 6)
	defer b.Free()
	defer z.Free()
	dev.Upload(b, []float64{1, 0, 0, 0, 0, 0})
	blur.Forward(z, b)
	norm2 := linops.StructureOf(blur).Norm2.Value
	fmt.Println(z.ToHost())
	fmt.Printf("||A||^2 = %.4f\n", norm2)
	// Output:
	// [2 3 0 0 0 1]
	// ||A||^2 = 36.0000
}

func ExampleNewConvolution2D() {
	dev := array.NewHost()
	kernel := mat.NewDense(3, 3, []float64{0, 1, 0, 1, 4, 1, 0, 1, 0})
	blur, err := imaging.NewConvolution2D(3, 4, kernel, imaging.ZeroPadded)
	if err != nil {
		fmt.Println(err)
		return
	}
	b, z := dev.Alloc(1, 12), dev.Alloc(1, 12)
	defer b.Free()
	defer z.Free()
	dev.Upload(b, []float64{
		1, 0, 0, 0,
		0, 0, 0, 0,
		0, 0, 2, 0,
	})
	blur.Forward(z, b)
	for r := range 3 {
		fmt.Println(z.ToHost()[4*r : 4*r+4])
	}
	// Output:
	// [4 1 0 0]
	// [1 0 2 0]
	// [0 2 8 2]
}

func ExampleNewDCT() {
	dev := array.NewHost()
	synthesis := linops.Adjoint(imaging.NewDCT(4))
	c, x := dev.Alloc(1, 4), dev.Alloc(1, 4)
	defer c.Free()
	defer x.Free()
	dev.Upload(c, []float64{2, 1, 0, 0})
	synthesis.Forward(x, c)
	fmt.Printf("%.4f\n", x.ToHost())
	// Output: [1.6533 1.2706 0.7294 0.3467]
}

func ExampleNewWavelet2D() {
	dev := array.NewHost()
	w, err := imaging.NewWavelet2D(4, 4, "haar", 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	b, z := dev.Alloc(1, 16), dev.Alloc(1, 16)
	defer b.Free()
	defer z.Free()
	dev.Upload(b, []float64{
		1, 1, -1, -1,
		1, 1, -1, -1,
		-1, -1, 1, 1,
		-1, -1, 1, 1,
	})
	w.Forward(z, b)
	for r := range 4 {
		fmt.Printf("%.0f\n", z.ToHost()[4*r:4*r+4])
	}
	// Output:
	// [0 0 0 0]
	// [0 4 0 0]
	// [0 0 0 0]
	// [0 0 0 0]
}

func ExampleUndecimated_Filter() {
	w, err := imaging.NewUndecimated1D(7, "haar", 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	x := []float64{1, 1, 1, 5, 5, 5, 5}
	kept := 0
	w.Filter(x, x, func(band, _ int, z []float64) {
		if _, averages := w.Level(band); averages {
			return
		}
		for i, v := range z {
			if math.Abs(v) < 0.5 {
				z[i] = 0
			} else {
				kept++
			}
		}
	})
	fmt.Println("details that are kept:", kept)
	fmt.Printf("%.3f\n", x)
	// Output:
	// details that are kept: 2
	// [1.000 1.000 1.000 5.000 5.000 5.000 5.000]
}

func ExampleNewParallelBeam() {
	dev := array.NewHost()
	a, err := imaging.NewParallelBeam(2, 3, []float64{0, 90}, 3, 1, imaging.Axis{})
	if err != nil {
		fmt.Println(err)
		return
	}
	b, y := dev.Alloc(1, 6), dev.Alloc(1, 6)
	defer b.Free()
	defer y.Free()
	dev.Upload(b, []float64{
		1, 2, 3,
		10, 20, 30,
	})
	a.Forward(y, b)
	fmt.Println(y.ToHost())
	// Output: [11 22 33 30 33 3]
}
