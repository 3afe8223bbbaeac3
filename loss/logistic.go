package loss

import (
	"math"

	"surepipe/internal/numerics/elementary"
)

// logistic is f(z; y) = log(1 + e^z) - y z.
type logistic struct{}

// Logistic returns the negative log-likelihood of a logistic regression,
//
//	l(z; y) = sum_i w_i (log(1 + exp z_i) - y_i z_i),   P(y_i = 1) = 1/(1 + exp(-z_i)),
//
// with weights w of the observations, nil for ones. y_i is 0 or 1, or the share of ones among w_i
// trials. Labels of -1 and 1 are not observations: code them as 0 and 1. It is an error if a weight
// is negative or not finite, or if all are 0.
func Logistic(w []float64) (*Pointwise, error) { return New(logistic{}, w) }

func (logistic) Likelihood() bool   { return true }
func (logistic) Name() string       { return "logistic" }
func (logistic) Lipschitz() float64 { return 0.25 }
func (logistic) Unit() float64      { return 1 }

func (logistic) Check(y float64) string {
	switch {
	case y >= 0 && y <= 1:
		return ""
	case y == -1:
		return "the logistic loss expects 0 or 1, or a proportion between them: code labels of -1 and 1 as (y + 1)/2"
	}
	return "the logistic loss expects 0 or 1, or a proportion between them; of a table with other labels --success " +
		"names that which is 1"
}

func softplus(z float64) float64 { return math.Max(z, 0) + math.Log1p(math.Exp(-math.Abs(z))) }

// sigmoid is 1/(1 + e^-z).
func sigmoid(z float64) float64 {
	p, _ := probabilities(z)
	return p
}

// probabilities are 1/(1 + e^-z) and 1/(1 + e^z).
func probabilities(z float64) (p, rest float64) {
	e := math.Exp(-math.Abs(z))
	more := 1 / (1 + e)
	if z >= 0 {
		return more, e * more
	}
	return e * more, more
}

func (logistic) Value(z, y float64) float64 {
	switch y {
	case 0:
		return softplus(z)
	case 1:
		return softplus(-z)
	}
	return y*softplus(-z) + (1-y)*softplus(z)
}

func (logistic) Slope(z, y float64) float64 {
	switch y {
	case 0:
		return sigmoid(z)
	case 1:
		return -sigmoid(-z)
	}
	return (1-y)*sigmoid(z) - y*sigmoid(-z)
}

func (logistic) Curvature(z, _ float64) float64 {
	e := math.Exp(-math.Abs(z))
	return e / ((1 + e) * (1 + e))
}

func (f logistic) each(value, slope, curve, z, y []float64) {
	e := scratchOf(curve, slope, value)
	for i, v := range z {
		e[i] = -math.Abs(v)
	}
	elementary.Exp(e, e)
	if value != nil {
		elementary.Log1p(value, e)
	}
	for i, log := range value {
		v := z[i]
		if math.Abs(v) > far {
			value[i] = f.Value(v, y[i])
			continue
		}
		// log(1 + e^z) = log(1 + e^-|z|) + z if z > 0.
		value[i] = log + (1-y[i])*(math.Abs(v)+v)/2 + y[i]*(math.Abs(v)-v)/2
	}
	if slope == nil && curve == nil {
		return
	}
	for i, small := range e {
		more := 1 / (1 + small)
		less := small * more
		if slope != nil {
			// 1/(1 + e^-z) and 1/(1 + e^z): more and less, or the other way round for z < 0.
			a, b := math.Float64bits(more), math.Float64bits(less)
			swap := (a ^ b) & uint64(int64(math.Float64bits(z[i]))>>63)
			slope[i] = (1-y[i])*math.Float64frombits(a^swap) - y[i]*math.Float64frombits(b^swap)
		}
		if curve != nil {
			curve[i] = less * more
		}
	}
}

// far is beyond what sums of two numbers may be.
const far = 1e300

func (logistic) Mean(z float64) float64 { return sigmoid(z) }

// means replaces each z by its mean.
func (logistic) means(z []float64) {
	e := make([]float64, len(z))
	for i, v := range z {
		e[i] = -math.Abs(v)
	}
	elementary.Exp(e, e)
	for i, small := range e {
		if more := 1 / (1 + small); z[i] >= 0 {
			z[i] = more
		} else {
			z[i] = small * more
		}
	}
}

// Constant is minus the logarithm of the binomial coefficient of the w y successes among w trials, where these are
// counts.
func (logistic) Constant(w, y float64) float64 {
	n, k := math.Round(w), math.Round(w*y)
	if math.Abs(n-w)+math.Abs(k-w*y) > 1e-6*w {
		return 0
	}
	all, _ := math.Lgamma(n + 1)
	one, _ := math.Lgamma(k + 1)
	other, _ := math.Lgamma(n - k + 1)
	return one + other - all
}

// Least is the entropy of y.
func (logistic) Least(y float64) float64 {
	h := 0.0
	for _, q := range [2]float64{y, 1 - y} {
		if q > 0 {
			h -= q * math.Log(q)
		}
	}
	return h
}

// Gap is the relative entropy of y + u and 1/(1 + e^-z).
func (logistic) Gap(u, off, z, y float64) float64 {
	p, rest := probabilities(z)
	return entropies(p, rest, u, off, z, y)
}

// gaps sets gap to those at u.
func (logistic) gaps(gap, u, z, y []float64) {
	for i, v := range z {
		gap[i] = -math.Abs(v)
	}
	elementary.Exp(gap, gap)
	for i, small := range gap {
		more := 1 / (1 + small)
		p, rest := more, small*more
		if z[i] < 0 {
			p, rest = rest, p
		}
		gap[i] = entropies(p, rest, u[i], u[i]-((1-y[i])*p-y[i]*rest), z[i], y[i])
	}
}

// entropies is the relative entropy of y + u and p, with rest = 1 - p.
func entropies(p, rest, u, off, z, y float64) float64 {
	logP, logRest := 0.0, 0.0
	if !isNear(off, p) {
		logP = -softplus(-z)
	}
	if !isNear(off, rest) {
		logRest = -softplus(z)
	}
	return relativeEntropy(y+u, p, logP, off) + relativeEntropy(1-y-u, rest, logRest, -off)
}
