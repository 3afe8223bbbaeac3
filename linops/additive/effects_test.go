package additive_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/internal/sublist"
	"surepipe/linops"
	"surepipe/linops/additive"
	"surepipe/linops/linopstest"
)

// effectsCase is a set of entries with effects: some rows and columns may have none, and rows and
// columns may fall into several components.
type effectsCase struct {
	name       string
	shape      array.Shape
	places     []int
	rows, cols bool
	weights    []float64
}

func effectsCases() []effectsCase {
	rng := rand.New(rand.NewPCG(5, 5))
	var cases []effectsCase
	for _, shape := range []array.Shape{{Rows: 7, Cols: 5}, {Rows: 4, Cols: 9}} {
		some, blocks := []int{}, []int{}
		for _, c := range rng.Perm(shape.Len()) {
			i, j := c/shape.Cols, c%shape.Cols
			if rng.IntN(2) == 0 && i != 1 { // row 1 has no entries
				some = append(some, c)
			}
			if (i < 2) == (j < 2) && (rng.IntN(3) > 0 || i == 0 || j == 0) { // two components
				blocks = append(blocks, c)
			}
		}
		for name, places := range map[string][]int{"scattered": some, "two components": blocks} {
			own := rand.New(rand.NewPCG(5, uint64(len(name)+shape.Rows)))
			weights := make([]float64, len(places))
			for i := range weights {
				weights[i] = float64(1+own.IntN(4)) / 2
			}
			for k := range 4 {
				for _, w := range [][]float64{nil, weights} {
					cases = append(cases, effectsCase{fmt.Sprintf("%s %v rows %t cols %t weights %t", name, shape,
						k&1 > 0, k&2 > 0, w != nil), shape, places, k&1 > 0, k&2 > 0, w})
				}
			}
		}
	}
	return cases
}

// model is Z, with a column of ones, one for every row where there are effects of rows, and so on.
func (c effectsCase) model() *mat.Dense {
	d := len(c.places)
	z := mat.NewDense(d, 1+c.shape.Rows+c.shape.Cols, nil)
	for e, place := range c.places {
		z.Set(e, 0, 1)
		if c.rows {
			z.Set(e, 1+place/c.shape.Cols, 1)
		}
		if c.cols {
			z.Set(e, 1+c.shape.Rows+place%c.shape.Cols, 1)
		}
	}
	return z
}

// projection is Z (Z* W Z)^+ Z* W by a singular value decomposition, and its rank.
func (c effectsCase) projection() (pi *mat.Dense, rank int) {
	z := c.model()
	d, _ := z.Dims()
	w := mat.NewDiagDense(d, nil)
	for i := range d {
		w.SetDiag(i, 1)
		if c.weights != nil {
			w.SetDiag(i, c.weights[i])
		}
	}
	var zw, gram mat.Dense
	zw.Mul(z.T(), w)
	gram.Mul(&zw, z)
	var svd mat.SVD
	if !svd.Factorize(&gram, mat.SVDThin) {
		panic("svd")
	}
	for rank = 0; rank < len(svd.Values(nil)) && svd.Values(nil)[rank] > 1e-10; rank++ {
	}
	var effects, fit mat.Dense
	svd.SolveTo(&effects, &zw, rank)
	fit.Mul(z, &effects)
	return &fit, rank
}

