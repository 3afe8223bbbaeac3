package linops

import (
	"surepipe/array"
)

// Shifts says what is known of an operator and the circular shifts of row-major images, a vector
// being an image with one row. The zero value says nothing.
type Shifts struct {
	// Shape is that of the images, with at least one pixel.
	Shape array.Shape
	// Commutes reports that A maps images to images and commutes with every shift, as a circular
	// convolution does.
	Commutes bool
	// Rows and Columns return the rows or the columns of A by classes in which each is a shift of
	// every other; nil where they are not known. The classes of a wavelet transform's rows are its
	// subbands.
	Rows, Columns func() [][]int
}

// known reports whether anything is.
func (s *Shifts) known() bool { return s.Commutes || s.Rows != nil || s.Columns != nil }

func shiftsOfAdjoint(s Shifts) Shifts {
	s.Rows, s.Columns = s.Columns, s.Rows
	return s
}

// shiftsOfProduct are those of A1 A2 ... An. Where A1 to An-1 commute with the shifts, the classes
// of columns are those of An.
func shiftsOfProduct(parts []known) Shifts {
	last := len(parts) - 1
	s := parts[last].s.Shifts
	s.Rows = nil
	for i := range parts[:last] {
		if t := &parts[i].s.Shifts; !t.Commutes || t.Shape != s.Shape {
			return Shifts{}
		}
	}
	if !s.known() {
		return Shifts{}
	}
	return s
}

// normsByClass returns ||a_j||^2 by products with one column of every class.
func normsByClass(a Operator, classes func() [][]int) func() []float64 {
	return func() []float64 {
		d, p := a.Dims()
		dev := array.NewHost()
		unit, image := dev.Alloc(1, p), dev.Alloc(1, d)
		defer array.Free(unit, image)
		norms, host := make([]float64, p), make([]float64, p)
		var n [1]float64
		for _, class := range classes() {
			if len(class) == 0 {
				continue
			}
			host[class[0]] = 1
			dev.Upload(unit, host)
			host[class[0]] = 0
			a.Forward(image, unit)
			dev.Dot(n[:], image, image)
			for _, j := range class {
				norms[j] = n[0]
			}
		}
		return norms
	}
}
