package stages

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"surepipe/risk"
)

// Autoregression is noise whose covariance is sigma2 rho^|i-j|, in the order of the observations. RhoStdErr is the
// error of Rho, 0 where it is exact. Its zero value is white noise.
type Autoregression struct{ Rho, RhoStdErr float64 }

const (
	// exactForms is the number of observations up to which tr C D is exact, and formProbes that of the probes beyond.
	exactForms, formProbes = 1024, 200
	formSeed               = 0x617231
	formBatch              = 64
)

// correlate returns the terms of the fit for correlated noise. With C = L L*, over all unit vectors or
// random signs w,
//
//	tr C D = E w* L* D L w,   tr (C D)^2 = E ||L* D L w||^2,
//
// and tr C' D = E w* L^{-1} C' D L w for the C' of other rho.
func (j *Job) correlate(ctx context.Context, residuals []float64) (*risk.Correlated, error) {
	noise := j.settings.Noise
	d, rho := len(j.Y), risk.AR1(noise.Rho)
	c := &risk.Correlated{Residual: rho.Form(residuals), All: rho.Squares(d), Most: rho.Most()}
	rng, exact, count := rand.New(rand.NewPCG(formSeed, uint64(d))), d <= exactForms, d
	if !exact {
		count = formProbes
	}
	var forms []float64
	others := [2]risk.AR1{risk.AR1(math.Min(noise.Rho+noise.RhoStdErr, 0.999)),
		risk.AR1(math.Max(noise.Rho-noise.RhoStdErr, -0.999))}
	var moved [2]float64
	for first := 0; first < count; first += formBatch {
		some := min(formBatch, count-first)
		signs := make([]float64, some*d)
		for i := range signs {
			switch {
			case exact && i%d == first+i/d:
				signs[i] = 1
			case !exact:
				signs[i] = float64(1 - 2*int(rng.Uint64()&1))
			}
		}
		images, err := j.coloured(ctx, rho, signs, some)
		if err != nil {
			return nil, err
		}
		for n := range some {
			w, image := signs[n*d:(n+1)*d], images[n*d:(n+1)*d]
			for k, other := range others {
				moved[k] += floats.Dot(w, rho.Whiten(other.Times(image)))
			}
			rho.Adjoint(image)
			forms = append(forms, floats.Dot(w, image))
			c.Squares += floats.Dot(image, image)
		}
	}
	c.Trace = floats.Sum(forms)
	c.ByRho = math.Abs(moved[0]-moved[1]) / 2
	if !exact {
		n := float64(count)
		c.Trace, c.Squares, c.ByRho = c.Trace/n, c.Squares/n, c.ByRho/n
		c.TraceErr = stat.StdDev(forms, nil) / math.Sqrt(n)
	}
	return c, nil
}

func (j *Job) coloured(ctx context.Context, rho risk.AR1, w []float64, k int) ([]float64, error) {
	d := len(j.Y)
	colour := append([]float64{}, w...)
	for n := range k {
		rho.Colour(colour[n*d : (n+1)*d])
	}
	return j.images(ctx, j.view.Put(colour, k, d))
}

// correlatedCriteria sets SURE for correlated noise. Criteria that take observations as independent are not defined.
func (j *Job) correlatedCriteria(ctx context.Context, r *Risk) (err error) {
	r.Criteria = risk.Undefined()
	if r.Correlated, err = j.correlate(ctx, j.allResiduals(r.MuHat)); err == nil {
		t := r.Terms()
		r.SURE, r.StdErr, r.Floored = t.SURE(), t.StdErr(), t.Floored()
	}
	return err
}
