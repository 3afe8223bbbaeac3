package denoise

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/numerics"
	"surepipe/prox"
	"surepipe/prox/internal/vector"
	"surepipe/prox/lowrank"
)

// localLowRank is the average over tilings of singular value thresholding in their patches.
type localLowRank struct {
	s       prox.Series
	lambda  float64
	tilings [][]prox.Patch
	prox.Known
}

// NewLocalLowRank returns the regularizer of series of images whose patches are of low rank. With one
// tiling it is the sum of nuclear norms over its patches B_k, matrices of frames x pixels,
//
//	r(B) = lambda sum_k c_k ||B_k||_*,    c_k = (sqrt(frames) + sqrt(n_k)) / (sqrt(frames) + sqrt(n)),
//
// where a patch has n_k pixels, and n where it is whole: the scale of the largest singular value of
// noise, so that the smaller patches at the borders have a threshold of their own. With K tilings the
// proximal operator at the step 1 is the average of theirs, for the convex r that this is the
// proximal operator of (Bauschke et al., The proximal average, 2008):
//
//	prox_r(v) = 1/K sum over the tilings, singular value thresholding at lambda c_k in each patch.
//
// The trace of the derivative is exact, the average over the tilings of the sums over their patches of
// the formula of Candes, Sing-Long and Trzasko (2013). So is the squared Frobenius norm of one tiling;
// of several it is an estimate, as [NewShrinkage] has it. At steps other than 1, with several tilings, neither
// is known.
//
// It panics where [prox.Series.Check] returns an error, or lambda is negative or NaN.
func NewLocalLowRank(s prox.Series, lambda float64) prox.Prox {
	vector.CheckLambda("the local nuclear norm's lambda", lambda)
	if err := s.Check(); err != nil {
		panic(err.Error())
	}
	p := &localLowRank{s: s, lambda: lambda, tilings: s.Tilings()}
	p.Is = prox.Structure{Local: p.maps}
	return p
}

func (p *localLowRank) Dim() int { return p.s.Len() }

// factors is the singular value decomposition U diag(s) V* of a patch as a matrix of m <= n.
type factors struct {
	u, v *mat.Dense // m x m, n x m
	s    []float64
	tau  float64
}

func (w *patchWork) factor(tau float64) (*factors, error) {
	u, s, v, err := numerics.SVD(&w.x)
	if err != nil {
		return nil, fmt.Errorf("prox: local low rank: a patch: %w", err)
	}
	return &factors{u: u, v: v, s: s, tau: tau}, nil
}

func (f *factors) active() (r int) {
	for r < len(f.s) && f.s[r] > f.tau {
		r++
	}
	return r
}

// threshold sets w.out = U (diag(s) - tau)_+ V*.
func (f *factors) threshold(w *patchWork) {
	m, n := w.x.Dims()
	w.out.Reset()
	w.out.ReuseAs(m, n)
	r := f.active()
	if r == 0 {
		return
	}
	w.left.Reset()
	w.left.CloneFrom(f.u.Slice(0, m, 0, r))
	for i := range m {
		row := w.left.RawRowView(i)
		for j := range row {
			row[j] *= f.s[j] - f.tau
		}
	}
	w.out.Mul(&w.left, f.v.Slice(0, n, 0, r).T())
}

