package linops_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/linops/linopstest"
	"surepipe/space"
)

// The entries of operators and of what is made of them are those of their products.
func TestEntries(t *testing.T) {
	dev := array.NewHost()
	rng := rand.New(rand.NewPCG(31, 32))
	csr := func(rows, cols int) linops.Operator {
		indptr, indices, values := []int{0}, []int(nil), []float64(nil)
		for range rows {
			for j := range cols {
				if rng.IntN(3) == 0 {
					indices, values = append(indices, j), append(values, rng.NormFloat64())
				}
			}
			indptr = append(indptr, len(indices))
		}
		a, err := linops.NewCSR(dev, rows, cols, indptr, indices, values)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	pick, err := linops.NewSelection(dev, 12, []int{3, 0, 11, 7})
	if err != nil {
		t.Fatal(err)
	}
	blur := func(b imaging.Boundary) linops.Operator {
		kernel := mat.NewDense(3, 2, []float64{1, 2, 3, 4, 5, 6})
		c, err := imaging.NewConvolution2D(3, 4, kernel, b)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	weights := linops.NewDiagonal(dev, []float64{1, -2, 3, 0, 5, 6, 7, 8, 9, 10, 11, 12})
	for name, a := range map[string]linops.Operator{
		"identity": linops.Identity(5), "selection": pick, "diagonal": weights, "sparse": csr(5, 7),
		"multiple": linops.Scale(-2, csr(4, 3)),
		"gradient": imaging.NewGradient([]int{3, 4}, nil, imaging.Periodic), "differences": imaging.NewDifference2D(3,
			4),
		"circular": blur(imaging.Circular), "padded": blur(imaging.ZeroPadded),
		"above":           linops.VStack(csr(3, 6), linops.Identity(6), imaging.NewDifference1D(6)),
		"beside":          linops.HStack(csr(4, 6), linops.Identity(4)),
		"diagonal blocks": linops.BlockDiag(csr(2, 3), pick),
		"product":         linops.Compose(pick, weights, blur(imaging.Circular)),
	} {
		d, p := a.Dims()
		rows, ok := linops.Entries(a, 1000)
		if !ok {
			t.Errorf("%s: no entries", name)
			continue
		}
		got := mat.NewDense(d, p, nil)
		for i := range d {
			for u := rows.Indptr[i]; u < rows.Indptr[i+1]; u++ {
				got.Set(i, rows.Indices[u], got.At(i, rows.Indices[u])+rows.Values[u])
			}
		}
		got.Sub(got, linops.ToDense(dev, a))
		if off := mat.Norm(got, 1); !(off < 1e-12) || math.IsNaN(off) {
			t.Errorf("%s: the entries are off by %g", name, off)
		}
		if _, ok := linops.Entries(a, len(rows.Indices)-1); ok {
			t.Errorf("%s: %d entries, at most one less was asked for", name, len(rows.Indices))
		}
	}
	for name, a := range map[string]linops.Operator{"dct": imaging.NewDCT(4),
		"product": linops.Compose(linops.Identity(4), imaging.NewDCT(4))} {
		if _, ok := linops.Entries(a, 1000); ok {
			t.Errorf("%s: has entries", name)
		}
	}
}

// An operator of another package has entries, lengths of rows and rows of its own by what its structure says, also as
// a part of others.
func TestRowsOfAnOutsideOperator(t *testing.T) {
	dev := array.NewHost()
	reversed := func(dst, src []float64) {
		for i, v := range src {
			dst[len(src)-1-i] = 2 * v
		}
	}
	var picks int
	rows := func() space.Rows {
		return space.Rows{Indptr: []int{0, 1, 2, 3}, Indices: []int{2, 1, 0}, Values: []float64{2, 2, 2}}
	}
	s := linops.Structure{Storage: linops.Storage{
		Listed:    func(most int) (space.Rows, bool) { return rows(), most >= 3 },
		RowNorms2: func([]float64) []float64 { return []float64{4, 4, 4} },
		PickRows: func(dev array.Device, at []int) (linops.Operator, func(), error) {
			picks++
			picked, err := linops.NewSelection(dev, 3, []int{2 - at[0]})
			return linops.Scale(2, picked), picked.Release, err
		},
	}}
	a := linops.WithStructure(linops.NewFunc(3, 3, reversed, reversed), s)
	if err := linopstest.Check(dev, linops.WithStructure(a, linops.Structure{Storage: linops.Storage{
		Listed: s.Listed, RowNorms2: s.RowNorms2}})); err != nil {
		t.Error(err)
	}
	for _, whole := range []linops.Operator{a, linops.VStack(a, linops.Scale(3, a)), linops.Compose(a, a)} {
		d, p := whole.Dims()
		listed, ok := linops.Entries(whole, 100)
		if !ok {
			t.Fatal("no entries")
		}
		got := mat.NewDense(d, p, nil)
		for i := range d {
			for u := listed.Indptr[i]; u < listed.Indptr[i+1]; u++ {
				got.Set(i, listed.Indices[u], listed.Values[u])
			}
		}
		if !mat.Equal(got, linops.ToDense(dev, whole)) {
			t.Errorf("entries %v", mat.Formatted(got))
		}
	}
	if n := linops.RowNorms2(linops.VStack(a, linops.Scale(3, a)), nil); !slices.Equal(n, []float64{4, 4, 4, 36, 36, 36}) {
		t.Errorf("squared lengths %g", n)
	}
	picked, free, err := linops.Pick(dev, a, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	if x := linops.ToDense(dev, picked); picks != 1 || !mat.Equal(x, mat.NewDense(1, 3, []float64{0, 0, 2})) {
		t.Errorf("%d rows picked, %v", picks, mat.Formatted(x))
	}
}

// The diagonal of C* diag(h) C is that of its matrix.
func TestDiagonalOfCosines(t *testing.T) {
	dev := array.NewHost()
	rng := rand.New(rand.NewPCG(33, 34))
	for _, shape := range [][2]int{{1, 1}, {1, 8}, {5, 1}, {3, 4}, {7, 6}} {
		dct := imaging.NewDCT2D(shape[0], shape[1])
		n := shape[0] * shape[1]
		c, h, want := linops.ToDense(dev, dct), make([]float64, n), make([]float64, n)
		for k := range h {
			h[k] = rng.Float64()
			for i := range want {
				want[i] += h[k] * c.At(k, i) * c.At(k, i)
			}
		}
		for i, v := range dct.DiagonalOf(h) {
			if math.Abs(v-want[i]) > 1e-12 {
				t.Errorf("%v: entry %d of the diagonal is %g, expected %g", shape, i, v, want[i])
			}
		}
	}
}
