package vjp

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/internal/pivoted"
	"surepipe/progress"
	"surepipe/prox"
	"surepipe/solve/direct"
)

// system is K = G + Q of dimension n, G = M*M.
type system struct {
	n    int
	g, q []float64 // G and Q, row-major; q is nil where Q is 0
	// m and w compute M and a root W of Q = W*W, where G and Q are not accurate enough.
	m func() mat.Matrix
	w func() (*mat.Dense, error)
	// norm is ||A|| where the columns of M are not to be scaled to unit length; else 0. Where sizes are
	// given, columns are scaled by one over them.
	norm  float64
	sizes []float64
}

// wellConditioned is the largest condition number of a system that a Cholesky factorization solves
// to six digits; leastSeen is how small a diagonal entry may be relative to ||A||^2 where the
// columns of M are not scaled. Where they are, curvature below rounded times ||A||^2 in a
// coordinate whose column is 0 comes from rounding errors, and scaled to one it would become a
// direction of its own.
const (
	wellConditioned = 1e10
	leastSeen       = 1e-8
	rounded         = 1e-20
)

// solveSystem factorizes K, by Cholesky where it is well conditioned with its diagonal scaled to
// one, else by [pivoted.Factorize].
func (l *implicit) solveSystem(ctx context.Context, s system) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	progress.From(ctx)(progress.Report{Stage: progress.Factorization, Steps: s.n})
	if s.q == nil {
		s.q = make([]float64, s.n*s.n)
		s.w = func() (*mat.Dense, error) { return nil, nil }
		return l.solveWith(s, true)
	}
	return l.solveWith(s, false)
}

// solveWith is solveSystem for a given Q; projection says that Q is 0, so that D mu_hat is an
// orthogonal projection.
func (l *implicit) solveWith(s system, projection bool) error {
	scale := make([]float64, s.n)
	fine := true
	for i := range s.n {
		k := s.g[i*s.n+i] + s.q[i*s.n+i]
		if scale[i] = 1 / math.Sqrt(k); math.IsInf(scale[i], 0) || math.IsNaN(scale[i]) {
			scale[i] = 0 // a row and column of zeros
		}
		least := s.norm
		if s.sizes != nil {
			least = s.sizes[i]
		}
		fine = fine && k > leastSeen*least*least && (s.g[i*s.n+i] > 0 || k > rounded*l.norm*l.norm)
	}
	l.f, l.how = &factored{rank: s.n, op: l.op}, " by Cholesky's method"
	if inverse, condition := s.cholesky(scale); fine && inverse != nil {
		l.f.sensitive = l.sensitive(projection, condition)
		l.f.inverse = l.p.Device.Alloc(s.n, s.n)
		l.f.bytes.Store(l.f.inverse.Bytes())
		l.p.Device.Upload(l.f.inverse, inverse.RawMatrix().Data)
		trace, frobenius2 := float64(s.n), float64(s.n)
		if !projection {
			trace, frobenius2 = traceOf(inverse, s.q)
		}
		l.setKnown(trace, frobenius2, condition)
		return nil
	}
	return l.orthogonalize(s, scale, projection)
}

