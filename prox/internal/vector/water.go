package vector

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/lists"
)

// WaterLevel returns the theta at which sum_j max(u_j - theta, 0) = s, for s > 0 and entries u_j <=
// 0 at least one of which is 0: theta lies in [-s, 0]. It destroys u.
//
// An entry below the level of all entries that are left is below theta too, and is dropped, which
// leaves few after a pass or two (Michelot 1986). If that takes too many passes the entries are
// sorted, so that the worst case is that of the sort.
func WaterLevel(u []float64, s float64) float64 {
	const passes = 20
	for range passes {
		theta := (floats.SumCompensated(u) - s) / float64(len(u))
		above := 0
		for _, a := range u {
			if a > theta {
				u[above] = a
				above++
			}
		}
		if above == len(u) || above == 0 {
			return theta
		}
		u = u[:above]
	}
	slices.SortFunc(u, func(a, b float64) int { return cmp.Compare(b, a) })
	above, sum := 1, u[0]
	for above < len(u) && float64(above)*u[above] > sum-s {
		sum += u[above]
		above++
	}
	return (floats.SumCompensated(u[:above]) - s) / float64(above)
}

type BallWork struct {
	X []float64 // v, then the result
	U []float64 // destroyed by WaterLevel
}

// GetBallWork returns memory for vectors of length n, from a pool of *BallWork.
func GetBallWork(pool *sync.Pool, n int) *BallWork {
	w, ok := pool.Get().(*BallWork)
	if !ok {
		w = new(BallWork)
	}
	w.X, w.U = lists.Resize(w.X, n), lists.Resize(w.U, n)
	return w
}

// Level sets u to |x| minus its largest entry, top, and returns top and theta - top, where theta <=
// 0 inside the ball. It is for s > 0 and x not empty.
func (w *BallWork) Level(x []float64, s float64) (top, theta float64) {
	top = lists.MaxAbs(x)
	u := w.U[:len(x)]
	for j, a := range x {
		u[j] = math.Abs(a) - top
	}
	return top, WaterLevel(u, s)
}

// waterMargin is the margin of the set A = {j : x_j > theta}, for the water level theta of the
// entries x and the sum s: sum_j max(x_j - theta, 0) = s. With m = |A| and the unit vectors e_j,
//
//	x_j - theta = <e_j - 1_A/m, x> + s/m > 0   in A, of norm sqrt(1 - 1/m),
//	theta - x_j = <1_A/m - e_j, x> - s/m > 0   outside, of norm sqrt(1 + 1/m).
//
// It returns theta and m too. x is not empty.
func waterMargin(w *BallWork, x []float64, s float64) (margin, theta float64, m int) {
	top := slices.Max(x)
	w.U = lists.Resize(w.U, len(x))
	for j, a := range x {
		w.U[j] = a - top
	}
	level := WaterLevel(w.U, s) // relative to the top, which keeps digits
	for _, a := range x {
		if a-top > level {
			m++
		}
	}
	inside, outside := math.Sqrt(1-1/float64(m)), math.Sqrt(1+1/float64(m))
	margin = math.Inf(1)
	for _, a := range x {
		switch height := a - top - level; {
		case height <= 0:
			margin = min(margin, -height/outside)
		case m > 1:
			margin = min(margin, height/inside)
		}
	}
	return margin, top + level, m
}

// SimplexMargin is the margin of the projection of x on the simplex of sum s.
func SimplexMargin(x []float64, s float64) float64 {
	if len(x) == 0 {
		return math.Inf(1)
	}
	margin, _, _ := waterMargin(new(BallWork), x, s)
	return margin
}

// BallMargin is the margin of the projection of v on the l1 ball of radius s, and of its
// complement, the prox of the maximum norm. Inside the ball that is (s - ||v||_1)/sqrt(n). Outside
// it is waterMargin of the sizes |v_j|, as long as these sizes and theta, which is the mean over A
// minus s/m, stay positive: (sum_{j in A} |v_j| - s)/sqrt(m) = sqrt(m) theta. v becomes |v|.
func BallMargin(w *BallWork, v []float64, s float64) float64 {
	sum := 0.0
	for j, a := range v {
		v[j] = math.Abs(a)
		sum += v[j]
	}
	switch {
	case s == 0 || len(v) == 0 || math.IsInf(s, 1):
		return math.Inf(1)
	case sum <= s:
		return (s - sum) / math.Sqrt(float64(len(v)))
	}
	margin, theta, m := waterMargin(w, v, s)
	margin = min(margin, math.Sqrt(float64(m))*theta)
	for _, a := range v {
		if a > theta {
			margin = min(margin, a)
		}
	}
	return max(margin, 0)
}
