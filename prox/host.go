package prox

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
)

// hostLimit is the largest entry that operators which sum entries on the host accept: sums of as
// many entries as fit in memory stay finite.
const hostLimit = 1e290

// checkDim panics unless n is the length of vectors, 0 for any.
func checkDim(what string, n int) {
	if n < 0 {
		panic(fmt.Sprintf("prox: %s on vectors of length %d, want >= 0", what, n))
	}
}

// onEach sets dst_i to the image of v_i under f, which works in the host's memory: for every vector
// x holds v_i when f is called, and dst_i when it returns.
func onEach(op string, dst, v array.Batch, x []float64, f func()) error {
	dev := v.Device()
	for i := range v.K() {
		dev.Download(x, v.Rows(i, i+1))
		if err := dev.Err(); err != nil {
			return fmt.Errorf("prox: %s: %w", op, err)
		}
		for j, a := range x {
			if !(math.Abs(a) <= hostLimit) {
				return fmt.Errorf("prox: %s: entry %d of vector %d is %v, want a number of size at most %v", op, j, i, a, hostLimit)
			}
		}
		f()
		dev.Upload(dst.Rows(i, i+1), x)
	}
	return nil
}

// grow returns a slice of length n, s's own memory where it is large enough. Its contents are
// undefined.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// waterLevel returns the theta at which sum_j max(u_j - theta, 0) = s, for s > 0 and entries u_j <=
// 0 at least one of which is 0: theta lies in [-s, 0]. It destroys u.
//
// An entry below the level of all entries that are left is below theta too, and is dropped, which
// leaves few after a pass or two (Michelot 1986). If that takes too many passes the entries are
// sorted, so that the worst case is that of the sort.
func waterLevel(u []float64, s float64) float64 {
	const passes = 20
	for range passes {
		theta := (floats.SumCompensated(u) - s) / float64(len(u))
		wet := 0
		for _, a := range u {
			if a > theta {
				u[wet] = a
				wet++
			}
		}
		if wet == len(u) || wet == 0 {
			return theta
		}
		u = u[:wet]
	}
	slices.SortFunc(u, func(a, b float64) int { return cmp.Compare(b, a) })
	wet, sum := 1, u[0]
	for wet < len(u) && float64(wet)*u[wet] > sum-s {
		sum += u[wet]
		wet++
	}
	return (floats.SumCompensated(u[:wet]) - s) / float64(wet)
}
