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
