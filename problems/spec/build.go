package spec

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/problems/internal/check"
)

// Parts are what a specification describes for given arrays and y, before an intercept, effects, the units
// of columns and the values of weights.
type Parts struct {
	// Operator is A with the synthesis, whitened as y is, and Shape is the shape of b.
	Operator linops.Operator
	Shape    []int
	// Source is the array of the data that the operator is, unchanged; nil where it is another one.
	Source *Source
	// Behind is the operator K behind which the penalties stand; nil where they are of b itself.
	Behind linops.Operator
	// Penalties are those of consecutive blocks of b, or of K b.
	Penalties []*Penalty
	// Weights are those of the observations in the loss, and WeightsLine where the specification has them,
	// 0 where the data do; nil for ones.
	Weights     []float64
	WeightsLine int
	Picture
	// Thresholds is how many thresholds were chosen by SURE at y, and Center the axis of rotation of a
	// scanner as it was found from y, nil where it was not.
	Thresholds int
	Center     *Center
	// Missing is the number of missing values of the operator's matrix, which count as the mean of their
	// column.
	Missing int64
	// Targets says what the estimates of risk are about, with the squared loss and white noise.
	Targets Targets

	mu    sync.Mutex // of owned: regularizers at other weights are made concurrently
	owned []func()
}

// Picture is how to present a solution.
type Picture struct {
	// Signal maps b to the signal where that is neither b nor mu_hat: the synthesis of a
	// specification, the image before it is blurred or partly lost. SignalShape is the
	// signal's shape. Both are nil elsewhere.
	Signal      linops.Operator
	SignalShape []int
	// Measurement is the operator without the synthesis, from the signal to mu, whitened as y is.
	Measurement linops.Operator
	// Original maps the signal, or mu_hat where there is none, to the units of y, in place; nil where it
	// is in these.
	Original func(x []float64)
	// SignalComplex says that the last axis of its shape is the real and imaginary part of complex numbers.
	SignalComplex bool
}

// Own makes Release call release, which frees the device memory of a part.
func (p *Parts) Own(release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owned = append(p.owned, release)
}

// Give hands over what the parts hold so far, which the result frees.
func (p *Parts) Give() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	given := &Parts{owned: p.owned}
	p.owned = nil
	return given.Release
}

// Release frees what the parts hold on the device; there may be none.
func (p *Parts) Release() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, release := range p.owned {
		release()
	}
	p.owned = nil
}

type builder struct {
	*Spec
	dev     array.Device
	data    Data
	parts   *Parts
	sources []*Source
}

func (b *builder) array(ref *arrayRef) dataio.Array { return b.loaded[ref].Array }

// Build makes the parts of the problem that the specification describes, whose arrays are those of
// [Spec.Load] or [Spec.With]. They are to be released.
func (s *Spec) Build(dev array.Device, data Data) (*Parts, error) {
	b := &builder{Spec: s, dev: dev, data: data, parts: &Parts{}}
	if err := b.build(); err != nil {
		b.parts.Release()
		return nil, err
	}
	return b.parts, nil
}

func (b *builder) build() error {
	shape, outcomes := b.data.YShape, []int(nil)
	if b.Spec.LossOf(b.data).Row().Columns {
		shape, outcomes = shape[:1], shape[1:] // the rows of the operator, and as many coefficients of each column
	}
	if b.noise != nil {
		shape = b.observedShape
	}
	a, err := b.operator(b.Spec.operator, shape, nil)
	if err != nil {
		return err
	}
	p := b.parts
	p.Targets = b.targets(lists.Product(a.rows), lists.Product(a.cols))
	measured := a
	if a, err = b.signal(a); err != nil {
		return err
	}
	if a, measured, err = b.whitened(a, measured); err != nil {
		return err
	}
	a.cols = slices.Concat(a.cols, outcomes)
	p.Operator, p.Shape, p.Measurement, p.Source = a.op, a.cols, measured.op, b.source(a.op)
	if err := b.observationWeights(); err != nil {
		return err
	}
	if !b.Spec.regularizer.has(lowRank) { // a low rank needs no vector of length p
		if err := fits(a.cols, "b of shape"); err != nil {
			return err
		}
	}
	if b.terms != nil {
		p.Penalties, err = b.behind(a.cols, a.colAverages)
	} else {
		p.Penalties, err = b.regularizer(b.Spec.regularizer, Block{a.cols, a.colAverages}, a.parts)
	}
	return err
}

// outcomes is the number of columns of y for a loss that has several, 1 for others.
func (b *builder) outcomes() int {
	if b.Spec.LossOf(b.data).Row().Columns {
		return b.data.YShape[1]
	}
	return 1
}

func (b *builder) observationWeights() error {
	a := dataio.Array{Name: "weights", Shape: []int{len(b.data.Weights)}, Data: b.data.Weights}
	switch ref := b.lossWeights; {
	case ref != nil && b.data.Weights != nil:
		return b.Errorf(ref.line, "the data have weights of the observations, and the specification has "+
			"its own: expected one of them")
	case ref != nil:
		a, b.parts.WeightsLine = b.array(ref), ref.line
	case b.data.Weights == nil:
		return nil
	}
	d, _ := b.parts.Operator.Dims()
	if err := checkWeights(a, d); err != nil {
		return b.At(b.parts.WeightsLine, err)
	}
	b.parts.Weights = a.Data
	return nil
}

// checkWeights rejects weights of the loss unless they are d numbers >= 0, some of them positive.
func checkWeights(a dataio.Array, d int) error {
	if len(a.Data) != d {
		return fmt.Errorf("array %q has %d values, expected %d, a weight for each entry of y", a.Name, len(a.Data), d)
	}
	if err := cmp.Or(a.CheckFinite(), a.Expect("weights of at least 0",
		func(w float64) bool { return w >= 0 })); err != nil {
		return err
	}
	most := lists.MaxAbs(a.Data)
	if most == 0 {
		return fmt.Errorf("array %q is 0 everywhere, expected some positive weights", a.Name)
	}
	return check.Scale(a.Name, most)
}