// derivative sets w.out to the derivative in direction w.x. With M = U* Z V and f_i = (s_i - tau)_+,
//
//	D Z = U (S ∘ G + A ∘ H - diag(f/s) M) V* + U diag(f/s) U* Z,
//
// where S and A are the symmetric and antisymmetric part of M, G_{ij} = (f_i - f_j)/(s_i - s_j), 1
// where both are active, and H_{ij} = (f_i + f_j)/(s_i + s_j).
func (f *factors) derivative(w *patchWork) {
	m, n := w.x.Dims()
	w.out.Reset()
	r := f.active()
	if r == 0 {
		w.out.ReuseAs(m, n)
		return
	}
	w.left.Reset()
	w.left.Mul(f.u.T(), &w.x) // U* Z
	w.m.Reset()
	w.m.Mul(&w.left, f.v)
	w.scaled.Reset()
	w.scaled.CloneFrom(&w.m)
	kept := func(i int) float64 { return max(f.s[i]-f.tau, 0) }
	for i := range m {
		for j := range m {
			symmetric, skew := (w.m.At(i, j)+w.m.At(j, i))/2, (w.m.At(i, j)-w.m.At(j, i))/2
			g, h := 0.0, 0.0
			switch {
			case i < r && j < r:
				g = 1
			case i < r || j < r:
				g = math.Abs(kept(i)-kept(j)) / math.Abs(f.s[i]-f.s[j])
			}
			if i < r || j < r {
				h = (kept(i) + kept(j)) / (f.s[i] + f.s[j])
			}
			v := symmetric*g + skew*h
			if i < r {
				v -= kept(i) / f.s[i] * w.m.At(i, j)
			}
			w.scaled.Set(i, j, v)
		}
	}
	for i := range m {
		row := w.left.RawRowView(i)
		scale := 0.0
		if i < r {
			scale = kept(i) / f.s[i]
		}
		for j := range row {
			row[j] *= scale
		}
	}
	var inner mat.Dense
	inner.Mul(&w.scaled, f.v.T())
	inner.Add(&inner, &w.left)
	w.out.Mul(f.u, &inner)
}

func (p *localLowRank) threshold(q prox.Patch, t float64) float64 { return t * p.lambda * q.Scale }

// trivial reports the maps that need no decomposition: the identity, and 0.
func (p *localLowRank) trivial() bool { return p.lambda == 0 || math.IsInf(p.lambda, 1) }

