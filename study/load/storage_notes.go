package load

import (
	"fmt"
	"math"

	"surepipe/problems"
	"surepipe/problems/spec"
	"surepipe/risk/warning"
	"surepipe/study"
)

// coarseBits are the last bits of a float32's 24 that numbers on a grid, such as ratings, do not have.
const coarseBits = 1<<8 - 1

func (f *Source) noteStorage(n *study.Notes, data problems.Data, sigma2 float64) {
	if l, _ := LayoutOf(f.Problem); l.Selection {
		noteRounded(n, data, sigma2)
	}
	f.noteEffects(n, data)
	m := spec.MatrixOf(data.X).Stored
	if m == nil {
		return
	}
	if m.Single() {
		n.Add(warning.Float32, "X is stored as float32: the estimates are those of an X rounded to 24 bits, "+
			"which moves mu_hat by about 2e-8 ||y||")
	}
	if m.Missing > 0 {
		n.Add(warning.MissingGenotypes, "%d missing genotypes (%.2g%%) count as the mean of their column", m.Missing,
			100*float64(m.Missing)/float64(m.Rows)/float64(m.Cols))
	}
}

func noteRounded(n *study.Notes, data problems.Data, sigma2 float64) {
	variance := RoundedToSingle(data.Y)
	if variance == 0 {
		return
	}
	share := ""
	if sigma2 > 0 {
		share = fmt.Sprintf(", %.2g of sigma2", variance/sigma2)
	}
	n.Add(warning.Float32,
		"y is float32: rounding has added noise of variance %.2g to it%s; all sums are in float64", variance, share)
}

// RoundedToSingle is the mean variance of the errors of values that have been rounded to float32, a unit
// in the last place squared over 12; 0 where they have not, or lie on a coarser grid.
func RoundedToSingle(y []float64) float64 {
	sum, fine := 0.0, false
	for _, v := range y {
		s := float32(v)
		if float64(s) != v {
			return 0
		}
		fine = fine || math.Float32bits(s)&coarseBits != 0
		ulp := float64(math.Nextafter32(float32(math.Abs(v)), math.MaxFloat32)) - math.Abs(v)
		sum += ulp * ulp / 12
	}
	if !fine {
		return 0
	}
	return sum / float64(len(y))
}
