package pipeline_test

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/linops"
	"surepipe/linops/linopstest"
	"surepipe/pipeline"
	"surepipe/prox"
	"surepipe/vjp"
)

// hadamard is the Walsh-Hadamard transform of vectors of length n, a power of two: the
// orthogonal matrix of entries ±1/sqrt(n), in n log2(n) sums. It is its own adjoint.
// As a Go type written against array.Device it runs wherever its batches are, on all
// vectors at once.
type hadamard struct{ n int }

func (h hadamard) Dims() (d, p int) { return h.n, h.n }

func (h hadamard) Forward(dst, b array.Batch) {
	if dst.N() != h.n || b.N() != h.n || dst.K() != b.K() {
		panic(fmt.Sprintf("hadamard: %s from %s, expected vectors of length %d", dst, b, h.n))
	}
	dev := dst.Device()
	x, next := dev.Alloc(b.K(), h.n), dev.Alloc(b.K(), h.n)
	dev.Copy(x, b)
	for w := 1; w < h.n; w *= 2 {
		// Seen as rows (u, v) of two halves of w values: (u, v) -> (u + v, u - v) / sqrt(2).
		rows := b.K() * h.n / (2 * w)
		from, to := x.Reshape(rows, 2*w), next.Reshape(rows, 2*w)
		u, v := from.Cols(0, w), from.Cols(w, 2*w)
		dev.Lin(to.Cols(0, w), math.Sqrt2/2, u, math.Sqrt2/2, v)
		dev.Lin(to.Cols(w, 2*w), math.Sqrt2/2, u, -math.Sqrt2/2, v)
		x, next = next, x
	}
	dev.Copy(dst, x)
	x.Free()
	next.Free()
}

func (h hadamard) Adjoint(dst, z array.Batch) { h.Forward(dst, z) }

// Structure reports that A A* = I: solvers need no estimate of the norm, and ADMM's step has a
// closed form. The conformance suite checks the claim.
func (h hadamard) Structure() linops.Structure { return linops.Structure{Rows: linops.Known(1)} }

// An operator as a Go type with a Structure, and a regularizer of the package. Soft thresholding of
// the Hadamard coefficients: the divergence counts those above the threshold.
func Example_customType() {
	const d, lambda, sigma2 = 256, 2.0, 1.0
	ctx, dev := context.Background(), array.NewHost()
	a := hadamard{d}
	if err := linopstest.Check(dev, a); err != nil {
		panic(err)
	}
	solver, err := vjp.NewSolver(ctx, "admm", vjp.Problem{A: a, R: prox.NewL1(lambda), Device: dev}, vjp.Options{})
	if err != nil {
		panic(err)
	}
	defer solver.Release()
	p, err := pipeline.New(solver, pipeline.Options{Sigma2: sigma2, Estimator: hutch.Exact})
	if err != nil {
		panic(err)
	}

	// A square wave, which is one coefficient, and noise.
	rng := rand.New(rand.NewPCG(5, 6))
	y := make([]float64, d)
	for i := range y {
		y[i] = float64(1-i/16%2*2) + rng.NormFloat64()
	}
	risk, err := p.Estimate(ctx, y)
	if err != nil {
		panic(err)
	}

	// The coefficients by the definition: entry (i, k) is -1 to the number of bits that i
	// and k share, over sqrt(d).
	residual, divergence := 0.0, 0
	for k := range y {
		c := 0.0
		for i := range y {
			c += y[i] * float64(1-2*(bits.OnesCount(uint(i&k))%2)) / math.Sqrt(d)
		}
		residual += math.Pow(min(math.Abs(c), lambda), 2)
		if math.Abs(c) > lambda {
			divergence++
		}
	}
	fmt.Printf("divergence %.6f, by hand %d\n", risk.Trace.Trace, divergence)
	fmt.Printf("SURE %.4f, by hand %.4f\n", risk.SURE, -d*sigma2+residual+2*sigma2*float64(divergence))
	// Output:
	// divergence 15.000000, by hand 15
	// SURE 31.3799, by hand 31.3799
}
