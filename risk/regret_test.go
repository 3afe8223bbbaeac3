package risk_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"surepipe/risk"
)

// Fits that keep the first k of d coordinates, chosen by SURE: over draws the regret that is said has the mean of the
// true one within a factor of two, and an error of sigma2 adds to it.
func TestRegretOfChoicesBySURE(t *testing.T) {
	const d, draws = 40, 80
	r := rand.New(rand.NewPCG(3, 4))
	var costs, said, beyond, known float64
	for range draws {
		y, mu := make([]float64, d), make([]float64, d)
		for i := range y {
			mu[i] = 6 / float64(i+1)
			y[i] = mu[i] + r.NormFloat64()
		}
		var fits []risk.Fit
		var losses []float64
		best := 0
		for k := range d / 2 {
			residual, image := append([]float64{}, y...), make([]float64, d)
			rss, loss := 0.0, 0.0
			for i := range y {
				fit := 0.0
				if i <= k {
					residual[i], image[i], fit = 0, 1, y[i]
				}
				rss += residual[i] * residual[i]
				loss += (fit - mu[i]) * (fit - mu[i])
			}
			p, q := risk.Pack(residual), risk.Pack(image)
			df := float64(k + 1)
			fits = append(fits, risk.Fit{Value: rss + 2*df - d, Digest: &risk.Digest{D: d, Divergence: df, Residual: &p,
				Images: &q, Probes: 1}})
			losses = append(losses, loss)
			if fits[k].Value < fits[best].Value {
				best = k
			}
		}
		least := math.Inf(1)
		for _, v := range losses {
			least = min(least, v)
		}
		c := risk.Comparison{Criterion: risk.SURE, Sigma2: 1}
		g := c.Regret(fits, best)
		c.RelStdErr = 0.5
		if worse := c.Regret(fits, best); !(worse.Mean > g.Mean) {
			t.Errorf("with an error of sigma2 %+v, without %+v", worse, g)
		}
		costs, said = costs+losses[best]/least-1, said+g.Mean
		beyond += g.Beyond
		if losses[best] > (1+risk.Tolerable)*least {
			known++
		}
	}
	t.Logf("costs %.3f, said %.3f; beyond a tenth %.3f, said %.3f", costs/draws, said/draws, known/draws, beyond/draws)
	if said < costs/2 || said > 2*costs || beyond < known/2 || beyond > 2*known {
		t.Errorf("costs %.3f, said %.3f; beyond %.3f, said %.3f", costs/draws, said/draws, known/draws, beyond/draws)
	}
	if g := (risk.Comparison{Criterion: risk.GCV}).Regret([]risk.Fit{{}, {}}, 0); g != nil {
		t.Errorf("without a digest %+v", g)
	}
}
