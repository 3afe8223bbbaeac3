package lowrank

import (
	"context"
	"errors"
	"math"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/prox"
	"surepipe/prox/internal/vector"
	"surepipe/prox/subspace"
)

// nuclearFollower evaluates the singular value threshold from a partial SVD that follows the
// argument. With U, S, V the singular values of X = v above tau and their vectors, where X* U = V S
// holds to rounding, and M = X - U S V*, the result
//
//	U (S - tau) V* = prox(X'),   X' = X - (X V - U S) V* - (N - N'),
//
// where N = M (I - V V*) and N' has N's singular values cut off at tau. ||X' - X|| is at most ||X V
// - U S|| plus the excess of M's singular values over tau, which is 0 where no value was missed.
// Passes of the subspace iteration make the first small; a Cholesky factor of (tau + slack)^2 I -
// M*M certifies that the second is small.
//
// Where that takes too many passes (as with a singular value close to tau), where the rank is not
// low, and where squares of values leave the range of float64, the evaluation is the exact one of
// nuclear.
type nuclearFollower struct {
	p        *nuclear
	tau      float64             // of the last evaluation
	space    *subspace.Iteration // nil before the first
	top      subspace.Triplets   // of the last evaluation, unless it was exact
	rounding float64             // a bound of the error of the triplets besides their residual
	exact    bool                // whether the last evaluation was exact
	high     bool                // evaluations are exact until the rank is low again
	lost     int                 // evaluations in a row that took too many passes
	never    bool                // all evaluations are exact from now on
}

// minFollow is the least smaller side of matrices that are followed.
var minFollow = subspace.MinSide

// maxLost is the number of evaluations in a row that may take too many passes.
const maxLost = 2

// follow returns nil where matrices are small, and where lambda is 0 or +Inf.
func (p *nuclear) follow() prox.Follower {
	if min(p.shape.Rows, p.shape.Cols) < minFollow || p.lambda == 0 || math.IsInf(p.lambda, 1) {
		return nil
	}
	return &nuclearFollower{p: p}
}

func (f *nuclearFollower) Release() {
	f.drop()
	if f.space != nil {
		f.space.Free()
		f.space = nil
	}
}

func (f *nuclearFollower) drop() {
	f.top.Free()
	f.top = subspace.Triplets{}
}

// Reasons for an exact evaluation.
var (
	errHigh = errors.New("prox: nuclear norm: the rank is not low")
	errLost = errors.New("prox: nuclear norm: too many passes")
	errEnds = errors.New("prox: nuclear norm: squares of singular values leave the range of float64")
)

func (f *nuclearFollower) Eval(ctx context.Context, dst, v array.Batch, t, near float64) error {
	vector.CheckLinearize("nuclear norm", f.p.Dim(), dst, v, t)
	f.tau = t * f.p.lambda
	if f.never || f.high {
		return f.evalExact(dst, v)
	}
	err := f.decompose(ctx, v, near)
	var small subspace.Error
	switch {
	case errors.Is(err, errHigh):
		f.high = true
		return f.evalExact(dst, v)
	case errors.Is(err, errLost):
		f.lost++
		f.never = f.lost >= maxLost
		return f.evalExact(dst, v)
	case errors.Is(err, errEnds), errors.As(err, &small):
		f.never = true
		return f.evalExact(dst, v)
	case err != nil:
		return err
	}
	f.exact, f.lost = false, 0
	dev, m, n := dst.Device(), f.p.shape.Rows, f.p.shape.Cols
	r := len(f.top.Sigma)
	if r == 0 {
		dev.Fill(dst, 0)
		return dev.Err()
	}
	d := lists.Map(f.top.Sigma, func(s float64) float64 { return s - f.tau })
	ud := dev.Alloc(m, r)
	defer ud.Free()
	subspace.ScaleColumns(ud, f.top.U, d)
	dev.Gemm(false, true, 1, ud, f.top.V, 0, dst.Reshape(m, n))
	return dev.Err()
}

func (f *nuclearFollower) evalExact(dst, v array.Batch) error {
	f.drop()
	f.exact = true
	r, err := f.p.evalOne(dst, v, f.tau)
	if f.high {
		// The rank counts as low again at half of the limit above.
		f.high = 2*(r+subspace.MinBuffer) > f.space.Largest()
	}
	return err
}

// decompose sets f.top to the values of v above tau, with a residual of near at most.
func (f *nuclearFollower) decompose(ctx context.Context, v array.Batch, near float64) error {
	if !(f.tau > subspace.Smallest && f.tau < 1/subspace.Smallest) {
		return errEnds
	}
	q := min(f.p.shape.Rows, f.p.shape.Cols)
	x := subspace.Dense(v.Reshape(f.p.shape.Rows, f.p.shape.Cols))
	if f.space == nil {
		f.space = subspace.New(v.Device(), f.p.shape)
	}
	// Multiplying q vectors by X and X* costs about a third of computing all its singular values.
	for spent, before := 0, math.Inf(1); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		k := f.space.Size()
		if spent += k; spent > q {
			return errLost
		}
		f.drop()
		var err error
		if f.top, err = f.space.Advance(x, f.tau); err != nil {
			return err
		}
		r := len(f.top.Sigma)
		if f.rounding = 0; r > 0 {
			ratio := f.top.Sigma[0] / f.tau
			f.rounding = 0x1p-50 * ratio * f.top.Sigma[0]
			if ratio > subspace.Range || f.rounding > near {
				return errEnds
			}
		}
		if r+subspace.MinBuffer > f.space.Largest() {
			return errHigh
		}
		if r >= k-1 {
			continue // the block is too small
		}
		residual := f.top.Residual(x)
		if residual <= near {
			return nil
		}
		// The residual shrinks by less and less.
		if passes := math.Log(near/residual) / math.Log(residual/before); residual < before &&
			float64(spent)+passes*float64(k) > float64(q) {
			return errLost
		}
		before = residual
	}
}

// certifiedShare is the share of a slack that a residual may use: the rest is for the certificate.
const certifiedShare = 0.75

func (f *nuclearFollower) Certify(ctx context.Context, v array.Batch, want float64) (float64, bool, error) {
	if f.exact {
		return 0, true, nil
	}
	dev, m, n := v.Device(), f.p.shape.Rows, f.p.shape.Cols
	x := v.Reshape(m, n)
	residual := f.top.Residual(subspace.Dense(x)) + f.rounding
	if !(residual <= certifiedShare*want) {
		return math.Inf(1), false, nil
	}
	rest := dev.Alloc(m, n)
	defer rest.Free()
	dev.Copy(rest, x)
	if r := len(f.top.Sigma); r > 0 {
		us := dev.Alloc(m, r)
		subspace.ScaleColumns(us, f.top.U, f.top.Sigma)
		dev.Gemm(false, true, -1, us, f.top.V, 1, rest)
		us.Free()
	}
	slack := 0.5 * (want - residual)
	below, err := subspace.ExcessWithin(ctx, rest, f.tau, slack)
	var small subspace.Error
	switch {
	case errors.As(err, &small):
		f.never = true
		return math.Inf(1), false, nil
	case err != nil:
		return 0, false, err
	case below:
		return residual + slack, true, nil
	}
	f.never = f.never || !f.space.Grow()
	return math.Inf(1), false, nil
}
