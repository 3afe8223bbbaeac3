package linops

import "surepipe/array"

// Spectrum is A*A = T* diag(values) T with an orthonormal transform T of images of a shape: the cosine
// transform (NewDCT2D of package imaging) or that of Fourier, of real images.
type Spectrum struct {
	// Shape is that of the images, 0 x 0 where nothing is known.
	Shape array.Shape
	// Values returns the eigenvalues in the order of the coefficients, or of the frequencies (k, l),
	// in a new slice.
	Values func() []float64
}

// Known reports whether the eigenvalues are known.
func (c Spectrum) Known() bool { return c.Values != nil }

func (c Spectrum) times(alpha float64) Spectrum {
	if !c.Known() {
		return c
	}
	return Spectrum{c.Shape, func() []float64 {
		values := c.Values()
		for i := range values {
			values[i] *= alpha * alpha
		}
		return values
	}}
}

// wavesOfProduct are those of A1 A2 ... An, where A2 to An commute with the shifts of an image.
func wavesOfProduct(parts []known) Spectra {
	first := parts[0].s.Circulant
	for i := range parts {
		s := &parts[i].s
		if !s.Circulant.Known() || s.Circulant.Shape != first.Shape || i > 0 && !s.Commutes {
			return Spectra{}
		}
	}
	return Spectra{Commutes: parts[0].s.Commutes, Circulant: Spectrum{first.Shape, func() []float64 {
		values := first.Values()
		for i := range parts[1:] {
			for j, v := range parts[i+1].s.Circulant.Values() {
				values[j] *= v
			}
		}
		return values
	}}}
}

// cosinesAbove are those of [A1; A2; ...], where all but one of A_i*A_i are multiples of the identity.
func (a *stack) cosinesAbove() Spectrum {
	var one Spectrum
	more := 0.0
	for i := range a.parts {
		s := &a.parts[i].s
		switch {
		case s.Columns.Known:
			more += s.Columns.Value
		case one.Known() || !s.Cosines.Known():
			return Spectrum{}
		default:
			one = s.Cosines
		}
	}
	if !one.Known() {
		return one
	}
	return Spectrum{one.Shape, func() []float64 {
		values := one.Values()
		for i := range values {
			values[i] += more
		}
		return values
	}}
}
