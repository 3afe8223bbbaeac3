package linops_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/space"
)

// Robust PCA observes the sum of a low-rank and a sparse matrix: [I I].
func ExampleHStack() {
	dev := array.NewHost()
	a := linops.HStack(linops.Identity(2), linops.Identity(2))
	b, y := dev.Alloc(1, 4), dev.Alloc(1, 2)
	defer b.Free()
	defer y.Free()
	dev.Upload(b, []float64{1, 2, 10, 20})
	a.Forward(y, b)
	fmt.Println(y.ToHost(), "A A* = c I:", linops.StructureOf(a).Rows)
	// Output: [11 22] A A* = c I: {2 true}
}

func ExampleNormal() {
	dev := array.NewHost()
	// A running difference, without a Structure.
	a := linops.NewFunc(2, 3, func(dst, b []float64) {
		dst[0], dst[1] = b[1]-b[0], b[2]-b[1]
	}, func(dst, z []float64) {
		dst[0], dst[1], dst[2] = -z[0], z[0]-z[1], z[1]
	})
	n := linops.NewNormal(dev, a)
	defer n.Release()
	x := dev.Alloc(1, 3)
	defer x.Free()
	dev.Upload(x, []float64{4, 0, 0})
	if err := n.Solve(context.Background(), x, x, 1); err != nil {
		fmt.Println(err)
	}
	fmt.Printf("%.3f\n", x.ToHost())
	// Output: [2.500 1.000 0.500]
}

