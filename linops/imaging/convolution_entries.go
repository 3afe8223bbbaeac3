package imaging

import "surepipe/space"

func (a *Convolution) entries(most int) (space.Rows, bool) {
	kr, kc := a.taps.Dims()
	if n := a.rows * a.cols; n > 0 && kr*kc > most/n {
		return space.Rows{}, false
	}
	rows := space.Rows{Indptr: []int{0}}
	for i := range a.rows {
		for j := range a.cols {
			for s := range kr {
				for t, v := range a.taps.RawRowView(s) {
					r, c := i-s+kr/2, j-t+kc/2
					if a.boundary == Circular {
						r, c = wrap(r, a.rows), wrap(c, a.cols)
					}
					if v != 0 && r >= 0 && r < a.rows && c >= 0 && c < a.cols {
						rows.Indices, rows.Values = append(rows.Indices, r*a.cols+c), append(rows.Values, v)
					}
				}
			}
			rows.Indptr = append(rows.Indptr, len(rows.Indices))
		}
	}
	return rows, true
}
