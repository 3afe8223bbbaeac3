package fit

import (
	"errors"
	"fmt"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
)

func finite(set *dataio.Set, name string) (dataio.Array, error) {
	a, err := set.Floats(name)
	if err == nil {
		err = a.CheckFinite()
	}
	return a, err
}

func (f *Fit) loadFactors(set *dataio.Set) error {
	var parts [3]dataio.Array
	for k, name := range []string{"S", "U", "V"} {
		a, err := finite(set, name)
		if err != nil {
			return err
		}
		expected := "(r,)"
		if k > 0 {
			expected = fmt.Sprintf("(n, %d): \"S\" holds %d singular values", len(f.S), len(f.S))
		}
		if axes := min(k, 1) + 1; len(a.Shape) != axes || k > 0 && a.Shape[1] != len(f.S) {
			return fmt.Errorf("array %q has shape %s, expected %s", name, ndarray.ShapeString(a.Shape), expected)
		}
		if parts[k] = a; k == 0 {
			f.S = a.Data
		}
	}
	f.U, f.V, f.BShape = parts[1].Data, parts[2].Data, []int{parts[1].Shape[0], parts[2].Shape[0]}
	if !set.Has("shape") {
		return nil
	}
	shape, err := set.Ints("shape")
	if err != nil {
		return err
	}
	const most = 1 << 53 // of the places
	if n := shape.Ints; len(n) != 2 || n[0] < 1 || n[1] < 1 || n[0] > most/n[1] {
		return fmt.Errorf("array \"shape\" is %v, expected the 2 dimensions of a matrix", n)
	}
	f.BShape = []int{int(shape.Ints[0]), int(shape.Ints[1])}
	return nil
}

func (f *Fit) loadLines(set *dataio.Set) error {
	for k, v := range []struct {
		name string
		to   *[]int
	}{{"rows", &f.RowsAt}, {"cols", &f.ColumnsAt}} {
		if !set.Has(v.name) {
			continue
		}
		a, err := set.Ints(v.name)
		if err != nil {
			return err
		}
		for i, line := range a.Ints {
			if line < 0 || line >= int64(f.BShape[k]) || i > 0 && line <= a.Ints[i-1] {
				return fmt.Errorf("array %q holds %d at [%d], expected increasing numbers from 0 to %d", v.name, line,
					i, f.BShape[k]-1)
			}
			*v.to = append(*v.to, int(line))
		}
	}
	if n, r := f.extent(), len(f.S); f.U != nil && (len(f.U) != n[0]*r || len(f.V) != n[1]*r) {
		return fmt.Errorf("arrays \"U\" and \"V\" have %d and %d rows, expected %d and %d", len(f.U)/r, len(f.V)/r,
			n[0], n[1])
	}
	return nil
}

func (f *Fit) loadEntries(set *dataio.Set) error {
	if len(f.BShape) != 2 {
		return fmt.Errorf("array \"b\" has shape %s, expected (m, n), a completed matrix",
			ndarray.ShapeString(f.BShape))
	}
	if err := f.loadLines(set); err != nil {
		return err
	}
	all := int64(f.entries())
	places, err := set.Ints("indices")
	if err != nil {
		return err
	}
	if set.Has("scale") {
		a, err := finite(set, "scale")
		if err != nil {
			return err
		}
		if f.Scale = a.Data; len(a.Data) != f.BShape[1] {
			return fmt.Errorf("array \"scale\" has %d values, expected %d, one for each column", len(a.Data),
				f.BShape[1])
		}
	}
	f.Observed = make([]int, len(places.Ints))
	for i, c := range places.Ints {
		if c < 0 || c >= all {
			return fmt.Errorf("array \"indices\" holds %d at [%d], expected 0 to %d", c, i, all-1)
		}
		f.Observed[i] = int(c)
	}
	if err := f.loadEffects(set); err != nil || f.RowsBy == "" {
		return err
	}
	for _, v := range []struct {
		name  string
		n     int
		texts *[]string
	}{{"row_names", f.BShape[0], &f.RowNames}, {"column_names", f.BShape[1], &f.ColumnNames}} {
		a, err := set.Texts(v.name)
		if err != nil {
			return err
		}
		if *v.texts = a.Texts; len(a.Texts) != v.n {
			return fmt.Errorf("array %q has %d texts, expected %d", v.name, len(a.Texts), v.n)
		}
	}
	f.rowAt, f.columnAt = placesOf(f.RowNames), placesOf(f.ColumnNames)
	if len(f.rowAt) != len(f.RowNames) || len(f.columnAt) != len(f.ColumnNames) {
		return errors.New("arrays \"row_names\" and \"column_names\" hold a text twice, expected different names")
	}
	return nil
}

func placesOf(names []string) map[string]int {
	at := make(map[string]int, len(names))
	for i, name := range names {
		at[name] = i
	}
	return at
}

func (f *Fit) loadEffects(set *dataio.Set) error {
	if len(f.EffectNames) == 0 {
		return nil
	}
	mean, err := set.Scalar("effects_mean")
	if err != nil {
		return err
	}
	f.Effects = &Effects{Mean: mean}
	for k, to := range []*[]float64{&f.Effects.Rows, &f.Effects.Columns} {
		name, n := []string{"effects_rows", "effects_cols"}[k], f.extent()[k]
		if !set.Has(name) {
			continue
		}
		a, err := finite(set, name)
		if err != nil {
			return err
		}
		if *to = a.Data; len(a.Data) != n {
			return fmt.Errorf("array %q has %d values, expected %d", name, len(a.Data), n)
		}
	}
	for _, name := range f.EffectNames {
		if name == "rows" && f.Effects.Rows == nil || name == "cols" && f.Effects.Columns == nil {
			return fmt.Errorf("array \"effects_%s\" is missing: the fit has effects of %s", name, name)
		}
	}
	return nil
}
