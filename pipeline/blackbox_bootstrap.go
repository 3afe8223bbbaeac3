package pipeline

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"surepipe/hutch"
	"surepipe/internal/lists"
	"surepipe/risk"
)

const (
	// firstPairs is the number of pairs of draws from which the number that is needed is computed.
	firstPairs = 24
	// kept is the number of pairs whose vectors are compared with each other, for the error bar.
	kept = 16
)

// draw fills w with the normal numbers of a draw of a sample: a function of the seed and the two
// numbers.
func draw(w []float64, seed uint64, sample, number int) {
	r := rand.New(rand.NewPCG(seed, 0x636f75706c656400+uint64(sample)<<16+uint64(number)))
	for i := range w {
		w[i] = r.NormFloat64()
	}
}

// pair is what is kept of a pair of draws, w and -w.
type pair struct {
	// value is the mean of the two estimates of the risk, and divergence that of <w, f(y*)> over
	// sqrt(alpha) sigma.
	value, divergence float64
	// w, and the even and the odd part of f(y*) - y, of the first pairs; the odd part is that of f(y*).
	w, even, odd []float64
}

// bootstrap is the sampling of the coupled bootstrap. A unit is a pair.
type bootstrap struct {
	*evaluations
	sigma2, alpha float64
	o             Options
	pairs         []pair
}

func (e *evaluations) bootstrap(ctx context.Context, o Options) (Risk, error) {
	row := CoupledBootstrap.Row()
	if err := o.checkSampled(row); err != nil {
		return Risk{}, err
	}
	return e.sampled(ctx, o, &bootstrap{evaluations: e, sigma2: o.Sigma2, alpha: cmp.Or(e.box.Alpha, row.Alpha), o: o})
}

func (b *bootstrap) calls() (unit, first int) { return 2, firstPairs }

func (b *bootstrap) extend(ctx context.Context, n int) error {
	from := len(b.pairs)
	b.pairs = append(b.pairs, make([]pair, max(n-from, 0))...)
	return b.each(ctx, b.o, from, n, func(ctx context.Context, j int) (err error) {
		b.pairs[j], err = b.pair(ctx, j)
		return err
	})
}

// pair computes the estimates of the draws w and -w,
//
//	||r||^2 + 2 sigma/sqrt(alpha) <w, r> - d sigma2,   r = f(y*) - y,
//
// which is the formula of [CoupledBootstrap] with the square written out.
func (b *bootstrap) pair(ctx context.Context, j int) (p pair, err error) {
	d := len(b.y)
	w := make([]float64, d)
	draw(w, b.o.Seed, b.sample, j)
	h := math.Sqrt(b.alpha * b.sigma2)
	var r [2][]float64
	for k, sign := range []float64{1, -1} {
		f, err := b.at(ctx, step(b.y, sign*h, w))
		if err != nil {
			return p, err
		}
		r[k] = make([]float64, d)
		floats.SubTo(r[k], f, b.y)
		p.value += (floats.Dot(r[k], r[k]) + sign*2*math.Sqrt(b.sigma2/b.alpha)*floats.Dot(w, r[k])) / 2
	}
	p.value -= float64(d) * b.sigma2
	odd, even := r[0], make([]float64, d)
	for i := range odd {
		even[i] = (r[0][i] + r[1][i]) / 2
		odd[i] = (r[0][i] - r[1][i]) / 2
	}
	p.divergence = floats.Dot(w, odd) / h
	if j < kept {
		p.w, p.even, p.odd = w, even, odd
	}
	return p, nil
}

func (b *bootstrap) estimate() (mean, spread, independent float64) {
	values := b.values()
	for _, v := range values {
		mean += v / float64(len(values))
	}
	return mean, stat.StdDev(values, nil), float64(len(values))
}

func (b *bootstrap) values() []float64 {
	return lists.Map(b.pairs, func(p pair) float64 { return p.value })
}

// terms are those of SURE for g, the mean of f(y*) over w, with unbiased estimates of the
// residual and of tr(D g)^2 from products of different draws: by Stein's formula D g is the mean of
// f(y*) w*/(sqrt(alpha) sigma).
func (b *bootstrap) terms(float64) (risk.Terms, float64) {
	t := risk.Terms{D: len(b.y), Sigma2: b.sigma2}
	for _, p := range b.pairs {
		t.Divergence += p.divergence / float64(len(b.pairs))
	}
	n := min(kept, len(b.pairs))
	count := float64(n * (n - 1) / 2)
	for i := range n {
		for j := range i {
			p, q := b.pairs[i], b.pairs[j]
			t.Residual += floats.Dot(p.even, q.even) / count
			t.Frobenius2 += floats.Dot(p.w, q.odd) * floats.Dot(q.w, p.odd) / (b.alpha * b.sigma2 * count)
		}
	}
	return t, t.StdErr()
}

// shown has the derivative of g, which takes w_j to about the odd part of f(y*) over sqrt(alpha) sigma.
func (b *bootstrap) shown() *shown {
	n := min(kept, len(b.pairs), hutch.CommonProbes(len(b.y)))
	s := &shown{values: b.values(), residual: make([]float64, len(b.y)), scale: 1 / math.Sqrt(b.alpha*b.sigma2)}
	for _, p := range b.pairs[:n] {
		floats.AddScaled(s.residual, -1/float64(n), p.even)
		s.images = append(s.images, p.odd)
	}
	return s
}

// firstDraws is the number of draws of a set, the first of which tells how many draws are needed.
const firstDraws = 24

// antithetic is the sampling of [Antithetic]. A unit is a draw. With r_k = f(y + h w_k) - y, h = sqrt(alpha) sigma, and
// their mean r over a set of K,
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
	row := Antithetic.Row()
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
