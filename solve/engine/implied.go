package engine

import (
	"surepipe/array"
	"surepipe/solve/internal/limits"
)

// Implied is a solution whose b and mu_hat are not written down: they follow from less, such as the
// factors of a matrix of low rank, and are computed where they are read.
type Implied struct {
	// Residual2 is ||y - mu_hat||^2.
	Residual2 float64
	// MuHat sets dst to the entries from, from+1, ... of mu_hat, and B to those of b.
	MuHat, B func(dst []float64, from int)
	// Factors returns b where it is a matrix of low rank, in new slices; nil where it is not.
	Factors func() *Factors

	// D and P are the lengths of mu_hat and b, and Free frees what these are computed from; nil for nothing.
	D, P int
	Free func()
}

// Write returns b and mu_hat as batches on dev, which the caller frees. A b of more than 2^31 - 1
// numbers cannot be written: a device reports a failure.
func (s *Implied) Write(dev array.Device) (b, mu array.Batch) {
	return write(dev, s.P, s.B), s.WriteMuHat(dev)
}

// WriteMuHat returns mu_hat alone.
func (s *Implied) WriteMuHat(dev array.Device) array.Batch { return write(dev, s.D, s.MuHat) }

func write(dev array.Device, n int, read func(dst []float64, from int)) array.Batch {
	x := dev.Alloc(1, n)
	part := make([]float64, min(n, limits.PanelValues))
	for from := 0; from < n; from += len(part) {
		to := min(from+len(part), n)
		read(part[:to-from], from)
		dev.Upload(x.Cols(from, to), part[:to-from])
	}
	return x
}

// Lend returns the same solution for somebody whose Release frees nothing.
func (s *Implied) Lend() *Implied {
	lent := *s
	lent.Free = nil
	return &lent
}

// Release frees what the solution is computed from.
func (s *Implied) Release() {
	if s.Free != nil {
		s.Free()
	}
	*s = Implied{}
}

// Expand writes down B and MuHat of a solution that is implied, on dev.
func (s *Solution) Expand(dev array.Device) {
	if s.Implied == nil {
		return
	}
	s.B, s.MuHat = s.Implied.Write(dev)
	s.Implied.Release()
	s.Implied = nil
}