// The projection, its adjoint, rank and diagonal are those of dense algebra.
func TestEffectsAreAProjection(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, c := range effectsCases() {
			e, err := additive.NewEffects(dev, c.shape, c.places, c.rows, c.cols, c.weights)
			if err != nil {
				t.Fatal(c.name, err)
			}
			defer e.Release()
			pi, rank := c.projection()
			if e.Rank() != rank {
				t.Errorf("%s: rank %d, expected %d", c.name, e.Rank(), rank)
			}
			d := len(c.places)
			rest := func(remove func(array.Batch)) *mat.Dense {
				z := dev.Alloc(d, d)
				defer z.Free()
				eye := make([]float64, d*d)
				for i := range d {
					eye[i*d+i] = 1
				}
				dev.Upload(z, eye)
				remove(z)
				return mat.NewDense(d, d, z.ToHost()) // row i is the image of e_i
			}
			diagonal := e.Diagonal()
			forward, adjoint := rest(e.Remove), rest(e.RemoveAdjoint)
			for i := range d {
				for j := range d {
					want := -pi.At(j, i)
					if i == j {
						want++
					}
					if got := forward.At(i, j); math.Abs(got-want) > 1e-12 {
						t.Fatalf("%s: (I - Pi)[%d, %d] = %v, expected %v", c.name, j, i, got, want)
					}
					if got := adjoint.At(j, i); math.Abs(got-want) > 1e-12 {
						t.Fatalf("%s: (I - Pi)*[%d, %d] = %v, expected %v", c.name, i, j, got, want)
					}
				}
				if math.Abs(diagonal[i]-pi.At(i, i)) > 1e-12 {
					t.Fatalf("%s: diagonal %d is %v, expected %v", c.name, i, diagonal[i], pi.At(i, i))
				}
			}
		}
	})
}

// The effects reproduce the fit, there are none without entries, and any constant that is moved between them
// makes the sum of their squares larger.
func TestEffectsOfAFit(t *testing.T) {
	dev := array.NewHost()
	rng := rand.New(rand.NewPCG(8, 8))
	for _, c := range effectsCases() {
		e, err := additive.NewEffects(dev, c.shape, c.places, c.rows, c.cols, c.weights)
		if err != nil {
			t.Fatal(c.name, err)
		}
		defer e.Release()
		y := make([]float64, len(c.places))
		for i := range y {
			y[i] = rng.NormFloat64() + 3
		}
		pi, _ := c.projection()
		var want mat.VecDense
		want.MulVec(pi, mat.NewVecDense(len(y), y))
		constant, rows, cols := e.Of(y)
		if (rows != nil) != c.rows || (cols != nil) != c.cols {
			t.Fatalf("%s: effects %v, %v", c.name, rows, cols)
		}
		sum := 0.0
		rowsAt, colsAt := e.Lines()
		for i, place := range c.places {
			fit := constant + sublist.Value(rows, rowsAt, place/c.shape.Cols) + sublist.Value(cols, colsAt,
				place%c.shape.Cols)
			if math.Abs(fit-want.AtVec(i)) > 1e-12 {
				t.Fatalf("%s: the fit of entry %d is %v, expected %v", c.name, i, fit, want.AtVec(i))
			}
		}
		// With entries in one component each set has the mean 0.
		if rows != nil && cols == nil || cols != nil && rows == nil {
			for _, v := range append(rows, cols...) {
				sum += v
			}
			if math.Abs(sum) > 1e-12 {
				t.Errorf("%s: the effects sum to %v", c.name, sum)
			}
		}
		for i := range c.shape.Rows {
			used := false
			for _, place := range c.places {
				used = used || place/c.shape.Cols == i
			}
			if _, listed := sublist.At(rowsAt, i); listed != used {
				t.Errorf("%s: row %d has entries: %v, and an effect: %v", c.name, i, used, listed)
			}
		}
	}
}

// A selection without effects is an operator like any other.
func TestWithoutEffects(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for i, c := range effectsCases() {
			if i%3 > 0 {
				continue
			}
			e, err := additive.NewEffects(dev, c.shape, c.places, c.rows, c.cols, c.weights)
			if err != nil {
				t.Fatal(c.name, err)
			}
			s, err := linops.NewSelection(dev, c.shape.Len(), c.places)
			if err != nil {
				t.Fatal(err)
			}
			if err := linopstest.Check(dev, additive.WithoutEffects(s, e)); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			s.Release()
			e.Release()
		}
	})
}

// Two rows and two columns with all entries: the effects of an additive table are the table.
func ExampleNewEffects() {
	e, err := additive.NewEffects(array.NewHost(), array.Shape{Rows: 2, Cols: 2}, []int{0, 1, 2, 3}, true, true, nil)
	if err != nil {
		panic(err)
	}
	defer e.Release()
	fmt.Println(e.Of([]float64{1, 3, 5, 7}))
	fmt.Println(e.Rank(), e.Diagonal())
	// Output:
	// 4 [-2 2] [-1 1]
	// 3 [0.75 0.75 0.75 0.75]
}
