package cholesky

import "golang.org/x/sys/cpu"

var fast = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// scatter sets x_r = x_r - l v for the entries l of a column and the rows r that they are in; an x_r is
// `together` numbers.
func scatter(x []float64, index []int32, value []float64, v *[together]float64) {
	if len(index) == 0 {
		return
	}
	if !fast {
		scatterEach(x, index, value, v)
		return
	}
	_ = value[len(index)-1]
	scatterFMA(&x[0], &index[0], &value[0], len(index), &v[0])
}

// gather sets v = v - sum of l x_r.
func gather(x []float64, index []int32, value []float64, v *[together]float64) {
	if len(index) == 0 {
		return
	}
	if !fast {
		gatherEach(x, index, value, v)
		return
	}
	_ = value[len(index)-1]
	gatherFMA(&x[0], &index[0], &value[0], len(index), &v[0])
}

//go:noescape
func scatterFMA(x *float64, index *int32, value *float64, count int, v *float64)

//go:noescape
func gatherFMA(x *float64, index *int32, value *float64, count int, v *float64)
