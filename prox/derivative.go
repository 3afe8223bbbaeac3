package prox

import (
	"sync"

	"surepipe/array"
	"surepipe/prox/internal/vector"
)

type derivative struct {
	jacobian
	name  string
	n     int
	apply func(dst, z array.Batch)
}

// NewDerivative returns the derivative J on vectors of length n that apply applies, dst = J z, of a regularizer of a
// name. build makes its model when it is first asked for; it is nil where none is known. The derivative owns the
// memory.
func NewDerivative(name string, n int, apply func(dst, z array.Batch), build func() *Model,
	memory ...array.Memory) Derivative {
	j := &derivative{name: name, n: n, apply: apply}
	j.build = build
	j.Hold(memory...)
	return j
}

func (j *derivative) Apply(dst, z array.Batch) {
	vector.CheckApply(j.name, j.n, dst, z)
	j.apply(dst, z)
}

// jacobian is embedded in a [Derivative]: it has what a J that is not diagonal takes beside Apply.
type jacobian struct {
	// build makes the model when it is first asked for; nil where none is known.
	build func() *Model
	// Held is memory of J besides that of the model.
	array.Held

	mu    sync.Mutex
	built bool
	model *Model
}

func (j *jacobian) Diagonal() array.Batch { return array.Batch{} }

func (j *jacobian) Model() *Model {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.built && j.build != nil {
		j.model, j.built = j.build(), true
	}
	return j.model
}

func (j *jacobian) Bytes() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	bytes := j.Held.Bytes()
	if j.model != nil {
		bytes += j.model.Space.Bytes()
		if j.model.Curvature != nil {
			bytes += j.model.Curvature.Bytes()
		}
	}
	return bytes
}

func (j *jacobian) Release() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.model != nil {
		j.model.Space.Release()
		if j.model.Curvature != nil {
			j.model.Curvature.Release()
		}
		j.model = nil
	}
	j.Held.Release()
}

// keep returns b, which make makes the first time and j then holds.
func (j *jacobian) keep(b *array.Batch, make func() array.Batch) array.Batch {
	j.mu.Lock()
	defer j.mu.Unlock()
	if b.IsZero() {
		*b = make()
		j.Hold(*b)
	}
	return *b
}
