package denoise

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/prox/internal/vector"
)

// Frame is a Parseval frame F, F*F = I: K >= n vectors of R^n, whose inner products with a signal
// are bands of lines x length coefficients. It computes in the host's memory, is immutable, and is
// safe for concurrent use.
type Frame interface {
	// Len is n, and Bands the number of bands, each of the shape of Lines.
	Len() int
	Bands() int
	Lines() (lines, length int)
	// Norms2 returns the squared norms of a band's frame vectors, down_i along_j for line i and
	// place j.
	Norms2(band int) (down, along []float64)
	// Filter sets dst to F* f(F x), of n values each, which may be the same slice. each is called
	// once for every line of every band, from several goroutines at the same time, with the line's
	// coefficients z, and replaces them by f's.
	Filter(dst, x []float64, each func(band, line int, z []float64))
}

// shrinkage is soft thresholding in a frame.
type shrinkage struct {
	f          Frame
	thresholds []float64
}

// NewShrinkage returns the regularizer whose proximal operator, at the step t = 1, is soft
// thresholding in a Parseval frame, with a threshold c >= 0 for each band:
//
//	prox_r(v) = F* soft_c(F v),          J = F* diag(1 where |f_i* v| > c_i, else 0) F.
//
// In the frame of all shifts of an orthonormal wavelet basis it is cycle spinning: the average over
// the shifts of the estimates in each shifted basis (Coifman and Donoho 1995). It is the gradient of
// the convex function sum_i max(|f_i* v| - c_i, 0)^2/2 and a nonexpansive map, and therefore the
// proximal operator of a convex function r (Moreau 1965), which has no formula unless F is
// orthogonal. At other steps, with P = prox_r,
//
//	prox_{t r}(v) = P(u)   where   t u + (1 - t) P(u) = v,
//
// the minimum of a function with curvature between t and 1: gradient steps find it, about 8 (t +
// 1/t) of them, and conjugate gradients apply the derivative J (t I + (1 - t) J)^{-1}, J at u.
//
// The trace of J is sum_i ||f_i||^2 over the coefficients that are kept. The squared Frobenius norm
// that its model reports is exact up to n = 256, and beyond that an estimate from random signs, a
// function of J alone, with a relative error of about 1% or less. At other steps neither is known.
//
// It panics if there is not one threshold for each band, or one is negative or NaN.
func NewShrinkage(f Frame, thresholds []float64) prox.Prox {
	if len(thresholds) != f.Bands() {
		panic(fmt.Sprintf("prox: %d thresholds for a frame of %d bands", len(thresholds), f.Bands()))
	}
	for _, c := range thresholds {
		vector.CheckLambda("a threshold of shrinkage", c)
	}
	return &shrinkage{f: f, thresholds: append([]float64(nil), thresholds...)}
}

func (p *shrinkage) Dim() int { return p.f.Len() }

func (p *shrinkage) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("shrinkage", p.f.Len(), dst, v, t)
	x := make([]float64, p.f.Len())
	var failed error
	err := vector.OnEach("shrinkage", dst, v, x, func() {
		if err := p.argument(x, t); err != nil {
			failed = err
		}
		p.apply(x)
	})
	return errors.Join(err, failed)
}

func (p *shrinkage) apply(x []float64) {
	p.f.Filter(x, x, func(band, _ int, z []float64) { softLine(z, p.thresholds[band]) })
}

// argument sets x = v to the u with t u + (1 - t) P(u) = v.
func (p *shrinkage) argument(x []float64, t float64) error {
	return argumentOf("shrinkage in a frame", x, t, p.apply)
}

func softLine(z []float64, c float64) {
	for i, v := range z {
		z[i] = v - min(max(v, -c), c)
	}
}

func (p *shrinkage) Linearize(dst, v array.Batch, t float64) (prox.Derivative, error) {
	vector.CheckLinearize("shrinkage", p.f.Len(), dst, v, t)
	lines, length := p.f.Lines()
	words := (length + 63) / 64
	j := &shrinkageDerivative{p: p, dev: v.Device(), t: t, kept: make([][]uint64, p.f.Bands())}
	down, along := make([][]float64, len(j.kept)), make([][]float64, len(j.kept))
	sums := make([]float64, len(j.kept)*lines)
	for band, c := range p.thresholds {
		down[band], along[band] = p.f.Norms2(band)
		if c > 0 { // else all are kept
			j.kept[band] = make([]uint64, lines*words)
		}
	}
	x := make([]float64, p.f.Len())
	var failed error
	err := vector.OnEach("shrinkage", dst, v, x, func() {
		failed = p.argument(x, t)
		p.f.Filter(x, x, func(band, line int, z []float64) {
			c, sum := p.thresholds[band], 0.0
			kept, norms := j.kept[band], along[band]
			for i, v := range z {
				if c == 0 || math.Abs(v) > c {
					sum += norms[i]
					if kept != nil {
						kept[line*words+i/64] |= 1 << (i % 64)
					}
				}
			}
			sums[band*lines+line] = sum * down[band][line]
			softLine(z, c)
		})
	})
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	j.trace = floats.SumCompensated(sums)
	return stepped("shrinkage", j.dev, p.f.Len(), t, j.apply, j.sums), nil
}

// shrinkageDerivative is J (t I + (1 - t) J)^{-1} with J = F* diag(kept) F.
type shrinkageDerivative struct {
	p     *shrinkage
	dev   array.Device
	t     float64
	kept  [][]uint64 // bits, line after line of each band; nil for all
	trace float64
}

func (j *shrinkageDerivative) apply(x []float64) {
	_, length := j.p.f.Lines()
	words := (length + 63) / 64
	j.p.f.Filter(x, x, func(band, line int, z []float64) {
		if j.kept[band] == nil {
			return
		}
		kept := j.kept[band][line*words:]
		for i := range z {
			z[i] *= float64(kept[i/64] >> (i % 64) & 1)
		}
	})
}

// sums are known at the step 1. Of so many coefficients some are always next to their thresholds, where each changes
// the trace by its share of a coordinate: no margin says more than that.
func (j *shrinkageDerivative) sums() (trace, frobenius2 float64) {
	if j.t != 1 {
		return math.NaN(), math.NaN()
	}
	return j.trace, min(squaredNorm(j.p.f.Len(), j.apply), j.trace)
}
