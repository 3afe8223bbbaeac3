package risk

import (
	"math"

	"surepipe/internal/digits"
	"surepipe/risk/warning"
)

// Warning is a reason to doubt a number.
type Warning = warning.Warning

// Leverages is what is known of the leverages D_ii of the observations that can be left out.
type Leverages struct {
	// Mean is their mean and SD their standard deviation.
	Mean, SD float64
	// NearOne is the share of them above [Near].
	NearOne float64
}

// Near is the leverage from which an observation's own value decides nearly all of its fit.
const Near = 0.99

// LeveragesOf sums up leverages, of which those that are marked, as far as skip is not nil, are left out.
func LeveragesOf(h []float64, skip []bool) *Leverages {
	l, n := new(Leverages), 0.0
	each := func(f func(v float64)) {
		for i, v := range h {
			if skip == nil || !skip[i] {
				f(v)
			}
		}
	}
	each(func(v float64) {
		n++
		l.Mean += v
		if v > Near {
			l.NearOne++
		}
	})
	if n == 0 {
		return nil
	}
	l.Mean, l.NearOne = l.Mean/n, l.NearOne/n
	each(func(v float64) { l.SD += (v - l.Mean) * (v - l.Mean) / n })
	l.SD = math.Sqrt(l.SD)
	return l
}

// gcvBars is the number of standard errors of both together by which leave-one-out may exceed GCV without a
// warning, in logarithms.
const gcvBars = 4

// holdsGCV warns where the left-out errors differ from those by the mean leverage.
func holdsGCV(f Fitted) []Warning {
	l := f.Leverages
	above := func(gcv, gcvErr, alo, aloErr float64) bool {
		return math.Log(alo/gcv) > gcvBars*math.Hypot(gcvErr/gcv, aloErr/alo)
	}
	// The whole errors, which take longer, are no smaller.
	if c := f.Criteria; l == nil || f.Loss != nil || !above(c.GCV, c.GCVStdErr, c.ALO, c.ALOStdErr) {
		return nil
	}
	gcv, gcvErr := f.gcv()
	alo, aloErr := f.alo()
	if !above(gcv, gcvErr, alo, aloErr) {
		return nil
	}
	return []Warning{warning.GCVLeverages.With("GCV is %.3g, and the error of predicting an observation from the "+
		"others is %.3g ± %s (alo): GCV puts the mean of the leverages, %.2f, in the place of each, and they "+
		"spread, with a standard deviation of %.2g; choose another criterion, alo or cv",
		gcv, alo, digits.Error(aloErr), l.Mean, l.SD)}
}

// mostNear is the share of observations with a leverage near 1 up to which a mean of their left-out errors tells fits
// apart.
const mostNear = 0.5

// mostChosen is the share of the observations that a fit's degrees of freedom may be where it chooses among as
// many columns as rows, and mostChosenOfLoss that with another loss than the squared one.
const mostChosen, mostChosenOfLoss = 0.6, 0.2

// Overfits reports that a fit to a table with as many columns as rows has so many degrees of freedom, of d
// observations, that a criterion without refits is likely to be the least there by chance.
func (r Rule) Overfits(df, d float64, squared bool) bool {
	share := mostChosenOfLoss
	if squared {
		share = mostChosen
	}
	return !r.Refits && !r.Sigma2 && df > share*d
}

// Unsure reports that a value is not small for being right: its standard error is larger than itself, or most
// observations have leverages near 1, of which near is the share. It is for errors of prediction, which are not
// negative; such a value competes with others by its sum with its error. Where the loss of a perfect fit is not 0
// (fromZero), as with the likelihood of counts without terms of y alone, the two are not comparable, and leverages
// alone count. They do not count where fits without observations are compared.
func (r Rule) Unsure(value, stdErr, near float64, fromZero bool) bool {
	return r.Predicts && (fromZero && stdErr > math.Abs(value) || near > mostNear && !r.Refits)
}
