package pipeline

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"surepipe/risk"
)

// kept is the number of draws whose images are compared with those of other fits.
const kept = 16

// draw fills w with the normal numbers of a draw of a sample: a function of the seed and the two
// numbers.
func draw(w []float64, seed uint64, sample, number int) {
	r := rand.New(rand.NewPCG(seed, 0x636f75706c656400+uint64(sample)<<16+uint64(number)))
	for i := range w {
		w[i] = r.NormFloat64()
	}
}

// firstDraws is the number of draws of a set, the first of which tells how many draws are needed.
const firstDraws = 24

// antithetic is the sampling of [Antithetic] and [CoupledBootstrap]. A unit is a draw. With r_k = f(y + h w_k) - y,
// h = sqrt(alpha) sigma, and their mean r over a set of K,
//
//	z_k = ||r_k - r||^2 + 2 sigma/sqrt(alpha) <w_k, r_k - r>,   value = ||r||^2 + mean z_k - d sigma2,
//
// which is the mean of ||r_k||^2 + 2 sigma/sqrt(alpha) <w_k, r_k> - d sigma2, since the w_k sum to zero; and z_k has
// nothing that is linear in w. For a linear f the value has the variance of z over K - 1.
type antithetic struct {
	*evaluations
	sigma2, alpha float64
	o             Options
	sets          []drawn
}

// drawn is what is kept of a set of draws.
type drawn struct {
	z []float64
	// mean is r, and divergence the mean of <w_k, r_k - r>/h.
	mean       []float64
	divergence float64
	// off are r_k - r of the first draws of the first set, and frobenius2 is tr(D g)^2 from all of that.
	off        [][]float64
	frobenius2 float64
}

func (e *evaluations) antithetic(ctx context.Context, o Options) (Risk, error) {
	row := e.box.Divergence.Row()
	if err := o.checkSampled(row); err != nil {
		return Risk{}, err
	}
	return e.sampled(ctx, o, &antithetic{evaluations: e, sigma2: o.Sigma2, alpha: cmp.Or(e.box.Alpha, row.Alpha), o: o})
}

func (a *antithetic) calls() (unit, first int) { return 1, firstDraws }

// extend computes sets of about firstDraws until there are n draws.
func (a *antithetic) extend(ctx context.Context, n int) error {
	from := 0
	for _, s := range a.sets {
		from += len(s.z)
	}
	for sets := max((n-from)/firstDraws, 1); n-from > 1; sets-- {
		size := (n - from) / sets
		s, err := a.set(ctx, from, size)
		if err != nil {
			return err
		}
		a.sets = append(a.sets, s)
		from += size
	}
	return nil
}

// set computes the draws from number first on.
func (a *antithetic) set(ctx context.Context, first, size int) (s drawn, err error) {
	d, h := len(a.y), math.Sqrt(a.alpha*a.sigma2)
	w, r := make([][]float64, size), make([][]float64, size)
	center := make([]float64, d)
	for k := range w {
		w[k] = make([]float64, d)
		draw(w[k], a.o.Seed, a.sample, first+k)
		floats.AddScaled(center, 1/float64(size), w[k])
	}
	for k := range w {
		floats.Sub(w[k], center)
		floats.Scale(math.Sqrt(float64(size)/float64(size-1)), w[k])
	}
	if err := a.each(ctx, a.o, first, first+size, func(ctx context.Context, j int) error {
		f, err := a.at(ctx, step(a.y, h, w[j-first]))
		if err == nil {
			r[j-first] = make([]float64, d)
			floats.SubTo(r[j-first], f, a.y)
		}
		return err
	}); err != nil {
		return s, err
	}
	s.mean, s.z = make([]float64, d), make([]float64, size)
	for _, v := range r {
		floats.AddScaled(s.mean, 1/float64(size), v)
	}
	for k, v := range r {
		floats.Sub(v, s.mean)
		along := floats.Dot(w[k], v)
		s.z[k] = floats.Dot(v, v) + 2*math.Sqrt(a.sigma2/a.alpha)*along
		s.divergence += along / h / float64(size)
	}
	if first == 0 {
		s.frobenius2 = squaredTrace(w, r, h, s.divergence)
		s.off = r[:min(size, kept)]
	}
	return s, nil
}

// squaredTrace estimates tr(D^2) of D with off_k ~ h D w_k from the products of different draws,
//
//	mean over j != k of <w_j, D w_k> <w_k, D w_j>,
//
// less tr(D)^2/(K - 1)^2, which the correlation of draws that sum to zero adds.
func squaredTrace(w, off [][]float64, h, trace float64) float64 {
	sum, count := 0.0, 0.0
	for j := range w {
		for k := range j {
			sum += floats.Dot(w[j], off[k]) * floats.Dot(w[k], off[j]) / (h * h)
			count++
		}
	}
	shared := trace / float64(len(w)-1)
	return sum/count - shared*shared
}

func (a *antithetic) estimate() (mean, spread, independent float64) {
	for _, s := range a.sets {
		n := float64(len(s.z) - 1)
		independent += n
		mean += n * (stat.Mean(s.z, nil) + floats.Dot(s.mean, s.mean))
		spread += n * stat.Variance(s.z, nil)
	}
	return mean/independent - float64(len(a.y))*a.sigma2, math.Sqrt(spread / independent), independent
}

// terms are those of SURE for g, the mean of f(y*), by the first set.
func (a *antithetic) terms(float64) (risk.Terms, float64) {
	s := a.sets[0]
	t := risk.Terms{D: len(a.y), Sigma2: a.sigma2, Residual: floats.Dot(s.mean, s.mean), Divergence: s.divergence,
		Frobenius2: s.frobenius2}
	return t, t.StdErr()
}

func (a *antithetic) shown() *shown {
	first := a.sets[0]
	s := &shown{residual: make([]float64, len(a.y)), images: first.off, scale: 1 / math.Sqrt(a.alpha*a.sigma2)}
	floats.AddScaled(s.residual, -1, first.mean)
	for _, z := range first.z {
		s.values = append(s.values, floats.Dot(first.mean, first.mean)+z-float64(len(a.y))*a.sigma2)
	}
	return s
}