// orthogonalize decides the rank by a QR factorization.
func (l *implicit) orthogonalize(s system, scale []float64, projection bool) error {
	l.how = " by a pivoted QR factorization, because it is ill-conditioned"
	m, norm := s.m(), s.norm
	w, err := s.w()
	if err != nil {
		return err
	}
	for i := range scale {
		// A coordinate in the null space of A is free, and can reduce the curvature in the others.
		g, q := s.g[i*s.n+i], s.q[i*s.n+i]
		if s.sizes != nil {
			g = s.sizes[i] * s.sizes[i]
		}
		switch {
		case norm != 0 && s.sizes == nil:
			scale[i] = 1
		case g > 0:
			scale[i] = 1 / math.Sqrt(g)
		case q > rounded*l.norm*l.norm:
			scale[i] = 1 / math.Sqrt(q)
		default:
			scale[i] = 0
		}
	}
	if norm == 0 || s.sizes != nil {
		norm = 1
		m = pivoted.ScaleColumns(m, scale)
		if w != nil {
			w = pivoted.ScaleColumns(w, scale)
		}
	}
	r := pivoted.Factorize(m, w, norm, l.doubt())
	// Directions in doubt are not counted: as a rule they come from the error of the solution.
	trace, frobenius2, high := r.Traces(r.Sure)
	if projection {
		trace, frobenius2, high = float64(r.Sure), float64(r.Sure), float64(r.Rank)
	}
	l.known = exactly(trace, frobenius2)
	l.known.High, l.known.Margin = high, r.Margin
	f := l.f
	f.sensitive = !projection && r.Sure > 0 && l.optimality > sensitivity*r.Least()*r.Least()/norm/norm
	if f.rank = r.Sure; f.rank > 0 {
		f.image = direct.UploadRows(l.p.Device, r.Q.T(), f.rank)
		f.bytes.Store(f.image.Bytes())
		f.basic = mat.DenseCopyOf(r.Solution().Slice(0, s.n, 0, f.rank))
		f.basic.Apply(func(i, _ int, v float64) float64 { return scale[i] * v }, f.basic)
	}
	return nil
}

// sensitivity is the error of b, relative to its size, up to which the curvature of the regularizer
// at b is accurate enough.
const sensitivity = 1e-5

// doubt is the size of A along a direction, relative to ||A||, below which the solution is not
// determined there: the error of b along it is the optimality divided by the square of that size. Where the
// solver knows that the tangent space is the solution's, that error does not matter, and a
// quadratic regularizer has no tangent spaces to choose between.
func (l *implicit) doubt() float64 {
	if l.identified || prox.StructureOf(l.p.R).Quadratic.Known {
		return 0
	}
	return math.Sqrt(l.optimality)
}

// cholesky returns K^{-1} and the condition number of K, scaled; nil where that is large.
func (s system) cholesky(scale []float64) (*mat.Dense, float64) {
	sum := mat.NewSymDense(s.n, nil)
	for i := range s.n {
		for c := i; c < s.n; c++ {
			k := s.g[i*s.n+c] + s.q[i*s.n+c] + s.g[c*s.n+i] + s.q[c*s.n+i]
			sum.SetSym(i, c, k/2*scale[i]*scale[c])
		}
	}
	var chol mat.Cholesky
	if !chol.Factorize(sum) || chol.Cond() > wellConditioned || chol.InverseTo(sum) != nil {
		return nil, 0
	}
	out := mat.NewDense(s.n, s.n, nil)
	out.Apply(func(i, c int, v float64) float64 { return scale[i] * v * scale[c] }, sum)
	return out, chol.Cond()
}

// traceOf adds up the eigenvalues of D mu_hat = M K^{-1} M*, which are those of K^{-1} G = I - P,
// P = K^{-1} Q, and their squares. Q has few entries: it is diagonal, or has a block for each group.
func traceOf(inverse *mat.Dense, q []float64) (trace, frobenius2 float64) {
	n, _ := inverse.Dims()
	p := make([]float64, n*n) // the transpose of P
	for k := range n {
		for c, v := range q[k*n : (k+1)*n] {
			if v != 0 {
				floats.AddScaled(p[c*n:(c+1)*n], v, inverse.RawRowView(k)) // K^{-1} is symmetric
			}
		}
	}
	trace, frobenius2 = float64(n), float64(n)
	for i := range n {
		trace -= p[i*n+i]
		frobenius2 -= 2*p[i*n+i] - p[i*n+i]*p[i*n+i]
		for c := range i {
			frobenius2 += 2 * p[i*n+c] * p[c*n+i]
		}
	}
	return trace, frobenius2
}

// exactly is a trace that does not depend on any decision in doubt.
func exactly(trace, frobenius2 float64) Closed {
	return Closed{Known: true, Trace: trace, Frobenius2: frobenius2, Low: trace, High: trace, Margin: math.Inf(1)}
}
