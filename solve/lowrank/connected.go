package lowrank

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/sublist"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/prox/lowrank"
	"surepipe/solve/engine"
)

// Connected are the parts of a completion. With the nuclear norm the solution is 0 in the rows and columns of the
// matrix without an observed entry, and the norm of a matrix that is block-diagonal after a permutation is
// the sum of those of its blocks. So each part is a problem of its own, with its own entries, rows and columns,
// and b, mu_hat and D mu_hat consist of those of the parts.
type Connected struct {
	Shape array.Shape
	Parts []linops.Part
	// Choice says so.
	Choice engine.Choice

	p       engine.Problem
	weights []float64 // of the observations; nil for ones
}

// ConnectedParts are those of a problem, nil where it is one that is all of the matrix. A loss that is not
// quadratic, or with a weight of 0, leaves one part; so do effects that tie the parts together.
func ConnectedParts(p engine.Problem) *Connected {
	r, of := prox.StructureOf(p.R), linops.StructureOf(p.A).Parts
	if p.K != nil || !r.Nuclear.Known || of == nil {
		return nil
	}
	s := &Connected{Shape: r.Shape, p: p, weights: loss.Weighing(p.Loss)}
	split := loss.Quadratic(p.Loss) && !slices.Contains(s.weights, 0)
	if s.Parts = of(r.Shape, split); s.Parts == nil {
		return nil
	}
	rows, columns := 0, 0
	for _, part := range s.Parts {
		rows, columns = rows+len(part.Rows), columns+len(part.Columns)
	}
	chosen := "the rows and columns that occur"
	if n := len(s.Parts); n > 1 {
		chosen = fmt.Sprintf("%d connected parts", n)
	}
	s.Choice = engine.Choice{Part: "matrix", Chosen: chosen,
		Reason: fmt.Sprintf("%d of %d rows and %d of %d columns have an observed entry: b is 0 in the others, and "+
			"the nuclear norm is the sum of those of parts without a row or column in common", rows, r.Shape.Rows,
			columns, r.Shape.Cols)}
	return s
}

// Problem is the k-th part, with what frees it.
func (s *Connected) Problem(k int) (engine.Problem, func(), error) {
	part := &s.Parts[k]
	a, release, err := part.Operator()
	if err != nil {
		return engine.Problem{}, nil, err
	}
	own := engine.Problem{A: a, Loss: s.p.Loss, R: s.Regularizer(s.p.R, k), Device: s.p.Device}
	if len(s.Parts) == 1 || s.weights == nil {
		return own, release, nil
	}
	w := lists.Pick(s.weights, part.Entries)
	l, err := loss.WeightedSquared(s.p.Device, w)
	if err != nil {
		release()
		return engine.Problem{}, nil, err
	}
	own.Loss = l
	return own, func() { l.Release(); release() }, nil
}

// Regularizer is a nuclear norm of the matrix as that of a part.
func (s *Connected) Regularizer(r prox.Prox, k int) prox.Prox {
	return lowrank.NewNuclear(s.Parts[k].Shape(), prox.StructureOf(r).Nuclear.Value)
}

// Convergence is that of the whole, from those of the parts and their residuals ||y - mu_hat||.
func (s *Connected) Convergence(parts []engine.Convergence, residuals []float64, sigma2 float64) engine.Convergence {
	c := engine.Convergence{Method: parts[0].Method, Converged: true, Closed: true}
	off2, scale2, error2 := 0.0, 0.0, 0.0
	for k, part := range parts {
		scale := sigma2 * float64(len(s.Parts[k].Entries))
		if sigma2 == 0 {
			scale = residuals[k] * residuals[k]
		}
		off2, scale2, error2 = off2+part.Optimality*part.Optimality*scale, scale2+scale, error2+part.Error*part.Error
		c.Iterations, c.Lag = max(c.Iterations, part.Iterations), c.Lag+part.Lag
		c.Converged, c.Closed = c.Converged && part.Converged, c.Closed && part.Closed
	}
	if c.Error = math.Sqrt(error2); scale2 > 0 {
		c.Optimality = math.Sqrt(off2 / scale2)
	}
	return c
}

// Join is the solution whose parts have the given factors. It takes over mu, which is mu_hat, and what release
// frees, which the factors are computed from.
func (s *Connected) Join(parts []func() *engine.Factors, mu array.Batch, residual2 float64,
	release func()) *engine.Implied {
	dev := mu.Device()
	factors := func() *engine.Factors {
		if len(parts) == 1 {
			return s.within(parts[0](), 0)
		}
		sum := &engine.Factors{Shape: s.Shape, Parts: make([]*engine.Factors, len(parts))}
		for k, part := range parts {
			sum.Parts[k] = s.within(part(), k)
		}
		return sum
	}
	dense := sync.OnceValue(func() []float64 { return factors().Dense() })
	return &engine.Implied{
		Residual2: residual2, D: mu.N(), P: s.Shape.Len(), Free: func() { mu.Free(); release() },
		MuHat:   func(dst []float64, from int) { dev.Download(dst, mu.Cols(from, from+len(dst))) },
		B:       func(dst []float64, from int) { copy(dst, dense()[from:]) },
		Factors: factors,
	}
}

func (s *Connected) within(f *engine.Factors, k int) *engine.Factors {
	own, part := *f, &s.Parts[k]
	own.Shape, own.Rows, own.Columns = s.Shape, sublist.Of(part.Rows, s.Shape.Rows),
		sublist.Of(part.Columns, s.Shape.Cols)
	return &own
}

// Place writes down the matrix of the k-th part, row-major, in that of the whole.
func (s *Connected) Place(whole, b []float64, k int) {
	part := &s.Parts[k]
	for u, i := range part.Rows {
		for v, j := range part.Columns {
			whole[i*s.Shape.Cols+j] = b[u*len(part.Columns)+v]
		}
	}
}

// Take is the inverse of Place.
func (s *Connected) Take(whole []float64, k int) []float64 {
	part := &s.Parts[k]
	b := make([]float64, 0, part.Shape().Len())
	for _, i := range part.Rows {
		for _, j := range part.Columns {
			b = append(b, whole[i*s.Shape.Cols+j])
		}
	}
	return b
}