// apply sets x to the average over the tilings at the thresholds of the step t.
func (p *localLowRank) apply(x []float64, t float64, keep func(tiling, patch int, f *factors)) error {
	switch {
	case p.lambda == 0:
		return nil
	case math.IsInf(p.lambda, 1):
		clear(x)
		return nil
	}
	out := make([]float64, len(x))
	for k, tiling := range p.tilings {
		err := onPatches(len(tiling), func(i int, w *patchWork) error {
			w.gather(p.s, x, tiling[i])
			f, err := w.factor(p.threshold(tiling[i], t))
			if err != nil {
				return err
			}
			f.threshold(w)
			w.scatter(p.s, out, tiling[i], 1/float64(len(p.tilings)))
			if keep != nil {
				keep(k, i, f)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	copy(x, out)
	return nil
}

// steps are the step of the patches and that of the average: one tiling takes any step in its
// patches.
func (p *localLowRank) steps(t float64) (inner, outer float64) {
	if len(p.tilings) == 1 {
		return t, 1
	}
	return 1, t
}

func (p *localLowRank) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("local low rank", p.s.Len(), dst, v, t)
	x := make([]float64, p.s.Len())
	var failed error
	err := vector.OnEach("local low rank", dst, v, x, func() { failed = errors.Join(failed, p.evaluate(x, t, nil)) })
	return errors.Join(err, failed)
}

// evaluate sets x to the proximal operator at the step t. keep is called with the decompositions at
// the last argument.
func (p *localLowRank) evaluate(x []float64, t float64, keep func(tiling, patch int, f *factors)) error {
	inner, outer := p.steps(t)
	var failed error
	if !p.trivial() {
		if err := argumentOf("local low rank", x, outer,
			func(x []float64) { failed = errors.Join(failed, p.apply(x, inner, nil)) }); err != nil {
			return err
		}
	}
	return errors.Join(failed, p.apply(x, inner, keep))
}

func (p *localLowRank) Linearize(dst, v array.Batch, t float64) (prox.Derivative, error) {
	vector.CheckLinearize("local low rank", p.s.Len(), dst, v, t)
	_, outer := p.steps(t)
	j := &localDerivative{p: p, dev: v.Device(), t: outer, factors: make([][]*factors, len(p.tilings))}
	for k, tiling := range p.tilings {
		j.factors[k] = make([]*factors, len(tiling))
	}
	x := make([]float64, p.s.Len())
	var failed error
	err := vector.OnEach("local low rank", dst, v, x, func() {
		failed = p.evaluate(x, t, func(tiling, patch int, f *factors) { j.factors[tiling][patch] = f })
	})
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	step := outer
	if p.trivial() {
		step = 1
	}
	return stepped("local low rank", j.dev, p.s.Len(), step, j.apply, j.sums), nil
}

// divergences are those of the patches of each tiling, and the sums of the squared eigenvalues of
// their derivatives.
func (p *localLowRank) divergences(all [][]*factors) (traces, squares [][]float64) {
	for k, tiling := range p.tilings {
		trace, square := make([]float64, len(tiling)), make([]float64, len(tiling))
		for i, q := range tiling {
			m, n := p.s.Frames, q.Pixels()
			switch f := all[k][i]; {
			case p.lambda == 0:
				trace[i], square[i] = float64(m*n), float64(m*n)
			case f != nil:
				trace[i], square[i] = lowrank.ThresholdTrace(f.s, m, n, f.active(), f.tau)
			}
		}
		traces, squares = append(traces, trace), append(squares, square)
	}
	return traces, squares
}

func (p *localLowRank) maps(v []float64) (prox.LocalMaps, error) {
	all := lists.Map(p.tilings, func(tiling []prox.Patch) []*factors { return make([]*factors, len(tiling)) })
	x := append([]float64(nil), v...)
	if err := p.apply(x, 1, func(tiling, patch int, f *factors) { all[tiling][patch] = f }); err != nil {
		return prox.LocalMaps{}, err
	}
	maps := prox.LocalMaps{Series: p.s, DegreesOfFreedom: make([]float64, p.s.Rows*p.s.Cols)}
	traces, _ := p.divergences(all)
	for k, tiling := range p.tilings {
		for i, q := range tiling {
			share := traces[k][i] / float64(q.Pixels()) / float64(len(p.tilings))
			for r := q.Top; r < q.Bottom; r++ {
				floats.AddConst(share, maps.DegreesOfFreedom[r*p.s.Cols+q.Left:r*p.s.Cols+q.Right])
			}
		}
	}
	if len(p.tilings) == 1 {
		maps.PatchRows, maps.PatchCols = (p.s.Rows+p.s.Patch-1)/p.s.Patch, (p.s.Cols+p.s.Patch-1)/p.s.Patch
		maps.PatchDivergence = traces[0]
	}
	return maps, nil
}

// localDerivative is J (t I + (1 - t) J)^{-1} with the average J over the tilings.
type localDerivative struct {
	p       *localLowRank
	dev     array.Device
	t       float64
	factors [][]*factors
}

func (j *localDerivative) apply(x []float64) {
	switch p := j.p; {
	case p.lambda == 0:
	case math.IsInf(p.lambda, 1):
		clear(x)
	default:
		out := make([]float64, len(x))
		for k, tiling := range p.tilings {
			// The products cannot fail.
			_ = onPatches(len(tiling), func(i int, w *patchWork) error {
				w.gather(p.s, x, tiling[i])
				j.factors[k][i].derivative(w)
				w.scatter(p.s, out, tiling[i], 1/float64(len(p.tilings)))
				return nil
			})
		}
		copy(x, out)
	}
}

func (j *localDerivative) sums() (trace, frobenius2 float64) {
	if j.t != 1 && !j.p.trivial() {
		return math.NaN(), math.NaN()
	}
	traces, squares := j.p.divergences(j.factors)
	for k := range traces {
		trace += floats.SumCompensated(traces[k]) / float64(len(traces))
	}
	if len(squares) == 1 || j.p.trivial() {
		return trace, floats.SumCompensated(squares[0])
	}
	return trace, min(squaredNorm(j.p.s.Len(), j.apply), trace)
}
