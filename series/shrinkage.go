package series

import "math"

// Shrinkage maps the singular values of a patch. Values are in units of sigma sqrt(L), where sigma is the standard
// deviation of the noise and L the larger side of the patch; beta <= 1 is the ratio of its sides. Noise alone then has
// its singular values below 1 + sqrt(beta) (Marchenko and Pastur 1967).
type Shrinkage struct {
	Name, Help string
	// Edge is the threshold where noise alone decides.
	Edge func(beta float64) float64
	// Value returns f(y) and f'(y) at a threshold t.
	Value func(y, t, beta float64) (f, slope float64)
	// Continuous says that f has no jump, so that SURE is unbiased.
	Continuous bool
}

// Shrinkages lists the functions, the default first.
var Shrinkages = []Shrinkage{
	{
		Name:       "optimal",
		Help:       "least squared error for a low rank in noise (Gavish and Donoho 2017)",
		Edge:       bulkEdge,
		Value:      optimal,
		Continuous: true,
	},
	{
		Name: "hard",
		Help: "values above the threshold are kept as they are; SURE leaves out the jump (Hansen 2018)",
		Edge: bulkEdge,
		Value: func(y, t, _ float64) (float64, float64) {
			if y > t {
				return y, 1
			}
			return 0, 0
		},
	},
	{
		Name: "soft",
		Help: "values are reduced by the threshold: the convex choice",
		Edge: bulkEdge,
		Value: func(y, t, _ float64) (float64, float64) {
			if y > t {
				return y - t, 1
			}
			return 0, 0
		},
		Continuous: true,
	},
}

func bulkEdge(beta float64) float64 { return 1 + math.Sqrt(beta) }

// optimal is the shrinkage of least Frobenius error,
//
//	f(y) = sqrt((y^2 - beta - 1)^2 - 4 beta) / y    for y > 1 + sqrt(beta), else 0.
//
// A threshold t other than the edge takes the noise as t / (1 + sqrt(beta)) times as large. The slope is unbounded
// just above the threshold: SURE is unbiased, but varies by the values there.
//
// M. Gavish, D. L. Donoho, Optimal shrinkage of singular values, IEEE Trans. Inf. Theory 63 (2017).
func optimal(y, t, beta float64) (f, slope float64) {
	if t <= 0 {
		return y, 1
	}
	c := t / bulkEdge(beta)
	y /= c
	a := y*y - beta - 1
	q := a*a - 4*beta
	if y <= bulkEdge(beta) || q <= 0 {
		return 0, 0
	}
	root := math.Sqrt(q)
	return c * root / y, 2*a/root - root/(y*y)
}