func ExampleNorm2() {
	dev := array.NewHost()
	sel, err := linops.NewSelection(dev, 6, []int{5, 0, 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sel.Release()
	est, err := linops.Norm2(context.Background(), dev, linops.Scale(3, sel), linops.NormOptions{})
	fmt.Println(est.Value, est.Error, est.Iterations, err)
	// Output: 9 0 0 <nil>
}

// Total variation penalizes the differences of an image.
func ExampleNewDifference2D() {
	dev := array.NewHost()
	d := linops.NewDifference2D(2, 3)
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

// A blur, and the image of a point.
func ExampleNewConvolution1D() {
	dev := array.NewHost()
	blur, err := linops.NewConvolution1D(6, []float64{1, 2, 3}, linops.Circular)
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

// Blurring with a matrix as the kernel; the image is black outside.
func ExampleNewConvolution2D() {
	dev := array.NewHost()
	kernel := mat.NewDense(3, 3, []float64{0, 1, 0, 1, 4, 1, 0, 1, 0})
	blur, err := linops.NewConvolution2D(3, 4, kernel, linops.ZeroPadded)
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

// The signal with a few given cosine coefficients.
func ExampleNewDCT() {
	dev := array.NewHost()
	synthesis := linops.Adjoint(linops.NewDCT(4))
	c, x := dev.Alloc(1, 4), dev.Alloc(1, 4)
	defer c.Free()
	defer x.Free()
	dev.Upload(c, []float64{2, 1, 0, 0})
	synthesis.Forward(x, c)
	fmt.Printf("%.4f\n", x.ToHost())
	// Output: [1.6533 1.2706 0.7294 0.3467]
}

// The noise in a signal is estimated from its finest details.
func ExampleWavelet_Finest() {
	dev := array.NewHost()
	const n, sigma = 4096, 0.5
	w, err := linops.NewWavelet1D(n, "sym4", 5)
	if err != nil {
		fmt.Println(err)
		return
	}
	rng := rand.New(rand.NewPCG(1, 2))
	y := make([]float64, n)
	for i := range y {
		y[i] = 10*math.Sin(float64(i)/200) + sigma*rng.NormFloat64()
	}
	b, z := dev.Alloc(1, n), dev.Alloc(1, n)
	defer b.Free()
	defer z.Free()
	dev.Upload(b, y)
	w.Forward(z, b)
	coefficients := z.ToHost()
	var details []float64
	for _, i := range w.Finest() {
		details = append(details, math.Abs(coefficients[i]))
	}
	slices.Sort(details)
	fmt.Printf("sigma is about %.1f\n", details[len(details)/2]/0.6745)
	// Output: sigma is about 0.5
}

// A 4 x 4 checkerboard patch is one Haar coefficient.
func ExampleNewWavelet2D() {
	dev := array.NewHost()
	w, err := linops.NewWavelet2D(4, 4, "haar", 2)
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

// Entries in any order; the two at (0, 1) add up.
func ExampleNewCSRFromCoords() {
	dev := array.NewHost()
	a, err := linops.NewCSRFromCoords(dev, 2, 3,
		[]int{1, 0, 0}, []int{0, 1, 1}, []float64{5, 2, 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer a.Release()
	fmt.Println(mat.Formatted(a.Dense()))
	// Output:
	// ⎡0  5  0⎤
	// ⎣5  0  0⎦
}

// timed is an operator that a user has wrapped to measure it.
type timed struct {
	linops.Operator
	structure linops.Structure
	calls     *int
}

func newTimed(a linops.Operator) timed {
	s := linops.StructureOf(a)
	// The products are those of A, and so is its structure, but these functions would compute
	// products that are not counted.
	s.AddForward, s.AddAdjoint, s.Normal = nil, nil, nil
	return timed{a, s, new(int)}
}

func (t timed) Forward(dst, b array.Batch) {
	*t.calls++
	t.Operator.Forward(dst, b)
}

// Structure passes on the structure of the wrapped operator.
func (t timed) Structure() linops.Structure { return t.structure }

// A wrapper that passes on the structure of an operator loses none of it, even within combinations.
func ExampleStructureOf() {
	dev := array.NewHost()
	defer dev.Close()
	x := linops.NewDense(dev, mat.NewDense(2, 3, []float64{1, 2, 3, 4, 5, 6}))
	defer x.Release()
	a := linops.Scale(2, newTimed(x))
	s := linops.StructureOf(a)
	fmt.Println("columns:", s.ColumnNorms2())
	fmt.Println("closed form:", s.SolveNormal != nil)
	fmt.Println("||A||^2 known:", s.Norm2.Known)
	// Output:
	// columns: [68 116 180]
	// closed form: true
	// ||A||^2 known: false
}

// The columns of a matrix on the support of a solution.
func ExampleOn() {
	dev := array.NewHost()
	defer dev.Close()
	x := linops.NewDense(dev, mat.NewDense(2, 4, []float64{1, 2, 3, 4, 5, 6, 7, 8}))
	defer x.Release()
	support := space.Coordinates(dev, 4, []int{1, 3})
	defer support.Release()
	columns, native := linops.On(dev, x, support)
	defer columns.Release()
	fmt.Println(mat.Formatted(linops.ToDense(dev, columns)), native)
	// Output:
	// ⎡2  4⎤
	// ⎣6  8⎦ true
}

// Undecimated wavelet coefficients of a step, at any length: only those near the step are large, and
// thresholding the others away leaves it as it is.
func ExampleUndecimated_Filter() {
	w, err := linops.NewUndecimated1D(7, "haar", 1)
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

// The sums of an image's columns and of its rows are its projections at 0 and 90 degrees.
func ExampleNewParallelBeam() {
	dev := array.NewHost()
	a, err := linops.NewParallelBeam(2, 3, []float64{0, 90}, 3, 1, linops.Axis{})
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

// Conjugate gradients on an ill-conditioned system, plain and preconditioned by a sketch of the matrix,
// which serves every shift.
func ExampleNewNystrom() {
	dev := array.NewHost()
	defer dev.Close()
	const n = 400
	eigenvalues, ones := make([]float64, n), make([]float64, n)
	for i := range eigenvalues {
		eigenvalues[i], ones[i] = math.Exp(-float64(i)/4), 1
	}
	weights, rhs, x := dev.Alloc(1, n), dev.Alloc(1, n), dev.Alloc(1, n)
	dev.Upload(weights, eigenvalues)
	dev.Upload(rhs, ones)
	m := func(dst, x array.Batch) { dev.Mul(dst, x, weights) }
	const mu = 1e-6
	sketch, err := linops.NewNystrom(context.Background(), dev, n, m, linops.NystromOptions{Shift: mu, MaxRank: 100})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sketch.Release()
	precondition, free := sketch.Precondition(mu)
	defer free()
	shifted := func(dst, x array.Batch) {
		m(dst, x)
		dev.Lin(dst, 1, dst, mu, x)
	}
	plain, _ := linops.CG(context.Background(), x, rhs, shifted, linops.CGOptions{Tol: 1e-8})
	fast, _ := linops.CG(context.Background(), x, rhs, shifted, linops.CGOptions{Tol: 1e-8, Precondition: precondition})
	fmt.Println("rank:", sketch.Rank())
	fmt.Println("a tenth of the steps:", fast.Converged && 10*fast.Iterations < plain.Iterations)
	// Output:
	// rank: 64
	// a tenth of the steps: true
}
