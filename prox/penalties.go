package prox

import (
	"fmt"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/prox/internal/vector"
)

// lowest and highest are the lower and upper bounds of coordinates that have none.
var lowest, highest = uniform(math.Inf(-1)), uniform(math.Inf(1))

// NewL1 returns the LASSO penalty r(b) = lambda ||b||_1 on vectors of any length. Its proximal
// operator is the soft threshold
//
//	prox_{t r}(v)_j = sign(v_j) max(|v_j| - t lambda, 0),
//	J = diag(1 where |v_j| > t lambda, else 0).
//
// lambda = 0 gives the identity, lambda = +Inf gives 0. It panics if lambda is negative or NaN.
func NewL1(lambda float64) Prox {
	vector.CheckLambda("the l1 penalty's lambda", lambda)
	p := (&coordinates{name: "l1", w: uniform(lambda), lo: lowest, hi: highest}).know()
	p.Is.L1, p.Is.Balls = Number{lambda, true}, balls(lambda, 1, 1)
	return p
}

// NewWeightedL1 returns r(b) = lambda sum_j w_j |b_j| on vectors of length len(w), with
//
//	prox_{t r}(v)_j = sign(v_j) max(|v_j| - t lambda w_j, 0),
//	J = diag(1 where |v_j| > t lambda w_j or lambda w_j = 0, else 0).
//
// An entry of weight 0 is not penalized, for any lambda; one of weight +Inf is held at 0, unless
// lambda = 0. The weights are copied to dev, where they stay until [Release]. A negative or NaN
// weight is an error. It panics if lambda is negative or NaN.
func NewWeightedL1(dev array.Device, lambda float64, w []float64) (Prox, error) {
	vector.CheckLambda("the weighted l1 penalty's lambda", lambda)
	if len(w) == 0 {
		return nil, fmt.Errorf("prox: weighted l1: no weights")
	}
	for j, x := range w {
		if !(x >= 0) {
			return nil, fmt.Errorf("prox: weighted l1: weight %d is %v, want >= 0", j, x)
		}
	}
	p := &coordinates{name: "weighted l1", dim: len(w), w: listed(dev, product(lambda, w)), lo: lowest, hi: highest}
	return p.put(dev)
}

// NewElasticNet returns r(b) = lambda ||b||_1 + lambda2/2 ||b||^2 on vectors of any length, with
//
//	prox_{t r}(v)_j = sign(v_j) max(|v_j| - t lambda, 0) / (1 + t lambda2),
//	J = diag(1/(1 + t lambda2) where |v_j| > t lambda, else 0).
//
// It panics if lambda or lambda2 is negative or NaN.
func NewElasticNet(lambda, lambda2 float64) Prox {
	vector.CheckLambda("the elastic net's lambda", lambda)
	vector.CheckLambda("the elastic net's lambda2", lambda2)
	p := &coordinates{name: "elastic net", w: uniform(lambda), q: uniform(lambda2), lo: lowest, hi: highest}
	return p.know()
}

// NewSquaredL2 returns the ridge penalty r(b) = lambda/2 ||b||^2 on vectors of any length, with
//
//	prox_{t r}(v) = v / (1 + t lambda),    J = I / (1 + t lambda).
//
// Its [Structure] has Quadratic = lambda. lambda = +Inf holds b at 0. It panics if lambda is
// negative or NaN.
func NewSquaredL2(lambda float64) Prox {
	vector.CheckLambda("the ridge penalty's lambda", lambda)
	return newSquaredL2(lambda, 0)
}

// Zero returns the regularizer r(b) = 0, whose proximal operator is the identity: a quadratic one
// with curvature 0.
func Zero() Prox { return newSquaredL2(0, 0) }

func newSquaredL2(lambda float64, dim int) *coordinates {
	p := (&coordinates{name: "ridge", dim: dim, q: uniform(lambda), lo: lowest, hi: highest}).know()
	p.Is.Quadratic = Number{lambda, true}
	return p
}

// NewCoordinates returns r(b) = sum_j w_j |b_j| + q_j/2 b_j^2 for lo_j <= b_j <= hi_j, +Inf elsewhere, on vectors of
// length len(w), with
//
//	prox_{t r}(v)_j = min(max(sign(v_j) max(|v_j| - t w_j, 0) / (1 + t q_j), lo_j), hi_j),
//	J = diag(1/(1 + t q_j) where that is neither 0, unless w_j = 0, nor a bound, else 0).
//
// Nil lo and hi stand for no bounds. Weights may be 0 or +Inf; lo_j <= 0 <= hi_j, perhaps infinite. The numbers are
// copied to dev, where they stay until [Release]. Other numbers, and slices of different lengths, are errors.
func NewCoordinates(dev array.Device, w, q, lo, hi []float64) (Prox, error) {
	n := len(w)
	if n == 0 || len(q) != n || lo != nil && len(lo) != n || hi != nil && len(hi) != n {
		return nil, fmt.Errorf("prox: coordinates: %d and %d weights, %d and %d bounds, want equal numbers", n, len(q),
			len(lo), len(hi))
	}
	for j := range w {
		if !(w[j] >= 0) || !(q[j] >= 0) {
			return nil, fmt.Errorf("prox: coordinates: weights %v and %v of entry %d, want >= 0", w[j], q[j], j)
		}
		if lo != nil && !(lo[j] <= 0) || hi != nil && !(hi[j] >= 0) {
			return nil, fmt.Errorf("prox: coordinates: the bounds of entry %d do not enclose 0", j)
		}
	}
	bounds := func(list []float64, none coefficients) coefficients {
		if !slices.ContainsFunc(list, func(v float64) bool { return !math.IsInf(v, 0) }) {
			return none
		}
		return listed(dev, slices.Clone(list))
	}
	p := &coordinates{name: "coordinates", dim: n, w: listed(dev, slices.Clone(w)), q: listed(dev, slices.Clone(q)),
		lo: bounds(lo, lowest), hi: bounds(hi, highest)}
	return p.put(dev)
}
