package prox

import "surepipe/array"

// Releaser is a Prox that holds device memory of its own. Release frees it once
// the Prox is not needed any more; a Prox built from others does not own theirs.
type Releaser interface {
	Prox
	Release()
}

// valueOf returns the regularizer of p as a function, or nil if p does not know
// it. A Quadratic knows it without saying so.
func valueOf(p Prox) func(b array.Batch) float64 {
	switch p := p.(type) {
	case Block:
		return valueOf(p.Prox)
	case owned:
		return valueOf(p.Prox)
	case Valuer:
		return p.Value
	case Quadratic:
		return squaredL2{p.Curvature(), p.Dim()}.Value
	}
	return nil
}

// curvatureOf returns the curvature of p and true if p is quadratic.
func curvatureOf(p Prox) (float64, bool) {
	switch p := p.(type) {
	case Block:
		return curvatureOf(p.Prox)
	case owned:
		return curvatureOf(p.Prox)
	case Quadratic:
		return p.Curvature(), true
	}
	return 0, false
}

// valued adds a value to a Prox.
type valued struct {
	Prox
	value func(b array.Batch) float64
}

// Value returns r(b).
func (p valued) Value(b array.Batch) float64 {
	checkValue("regularizer", p.Dim(), b)
	return p.value(b)
}
