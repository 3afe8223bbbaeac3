package cholesky

import "golang.org/x/sys/cpu"

var fast = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// scatter sets x_r = x_r - l v for the blocks l of a column and the rows r that they are in; x_r and v are b times
// `together` numbers.
func scatter(x []float64, index []int32, value, v []float64, b int) {
	lanes(x, index, value, v, b, scatterFMA, scatterFMA3, scatterEach)
}

// gather sets v = v - sum of l* x_r.
func gather(x []float64, index []int32, value, v []float64, b int) {
	lanes(x, index, value, v, b, gatherFMA, gatherFMA3, gatherEach)
}

// widen sets to = from.
func widen(to []float64, from []float32) {
	if !fast || len(from) < 4 {
		widenEach(to, from)
		return
	}
	widenFMA(&to[:len(from)][0], &from[0], len(from))
}

type (
	loop   func(x []float64, index []int32, value, v []float64, b int)
	kernel func(x *float64, index *int32, value *float64, count int, v *float64)
)

// lanes calls what serves blocks of size b.
func lanes(x []float64, index []int32, value, v []float64, b int, one, three kernel, each loop) {
	if len(index) == 0 {
		return
	}
	_, _ = value[len(index)*b*b-1], v[b*together-1]
	switch {
	case fast && b == 1:
		one(&x[0], &index[0], &value[0], len(index), &v[0])
	case fast && b == 3:
		three(&x[0], &index[0], &value[0], len(index), &v[0])
	default:
		each(x, index, value, v, b)
	}
}

//go:noescape
func scatterFMA(x *float64, index *int32, value *float64, count int, v *float64)

//go:noescape
func gatherFMA(x *float64, index *int32, value *float64, count int, v *float64)

//go:noescape
func scatterFMA3(x *float64, index *int32, value *float64, count int, v *float64)

//go:noescape
func gatherFMA3(x *float64, index *int32, value *float64, count int, v *float64)

// widenFMA takes at least four.
//
//go:noescape
func widenFMA(to *float64, from *float32, count int)

// takeProduct takes from four rows, times 0 or 1, the product of the first four columns of x and all its columns, which
// are as many as the rows have, a multiple of four: x has count rows, stride apart.
func takeProduct(rows *[4][]float64, x []float64, stride, count, times int) {
	n := len(rows[0])
	if !fast || n == 0 {
		takeEach(rows, x, stride, count, times)
		return
	}
	_, _, _, _ = rows[1][n-1], rows[2][n-1], rows[3][n-1], x[(count-1)*stride+n-1]
	takeFMA(rows, &x[0], stride, count, n, times)
}

// solveFour solves, for as many columns as four rows have, with the triangle that [factorizeFour] has found.
func solveFour(rows *[4][]float64, c *[10]float64) {
	n := len(rows[0])
	if !fast || n == 0 {
		solveEach(rows, c)
		return
	}
	_, _, _ = rows[1][n-1], rows[2][n-1], rows[3][n-1]
	solveFMA(rows, c, n)
}

//go:noescape
func takeFMA(rows *[4][]float64, x *float64, stride, count, columns, times int)

//go:noescape
func solveFMA(rows *[4][]float64, c *[10]float64, columns int)
