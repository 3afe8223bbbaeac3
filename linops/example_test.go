package linops_test

import (
	"fmt"

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

// Total variation penalizes the differences of an image.
// A blur, and the image of a point.
// Blurring with a matrix as the kernel; the image is black outside.
// The signal with a few given cosine coefficients.
// The noise in a signal is estimated from its finest details.
// A 4 x 4 checkerboard patch is one Haar coefficient.
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
// The sums of an image's columns and of its rows are its projections at 0 and 90 degrees.
// Conjugate gradients on an ill-conditioned system, plain and preconditioned by a sketch of the matrix,
// which serves every shift.
