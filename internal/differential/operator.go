package differential

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/problems"
)

// Op is a description of an operator, d x p, that both sides understand: build makes it with
// package linops, and matrix has its entries.
type Op struct {
	// Kind is dense, csr, identity, selection, hstack, compose, scale, difference1d,
	// difference2d, differences or centered.
	Kind string
	Rows int
	Cols int
	// Data are the entries of dense and csr, row-major, and the places of differences, if they are uneven.
	Data []float64 `json:",omitempty"`
	// Index are a selection's coordinates.
	Index []int `json:",omitempty"`
	// Alpha is scale's factor.
	Alpha float64 `json:",omitempty"`
	// Shape is difference2d's image.
	Shape [2]int `json:",omitzero"`
	// Parts are the operators that hstack, compose, scale and centered combine.
	Parts []Op `json:",omitempty"`
}

// matrix is the operator as a matrix: exact, or to 32 digits where there are products and means.
// size lists for each column the size of the terms from which it was computed: a column far smaller
// than that is the result of cancellation.
func (o Op) matrix() (m *matrix, size []float64) {
	m = newMatrix(o.Rows, o.Cols)
	switch o.Kind {
	case "dense", "csr":
		copy(m.a, numbers(o.Data))
	case "identity":
		for i := range o.Rows {
			m.set(i, i, num(1))
		}
	case "selection":
		for i, j := range o.Index {
			m.set(i, j, num(1))
		}
	case "hstack":
		at := 0
		for _, part := range o.Parts {
			q, s := part.matrix()
			for i := range q.r {
				copy(m.row(i)[at:], q.row(i))
			}
			at += q.c
			size = append(size, s...)
		}
		return m, size
	case "compose":
		return o.product()
	case "scale":
		m, size = o.Parts[0].matrix()
		for i, v := range m.a {
			m.a[i] = v.Mul(num(o.Alpha))
		}
		for j := range size {
			size[j] *= math.Abs(o.Alpha)
		}
		return m, size
	case "difference1d":
		for i := range o.Rows {
			m.set(i, i, num(-1))
			m.set(i, i+1, num(1))
		}
	case "difference2d":
		differences(m, o.Shape[0], o.Shape[1])
	case "differences":
		o.divided(m)
	case "centered":
		m, size = o.Parts[0].matrix()
		m.center()
		return m, size
	default:
		panic("differential: operator " + o.Kind)
	}
	return m, m.columnNorms()
}

// product is compose's matrix.
func (o Op) product() (m *matrix, size []float64) {
	m, size = o.Parts[0].matrix()
	for _, part := range o.Parts[1:] {
		q, _ := part.matrix()
		m = m.mul(q)
		sum := make([]float64, q.c)
		for k := range q.r {
			for j, v := range q.row(k) {
				sum[j] += size[k] * math.Abs(v.Hi)
			}
		}
		size = sum
	}
	return m, size
}

// differences writes the differences of a rows x cols image, down and then along.
func differences(m *matrix, rows, cols int) {
	k := 0
	put := func(from, to int) {
		m.set(k, from, num(-1))
		m.set(k, to, num(1))
		k++
	}
	for i := range rows - 1 {
		for j := range cols {
			put(i*cols+j, (i+1)*cols+j)
		}
	}
	for i := range rows {
		for j := range cols - 1 {
			put(i*cols+j, i*cols+j+1)
		}
	}
}

// center subtracts the means of the columns.
func (m *matrix) center() {
	for j := range m.c {
		var sum dd
		for i := range m.r {
			sum = sum.Add(m.at(i, j))
		}
		mean := sum.Div(num(float64(m.r)))
		for i := range m.r {
			m.set(i, j, m.at(i, j).Sub(mean))
		}
	}
}

// build makes the operator on a device, and the function that releases it.
func (o Op) build(dev array.Device) (a linops.Operator, release func(), err error) {
	release = func() {}
	switch o.Kind {
	case "dense":
		x := linops.NewDense(dev, mat.NewDense(o.Rows, o.Cols, append([]float64(nil), o.Data...)))
		return x, x.Release, nil
	case "csr":
		s := o.sparse()
		x, err := linops.NewCSR(dev, s.Rows, s.Cols, s.IndPtr, s.Indices, s.Values)
		if err != nil {
			return nil, nil, err
		}
		return x, x.Release, nil
	case "identity":
		return linops.Identity(o.Rows), release, nil
	case "selection":
		s, err := linops.NewSelection(dev, o.Cols, o.Index)
		if err != nil {
			return nil, nil, err
		}
		return s, s.Release, nil
	case "difference1d":
		return imaging.NewDifference1D(o.Cols), release, nil
	case "difference2d":
		return imaging.NewDifference2D(o.Shape[0], o.Shape[1]), release, nil
	case "differences":
		return o.buildDivided(), release, nil
	case "centered":
		return o.Parts[0].buildCentered(dev)
	}
	var parts []linops.Operator
	var releases []func()
	release = func() {
		for _, r := range releases {
			r()
		}
	}
	for _, part := range o.Parts {
		q, r, err := part.build(dev)
		if err != nil {
			release()
			return nil, nil, err
		}
		parts, releases = append(parts, q), append(releases, r)
	}
	switch o.Kind {
	case "hstack":
		return linops.HStack(parts...), release, nil
	case "compose":
		return linops.Compose(parts...), release, nil
	case "scale":
		return linops.Scale(o.Alpha, parts[0]), release, nil
	}
	release()
	return nil, nil, fmt.Errorf("differential: operator %q", o.Kind)
}

// buildCentered is the operator of a regression with an intercept.
func (o Op) buildCentered(dev array.Device) (linops.Operator, func(), error) {
	y := make([]float64, o.Rows)
	data := problems.Data{Y: y, Intercept: true}
	if o.Kind == "csr" {
		data.X = problems.Matrix{Sparse: o.sparse()}
	} else {
		data.X = mat.NewDense(o.Rows, o.Cols, append([]float64(nil), o.Data...))
	}
	p, err := problems.New("ols", dev, data, problems.Hyper{})
	if err != nil {
		return nil, nil, err
	}
	return p.Operator, p.Release, nil
}

// sparse is csr's matrix.
func (o Op) sparse() *dataio.Sparse {
	s := &dataio.Sparse{Rows: o.Rows, Cols: o.Cols, IndPtr: []int{0}}
	for i := range o.Rows {
		for j := range o.Cols {
			if v := o.Data[i*o.Cols+j]; v != 0 {
				s.Indices, s.Values = append(s.Indices, j), append(s.Values, v)
			}
		}
		s.IndPtr = append(s.IndPtr, len(s.Indices))
	}
	return s
}
