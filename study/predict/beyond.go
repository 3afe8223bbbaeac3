package predict

import (
	"math"

	"surepipe/risk/warning"
)

// beyond notes linear predictors of n rows that lie farther beyond those of the fit's own data than these from each
// other: the error of a prediction is known where the data are. The linear predictors tell it of all columns at once,
// each by what it weighs.
func (m *Model) beyond(to *Prediction, n int) {
	if n == 0 || len(m.fit.MuHat) == 0 {
		return
	}
	each := len(to.Predictions) / n
	if each == 0 || len(m.fit.MuHat)%each != 0 {
		return
	}
	least, most := make([]float64, each), make([]float64, each)
	for k := range each {
		least[k], most[k] = math.Inf(1), math.Inf(-1)
	}
	for i, v := range m.fit.MuHat {
		least[i%each], most[i%each] = min(least[i%each], v), max(most[i%each], v)
	}
	rows, worst, at, far := 0, 0.0, 0, -1
	for i, v := range to.Predictions {
		k := i % each
		width := max(most[k]-least[k], rounding*max(math.Abs(most[k]), math.Abs(least[k])))
		out := max(v-most[k], least[k]-v) / width
		if !(out > 1) {
			continue
		}
		if i/each != far {
			rows, far = rows+1, i/each
		}
		if out > worst {
			worst, at = out, i
		}
	}
	if rows == 0 {
		return
	}
	k, of := at%each, ""
	if m.fit.Mean != nil {
		of = " before the loss's link"
	}
	to.note(warning.BeyondData, "%d of %d rows are predicted far beyond the data of the fit, row %d the farthest: "+
		"%.4g%s, where the fit's own are from %.4g to %.4g; what is known of the error of a prediction is not for "+
		"these: look for columns in other units, and for missing values that are numbers",
		rows, n, at/each+1, to.Predictions[at], of, least[k], most[k])
}

// rounding is the least distance between linear predictors that counts, over their size.
const rounding = 1e-9
