package krylov

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/numerics"
	"surepipe/linops"
	"surepipe/progress"
)

// NormOptions are the accuracy and the start of Norm2. The zero value is accurate enough for step
// sizes.
type NormOptions struct {
	// Tol is the relative error Error / Value at which Norm2 stops; 0 means 1e-2.
	Tol float64
	// MaxIterations bounds the products with A*A; 0 means 100.
	MaxIterations int
	// Seed chooses the start vector.
	Seed uint64
}

// NormEstimate is an estimate of ||A||_2^2 with its error.
type NormEstimate struct {
	// Value is the estimate, at most ||A||^2 up to rounding.
	Value float64
	// Error is the residual ||A*A x - Value x|| of the unit vector x with <x, A*A x> = Value: A*A
	// has an eigenvalue within Error of Value. It is 0 where the operator knows its norm.
	Error      float64
	Iterations int
}

// Upper is Value + Error, a bound for choosing a step size. It is below ||A||^2 only where the
// random start vector is nearly orthogonal to the leading singular vector.
func (e NormEstimate) Upper() float64 { return e.Value + e.Error }

// normMinIterations keeps Norm2 from stopping at an eigenvalue of high multiplicity: in p
// dimensions the leading vector's share of the start is about 1/sqrt(p), too small to show in the
// first residuals.
const normMinIterations = 8

// Norm2 returns ||A||_2^2, the largest eigenvalue of A*A: exactly where the structure of the
// operator knows it, to rounding for few columns of a dense matrix, else estimated by the Lanczos
// iteration on A*A from a Gaussian vector, which is the same for the same seed. That stops where
// the estimated error is below Tol, or after MaxIterations; Error is the accuracy in either case.
// An error is a cancelled context, a device fault, or values that are not finite.
//
// Golub and Van Loan, Matrix Computations, section 10.1; Kuczynski and Wozniakowski, SIAM J. Matrix
// Anal. Appl. 13 (1992), on random starts.
func Norm2(ctx context.Context, dev array.Device, a linops.Operator, opts NormOptions) (NormEstimate, error) {
	if n := linops.StructureOf(a).Norm2; n.Known {
		return NormEstimate{Value: n.Value}, nil
	}
	if inner, _ := linops.KroneckerOf(a); inner != nil { // the norm of A (x) I is that of A
		return Norm2(ctx, dev, inner, opts)
	}
	report := progress.From(ctx)
	if value, ok := byGram(dev, a); ok {
		report(progress.Report{Stage: progress.Norm, Step: 1, Steps: 1})
		return NormEstimate{Value: value, Error: gramError * value}, nil
	}
	if opts.Tol == 0 {
		opts.Tol = 1e-2
	}
	if opts.MaxIterations == 0 {
		opts.MaxIterations = 100
	}
	d, p := a.Dims()
	v, prev, w, t := dev.Alloc(1, p), dev.Alloc(1, p), dev.Alloc(1, p), dev.Alloc(1, d)
	defer func() {
		array.Free(v, prev, w, t)
	}()
	start := make([]float64, p)
	rng := rand.New(rand.NewPCG(opts.Seed, 0x6e6f726d32)) // a random stream that nothing else uses
	norm := 0.0
	for i := range start {
		start[i] = rng.NormFloat64()
		norm += start[i] * start[i]
	}
	norm = math.Sqrt(norm)
	for i := range start {
		start[i] /= norm
	}
	dev.Upload(v, start)
	dev.Fill(prev, 0)

	var diag, off []float64 // the tridiagonal matrix so far
	var beta float64
	var est NormEstimate
	for {
		if ctx.Err() != nil {
			return est, fmt.Errorf("linops: norm of a %d x %d operator: %w", d, p, context.Cause(ctx))
		}
		// w = A*A v minus its components along v and the vector before it.
		a.Forward(t, v)
		a.Adjoint(w, t)
		along := t.Dot(t)
		diag = append(diag, along)
		dev.Lin(w, 1, w, -along, v)
		dev.Lin(w, 1, w, -beta, prev)
		beta = math.Sqrt(w.Dot(w))
		if err := dev.Err(); err != nil {
			return est, fmt.Errorf("linops: norm of a %d x %d operator: %w", d, p, err)
		}
		est.Iterations++
		if s := diag[len(diag)-1] + beta; math.IsNaN(s) || math.IsInf(s, 0) {
			return est, fmt.Errorf("linops: norm of a %d x %d operator: product %d with A*A is not finite", d, p,
				est.Iterations)
		}
		theta, last, ok := leadingRitz(diag, off)
		if !ok {
			return est, fmt.Errorf("linops: norm of a %d x %d operator: the eigenvalues of a %d x %d tridiagonal "+
				"matrix did not converge", d, p, len(diag), len(diag))
		}
		est.Value, est.Error = theta, beta*math.Abs(last)
		report(progress.Report{Stage: progress.Norm, Step: est.Iterations, Steps: opts.MaxIterations})
		// beta = 0 is an invariant subspace, which the iteration does not leave.
		invariant := beta <= 1e-14*theta
		enough := est.Iterations >= normMinIterations && est.Error <= opts.Tol*theta
		if invariant || enough || est.Iterations >= opts.MaxIterations {
			return est, nil
		}
		off = append(off, beta)
		dev.Lin(w, 1/beta, w, 0, array.Batch{})
		prev, v, w = v, w, prev
	}
}

// The eigenvalues of the Gram matrix of at most gramColumns columns of a dense matrix take less than products with
// vectors, which each read all of it. It takes at most gramWork multiplications, which no context ends. gramError is
// their relative error.
const gramColumns, gramWork, gramError = 256, 1e10, 1e-12

// byGram is the norm from the Gram matrix; ok is false where that is no faster, or does not serve.
func byGram(dev array.Device, a linops.Operator) (value float64, ok bool) {
	d, p := a.Dims()
	known, entries := linops.StructureOf(a), float64(d)*float64(p)
	if known.Gram == nil || known.Entries != linops.Known(entries) || known.SparseRows != nil ||
		known.Passes.Bytes > 0 || p > min(gramColumns, d) || entries*float64(p) > gramWork {
		return 0, false
	}
	values, _, err := numerics.Eigen(numerics.Symmetrized(linops.GramOf(dev, a), p))
	if err != nil || dev.Err() != nil {
		return 0, false
	}
	return values[p-1], true
}

// leadingRitz is the largest eigenvalue of the symmetric tridiagonal matrix with the given
// diagonals, and the last entry of its unit eigenvector.
func leadingRitz(diag, off []float64) (theta, last float64, ok bool) {
	n := len(diag)
	tri := mat.NewSymDense(n, nil)
	for i, v := range diag {
		tri.SetSym(i, i, v)
	}
	for i, v := range off {
		tri.SetSym(i, i+1, v)
	}
	values, vectors, err := numerics.Eigen(tri)
	if err != nil {
		return 0, 0, false
	}
	return values[n-1], vectors.At(n-1, n-1), true
}
