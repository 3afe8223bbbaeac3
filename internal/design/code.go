package design

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/dataio"
)

func (d *Data) fill(columns []dataio.Column, rows []int) {
	for j, c := range columns {
		v := &d.Design.Variables[j]
		v.Fill = make([]float64, v.Width())
		n := 0.0
		row := make([]float64, v.Width())
		for _, i := range rows {
			if c.Missing(i) {
				continue
			}
			n++
			v.put(row, c, i)
			for k, x := range row {
				v.Fill[k] += (x - v.Fill[k]) / n
			}
		}
	}
}

// put sets dst to the columns of X of a cell that is not missing. It returns false for a level that
// the variable does not have.
func (v *Variable) put(dst []float64, c dataio.Column, i int) bool {
	if v.Levels == nil {
		dst[0] = c.Values[i]
		return true
	}
	clear(dst)
	k, known := slices.BinarySearch(v.Levels, c.Levels[c.Codes[i]])
	if at := k - (len(v.Levels) - len(dst)); known && at >= 0 {
		dst[at] = 1
	}
	return known
}

// code makes the rows of X from the columns of its variables, in their order.
func (d *Design) code(t *dataio.Table, columns []dataio.Column, rows []int) (x *mat.Dense, filled int, err error) {
	p := len(d.Columns())
	x = mat.NewDense(len(rows), p, nil)
	for r, i := range rows {
		row := x.RawRowView(r)
		for j := range d.Variables {
			v, c := &d.Variables[j], columns[j]
			w := v.Width()
			switch {
			case !c.Missing(i):
				if !v.put(row[:w], c, i) {
					return nil, 0, fmt.Errorf("%s: found the level %.40q, which the fit does not know; "+
						"expected one of %s", t.Place(i, c.Name), c.Levels[c.Codes[i]], list(v.Levels))
				}
			case v.Fill == nil:
				return nil, 0, fmt.Errorf("%s: the value is missing", t.Place(i, c.Name))
			default:
				copy(row[:w], v.Fill)
				filled++
			}
			row = row[w:]
		}
	}
	return x, filled, nil
}
