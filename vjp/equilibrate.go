package vjp

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
)

// equilibrated solves a problem in units in which the columns of A have about length 1: with
// b = s ∘ c it is
//
//	min_c  1/2 ||A diag(s) c - y||^2 + r(s ∘ c),
//
// whose solver sees neither the units of the columns nor their spread. mu_hat and its
// derivative are the same. The s_j are powers of two, so that nothing is rounded.
type equilibrated struct {
	Solver // in these units
	name   string
	p      Problem // in the user's
	o      Options
	units
	owned []prox.Releaser
	op    linops.Restricted // nil where it is another's
}

// units are the scales s and their inverses, on the device and on the host.
type units struct {
	s, inverse array.Batch
	host       []float64
}

// widestSpread is the ratio of the columns' lengths up to which their units are left alone.
const widestSpread = 8

// columnLengths2 are the squared lengths of A's columns; nil where A cannot say and there are too
// many to ask.
func columnLengths2(p Problem) []float64 {
	if known := linops.StructureOf(p.A).ColumnNorms2; known != nil {
		return known()
	}
	d, dim := p.A.Dims()
	if dim > maxDense || dim == 0 || d == 0 {
		return nil
	}
	x := images(p.Device, p.A)
	lengths := make([]float64, dim)
	for i := range d {
		for j, v := range x.RawRowView(i) {
			lengths[j] += v * v
		}
	}
	return lengths
}

// spread reports whether the columns of A, in units s, differ much in length.
func spread(lengths2, s []float64) bool {
	least, most := math.Inf(1), 0.0
	for j, v := range lengths2 {
		if s != nil {
			v *= s[j] * s[j]
		}
		if v > 0 && !math.IsInf(v, 1) {
			least, most = min(least, v), max(most, v)
		}
	}
	return most > widestSpread*widestSpread*least
}

// inverseLengths is 1/||a_j||, 0 for columns of zeros.
func inverseLengths(lengths2 []float64) []float64 {
	out := make([]float64, len(lengths2))
	for j, v := range lengths2 {
		if v > 0 {
			out[j] = 1 / math.Sqrt(v)
		}
	}
	return out
}

// unit is the power of two that brings a length near 1; 1 for lengths of 0 and beyond all range.
func unit(length float64) float64 {
	if !(length > 0) || math.IsInf(length, 1) {
		return 1
	}
	return math.Exp2(-math.Round(math.Log2(length)))
}

// columnUnits returns s, nil where the columns of these lengths are alike or r has no other units.
func columnUnits(r prox.Prox, lengths2 []float64) []float64 {
	rescaler, ok := prox.AsRescaler(r)
	if !ok || !spread(lengths2, nil) {
		return nil
	}
	s := make([]float64, len(lengths2))
	for j, v := range lengths2 {
		s[j] = unit(math.Sqrt(v))
	}
	rescaler.Units(s)
	for _, v := range s {
		if v != 1 {
			return s
		}
	}
	return nil
}

// newIterative is the solver of the given name, in other units where the columns of A call
// for it.
func newIterative(ctx context.Context, name string, p Problem, o Options) (Solver, error) {
	lengths2 := columnLengths2(p)
	s := columnUnits(p.R, lengths2)
	if s == nil {
		if spread(lengths2, nil) {
			o.shortness = inverseLengths(lengths2)
		}
		return newInUnits(ctx, name, p, o)
	}
	if spread(lengths2, s) {
		o.shortness = inverseLengths(lengths2)
		for j, v := range s {
			o.shortness[j] /= v
		}
	}
	r, _ := prox.AsRescaler(p.R)
	e := &equilibrated{name: name, p: p, o: o}
	inner, err := e.rescale(r, s)
	if err != nil {
		return nil, err
	}
	dev := p.Device
	e.op = linops.ScaleColumns(dev, p.A, s)
	e.units = units{dev.Alloc(1, len(s)), dev.Alloc(1, len(s)), s}
	dev.Upload(e.s, s)
	inverse := make([]float64, len(s))
	for j, v := range s {
		inverse[j] = 1 / v
	}
	dev.Upload(e.inverse, inverse)
	if e.Solver, err = newInUnits(ctx, name, Problem{A: e.op, R: inner, Device: dev}, o); err != nil {
		e.Release()
		return nil, err
	}
	return e, nil
}

// newInUnits is the solver of the given name for the problem as it is.
func newInUnits(ctx context.Context, name string, p Problem, o Options) (Solver, error) {
	if name == "admm" {
		return newADMM(ctx, p, o)
	}
	return newISTA(ctx, p, o, name == "fista")
}

// rescale returns c -> r(s ∘ c), and remembers to release it.
func (e *equilibrated) rescale(r prox.Rescaler, s []float64) (prox.Prox, error) {
	inner, err := r.Rescale(e.p.Device, s)
	if err != nil {
		return nil, fmt.Errorf("vjp: the regularizer in other units: %w", err)
	}
	if owner, ok := inner.(prox.Releaser); ok && inner != prox.Prox(r) {
		e.owned = append(e.owned, owner)
	}
	return inner, nil
}

// Solve solves in the other units and returns b in the user's.
func (e *equilibrated) Solve(ctx context.Context, y array.Batch) (*Solution, error) {
	return e.SolveFrom(ctx, y, array.Batch{})
}

// SolveFrom starts at b0.
func (e *equilibrated) SolveFrom(ctx context.Context, y, b0 array.Batch) (*Solution, error) {
	dev := e.p.Device
	if !b0.IsZero() {
		start := dev.Alloc(1, b0.N())
		defer start.Free()
		dev.Mul(start, b0, e.inverse)
		b0 = start
	}
	sol, err := e.Solver.SolveFrom(ctx, y, b0)
	if err != nil {
		return nil, err
	}
	dev.Mul(sol.B, sol.B, e.s)
	if err := dev.Sync(); err != nil {
		sol.Release()
		return nil, err
	}
	return sol, nil
}

// Reweight shares the units, the operator and its norm.
func (e *equilibrated) Reweight(ctx context.Context, r prox.Prox) (Solver, error) {
	p := e.p
	p.R = r
	other := &equilibrated{name: e.name, p: p, o: e.o, units: e.units}
	rescaler, ok := prox.AsRescaler(r)
	if !ok {
		return newInUnits(ctx, e.name, p, e.o)
	}
	inner, err := other.rescale(rescaler, e.host)
	if err != nil {
		return nil, err
	}
	if other.Solver, err = e.Solver.Reweight(ctx, inner); err != nil {
		other.releaseProx()
		return nil, err
	}
	return other, nil
}

func (e *equilibrated) releaseProx() {
	for _, r := range e.owned {
		r.Release()
	}
	e.owned = nil
}

// Release frees the operator and the regularizer in the other units.
func (e *equilibrated) Release() {
	if e.Solver != nil {
		e.Solver.Release()
	}
	e.releaseProx()
	if e.op != nil {
		e.op.Release()
		e.s.Free()
		e.inverse.Free()
	}
}
