package load

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/lists"
	"surepipe/problems"
	"surepipe/risk/warning"
	"surepipe/study"
)

// A table that was read twice has copies, as has one with a quarter of its rows again. A design with few rows of X and
// a rounded y, counts, single pairs, and copies that --groups leaves out together are none.
func TestCopiesAreTold(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	measured := func(int) []float64 { return []float64{r.NormFloat64(), r.NormFloat64(), r.NormFloat64()} }
	crossed := func(i int) []float64 { return []float64{float64(i % 2), float64(i % 3), float64(10 + r.IntN(20))} }
	labels := func(i int) []float64 { return []float64{r.NormFloat64(), float64(i % 3), float64(r.IntN(2))} }
	for _, c := range []struct {
		row    func(i int) []float64
		again  int
		groups string
		told   bool
	}{{measured, 0, "", false}, {measured, 2, "", false}, {measured, 15, "", true}, {measured, 60, "", true},
		{measured, 60, "site", false}, {crossed, 0, "", false}, {crossed, 60, "", true}, {labels, 0, "", false},
		{labels, 60, "", true}} {
		rows := lists.Make(60, c.row)
		rows = append(rows, rows[:c.again]...)
		data := problems.Data{X: mat.NewDense(len(rows), 2, nil)}
		for i, row := range rows {
			data.X.(*mat.Dense).SetRow(i, row[:2])
			data.Y = append(data.Y, row[2])
		}
		f := &Source{Problem: "ridge"}
		f.Table.Groups = c.groups
		var notes study.Notes
		f.noteCopies(&notes, data)
		told := slices.ContainsFunc(notes, func(n study.Note) bool { return n.Code == warning.Copies.Code })
		if told != c.told {
			t.Errorf("%d rows again of %v, groups %q: told %t", c.again, rows[0], c.groups, told)
		}
	}
}
