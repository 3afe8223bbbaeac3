package linops_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	. "surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/linops/krylov"
	"surepipe/linops/linopstest"
)

func gaussian(n int, seed uint64) []float64 {
	rng := rand.New(rand.NewPCG(seed, 7))
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

func randomDense(dev array.Device, d, p int) *Dense {
	if d == 0 || p == 0 {
		return NewDense(dev, &mat.Dense{})
	}
	return NewDense(dev, mat.NewDense(d, p, gaussian(d*p, uint64(1000*d+p))))
}

// randomCSR has about a quarter of its entries, with an empty row and column.
func randomCSR(t *testing.T, dev array.Device, d, p int) *CSR {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(d), uint64(p)))
	indptr := []int{0}
	var indices []int
	var values []float64
	for i := range d {
		for j := range p {
			if i != d/2 && j != p/3 && rng.IntN(4) == 0 {
				indices = append(indices, j)
				values = append(values, rng.NormFloat64())
			}
		}
		indptr = append(indptr, len(indices))
	}
	a, err := NewCSR(dev, d, p, indptr, indices, values)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func selection(t *testing.T, dev array.Device, p int, idx ...int) *Selection {
	t.Helper()
	a, err := NewSelection(dev, p, idx)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// difference is the d = n-1 forward differences, b[i+1] - b[i].
func difference(n int) *Func {
	return NewFunc(n-1, n, func(dst, b []float64) {
		for i := range dst {
			dst[i] = b[i+1] - b[i]
		}
	}, func(dst, z []float64) {
		clear(dst)
		for i, v := range z {
			dst[i+1] += v
			dst[i] -= v
		}
	})
}

// orthogonal is a scaled permutation of R^n, which is not its own adjoint.
func orthogonal(t *testing.T, dev array.Device, n int) Operator {
	idx := make([]int, n)
	for i := range idx {
		idx[i] = (i + 2) % n
	}
	return Scale(-1.5, selection(t, dev, n, idx...))
}

// solve solves the normal equations in place by the closed form, if there is one.
func solve(a Operator, x array.Batch, eta float64) bool {
	closed := StructureOf(a).SolveNormal
	return closed != nil && closed(x, x, eta)
}

// weights are n numbers from 1/4 to 4.
func weights(n int) []float64 {
	w := make([]float64, n)
	for i := range w {
		w[i] = math.Exp2(float64(i%5 - 2))
	}
	return w
}

func must[T any](a T, err error) T {
	if err != nil {
		panic(err)
	}
	return a
}

func gaussianMatrix(r, c int, seed uint64) *mat.Dense {
	return mat.NewDense(r, c, gaussian(r*c, seed))
}

// isConforming tests an operator, with what it holds on the device.
func isConforming(t *testing.T, dev array.Device, name string, a Operator) {
	t.Helper()
	l, ok := a.(Loadable)
	if ok && dev.Name() != "cpu" {
		l.Load(dev)
		t.Cleanup(l.Release)
	}
	if err := linopstest.Check(dev, a); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// catalogue has each operator and each combination worth a test, with its expected structure.
type entry struct {
	name string
	a    Operator
	row  float64 // c of A A* = c I, -1 where there is none
	norm float64 // ||A||^2, -1 where an iteration must find it
	ok   bool    // whether SolveNormal has a closed form
}

func sine(k, n int) float64 {
	s := math.Sin(math.Pi * float64(k) / float64(n) / 2)
	return s * s
}

// largest is ||D||^2 of the differences of n numbers.
func largest(n int) float64 { return 4 * sine(n-1, n) }

func catalogue(t *testing.T, dev array.Device) []entry {
	wide, tall, square := randomDense(dev, 4, 9), randomDense(dev, 9, 4), randomDense(dev, 6, 6)
	sel := selection(t, dev, 9, 7, 0, 3, 4)
	all := selection(t, dev, 5, 4, 2, 0, 1, 3)
	diag := NewDiagonal(dev, []float64{1, -3, 0, 0.5, 2, 2})
	flat := NewDiagonal(dev, []float64{2, -2, 2, 2, -2, 2})
	perm := orthogonal(t, dev, 9)
	const none = -1
	return []entry{
		{"Gradient of a sequence", imaging.NewGradient([]int{7}, nil, imaging.Reflecting), none, largest(7), true},
		{"Gradient of an image", imaging.NewGradient([]int{3, 5}, nil, imaging.Reflecting), none,
			largest(3) + largest(5), true},
		{"Gradient of a volume", imaging.NewGradient([]int{2, 3, 4}, nil, imaging.Reflecting), none,
			largest(2) + largest(3) + largest(4), false},
		{"Gradient of three images", imaging.NewGradient([]int{3, 2, 4}, []int{1, 2}, imaging.Reflecting), none,
			largest(2) + largest(4), true},
		{"Gradient along a middle axis", imaging.NewGradient([]int{2, 3, 2}, []int{1}, imaging.Reflecting), none,
			largest(3), false},
		{"Gradient, periodic", imaging.NewGradient([]int{3, 4}, nil, imaging.Periodic), none, 7, false},
		{"Gradient, periodic along one entry", imaging.NewGradient([]int{4, 1}, nil, imaging.Periodic), none, 4, false},
		{"Gradient, grounded", imaging.NewGradient([]int{2, 4}, nil, imaging.Grounded), none,
			4 * (sine(3, 5) + sine(7, 9)), false},
		{"Gradient, grounded, along one entry", imaging.NewGradient([]int{4, 1}, nil, imaging.Grounded), none,
			1 + 4*sine(7, 9), false},
		{"Gradient on another", VStack(Scale(2, Identity(6)),
			imaging.NewGradient([]int{2, 3}, nil, imaging.Reflecting)), none, 4 + 2 + 3, true},
		{"Dense wide", wide, none, none, true},
		{"Dense tall", tall, none, none, true},
		{"Dense square", square, none, none, true},
		{"Dense 1x1", randomDense(dev, 1, 1), none, none, true},
		{"Dense 1x7", randomDense(dev, 1, 7), none, none, true},
		{"Dense 7x1", randomDense(dev, 7, 1), none, none, true},
		{"Dense 0x0", randomDense(dev, 0, 0), 0, 0, true},
		{"Dense 40x90", randomDense(dev, 40, 90), none, none, true},
		{"Dense 600x70", randomDense(dev, 600, 70), none, none, true},
		{"CSR wide", randomCSR(t, dev, 5, 12), none, none, false},
		{"CSR tall", randomCSR(t, dev, 31, 8), none, none, false},
		{"CSR 0x3", randomCSR(t, dev, 0, 3), 0, 0, true},
		{"CSR 3x0", randomCSR(t, dev, 3, 0), 0, 0, true},
		{"CSR and one of rank one", NewShifted(dev, randomCSR(t, dev, 5, 12), weights(5), weights(12)), none, none,
			false},
		{"CSR and one of rank one with more columns", NewShifted(dev, randomCSR(t, dev, 6, 4), weights(6), weights(7)),
			none, none, false},
		{"CSR of no entries", randomCSR(t, dev, 1, 1), none, none, false},
		{"Selection", sel, 1, 1, true},
		{"Selection of all", all, 1, 1, true},
		{"Selection of none", selection(t, dev, 3), 0, 0, true},
		{"Selection of nothing", selection(t, dev, 0), 0, 0, true},
		{"Identity", Identity(6), 1, 1, true},
		{"Identity 1", Identity(1), 1, 1, true},
		{"Identity 0", Identity(0), 0, 0, true},
		{"Diagonal", diag, none, 9, true},
		{"Diagonal of equal squares", flat, 4, 4, true},
		{"Diagonal of nothing", NewDiagonal(dev, nil), 0, 0, true},
		{"Kronecker Dense", Kronecker(dev, wide, 3, 27), none, none, false},
		{"Kronecker Dense, some columns", Kronecker(dev, tall, 3, 11), none, none, false},
		{"Kronecker CSR", Kronecker(dev, randomCSR(t, dev, 5, 12), 2, 24), none, none, false},
		{"Kronecker Selection", Kronecker(dev, sel, 2, 18), 1, 1, true},
		{"Kronecker Func", Kronecker(dev, difference(4), 2, 7), none, none, false},
		{"Kronecker of nothing", Kronecker(dev, wide, 3, 0), 0, 0, true},
		{"Zero", Zero(3, 5), 0, 0, true},
		{"Zero 0x5", Zero(0, 5), 0, 0, true},
		{"Zero 5x0", Zero(5, 0), 0, 0, true},
		{"Func", difference(8), none, none, false},
		{"ScaleColumns Dense", ScaleColumns(dev, wide, weights(9)), none, none, true},
		{"ScaleColumns CSR", ScaleColumns(dev, randomCSR(t, dev, 5, 12), weights(12)), none, none, false},
		{"ScaleColumns HStack", ScaleColumns(dev, HStack(wide, randomCSR(t, dev, 4, 6)), weights(15)), none, none,
			false},
		{"ScaleColumns Scale Dense", ScaleColumns(dev, Scale(2, tall), weights(4)), none, none, false},
		{"Scale Selection", Scale(-2, sel), 4, 4, true},
		{"Scale Diagonal", Scale(2, diag), none, 36, true},
		{"Scale Dense", Scale(0.3, wide), none, none, true},
		{"Scale Func", Scale(3, difference(5)), none, none, false},
		{"Scale by 0", Scale(0, wide), 0, 0, true},
		{"Sum", Sum(wide, Scale(2, sel), randomCSR(t, dev, 4, 9), Zero(4, 9)), none, none, false},
		{"Sum square", Sum(square, Identity(6), Scale(-1, diag)), none, none, false},
		{"Compose", Compose(difference(9), tall, wide), none, none, false},
		{"Compose row", Compose(Scale(2, selection(t, dev, 4, 2, 0)), sel), 4, 4, true},
		{"Compose Dense Selection", Compose(randomDense(dev, 3, 4), Scale(2, sel)), none, none, true},
		{"Compose Dense orthogonal", Compose(wide, perm), none, none, true},
		{"Compose orthogonal Dense", Compose(perm, tall), none, none, true},
		{"Compose isometry Diagonal Selection", Compose(Adjoint(Scale(3, selection(t, dev, 8, 1, 2, 3, 5, 6, 7))),
			diag, selection(t, dev, 10, 9, 1, 3, 5, 2, 0)), none, 81, true},
		{"Compose Dense HStack", Compose(square, HStack(Identity(6), Identity(6))), none, none, true},
		{"Compose tall isometry", Compose(Adjoint(sel), Adjoint(selection(t, dev, 4, 1, 2))), none, 1, true},
		{"Compose with Zero", Compose(wide, Zero(9, 3)), 0, 0, true},
		{"HStack I I", HStack(Identity(6), Identity(6)), 2, 2, true},
		{"HStack of row-orthogonal", HStack(sel, Scale(2, Identity(4)), Zero(4, 3), Zero(4, 0)), 5, 5, true},
		{"HStack Diagonal I", HStack(diag, Identity(6)), none, 10, false},
		{"HStack Dense CSR", HStack(wide, randomCSR(t, dev, 4, 6), Identity(4)), none, none, false},
		{"VStack I I", VStack(Identity(4), Scale(2, Identity(4))), none, 5, true},
		{"VStack Diagonal I", VStack(diag, Scale(2, Identity(6)), Zero(2, 6)), none, 13, true},
		{"VStack Dense CSR", VStack(wide, randomCSR(t, dev, 12, 9), difference(9)), none, none, false},
		{"BlockDiag of equal grams", BlockDiag(sel, all, Zero(0, 2)), 1, 1, true},
		{"BlockDiag of other grams", BlockDiag(sel, diag, Zero(2, 3)), none, 9, true},
		{"BlockDiag Dense Selection", BlockDiag(tall, sel, square), none, none, true},
		{"BlockDiag Func", BlockDiag(tall, difference(4)), none, none, false},
		{"Adjoint Selection", Adjoint(sel), none, 1, true},
		{"Adjoint orthogonal", Adjoint(perm), 2.25, 2.25, true},
		{"Adjoint Dense", Adjoint(wide), none, none, true},
		{"Adjoint Zero", Adjoint(Zero(2, 3)), 0, 0, true},
		{"Adjoint Func", Adjoint(difference(6)), none, none, false},
		{"Adjoint VStack", Adjoint(VStack(Identity(3), Identity(3))), 2, 2, true},
		{"Difference1D of a pair", imaging.NewDifference1D(2), 2, 2, true},
		{"DCT", imaging.NewDCT(6), 1, 1, true},
		{"DCT2D", Scale(2, imaging.NewDCT2D(3, 5)), 4, 4, true},
		{"Compose Selection DCT*", Compose(sel, Adjoint(imaging.NewDCT(9))), 1, 1, true},
		{"HStack of bases", HStack(Adjoint(imaging.NewDCT(8)), Adjoint(must(imaging.NewWavelet1D(8, "db2", 2)))), 2,
			2, true},
		{"Wavelet2D", must(imaging.NewWavelet2D(4, 6, "sym4", 1)), 1, 1, true},
		{"Wavelet2D, padded", must(imaging.NewWavelet2D(5, 7, "sym4", 2)), none, 1, true},
		{"Wavelet1D, padded", must(imaging.NewWavelet1D(13, "db2", 2)), none, 1, true},
		{"Compose circular Wavelet*", Compose(must(imaging.NewConvolution1D(8, []float64{1, 1}, imaging.Circular)),
			Adjoint(must(imaging.NewWavelet1D(8, "haar", 3)))), none, 4, true},
		{"Compose circular Wavelet2D*", Compose(must(imaging.NewConvolution2D(8, 12,
			mat.NewDense(2, 2, []float64{1, 1, 1, 1}), imaging.Circular)),
			Adjoint(must(imaging.NewWavelet2D(8, 12, "db2", 2)))), none, 16, true},
		{"Compose circular circular", Compose(must(imaging.NewConvolution2D(4, 6, gaussianMatrix(3, 2, 5),
			imaging.Circular)), Scale(2, must(imaging.NewConvolution2D(4, 6, gaussianMatrix(2, 2, 5),
			imaging.Circular)))), none, none, false},
		{"Compose shapes", Compose(must(imaging.NewConvolution2D(6, 4, gaussianMatrix(3, 2, 5), imaging.Circular)),
			must(imaging.NewConvolution2D(4, 6, gaussianMatrix(2, 2, 5), imaging.Circular))), none, none, false},
		{"Compose zero-padded DCT*", Compose(must(imaging.NewConvolution1D(5, []float64{1, 2, 1},
			imaging.ZeroPadded)), Adjoint(imaging.NewDCT(5))), none, none, false},
		{"VStack zero-padded Difference", VStack(must(imaging.NewConvolution2D(3, 4, gaussianMatrix(3, 2, 1),
			imaging.ZeroPadded)), imaging.NewDifference2D(3, 4)), none, none, false},
		{"nested", VStack(
			HStack(wide, Scale(2, Adjoint(tall))),
			Compose(difference(19), Adjoint(HStack(Identity(18), Zero(18, 1))),
				BlockDiag(perm, Sum(Identity(9), perm))),
		), none, none, false},
		{"nested closed form", Scale(0.5, BlockDiag(
			Compose(perm, Adjoint(HStack(Scale(3, Identity(2)), selection(t, dev, 7, 1, 4)))),
			Adjoint(BlockDiag(wide, tall)),
		)), none, none, true},
	}
}

func TestOperatorsConform(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, e := range catalogue(t, dev) {
			isConforming(t, dev, e.name, e.a)
		}
	})
}

func TestStructurePropagates(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, e := range catalogue(t, dev) {
			d, p := e.a.Dims()
			row, norm := -1.0, -1.0
			if c := StructureOf(e.a).Rows; c.Known {
				row = c.Value
			}
			if est, err := krylov.Norm2(t.Context(), dev, e.a, krylov.NormOptions{}); err != nil {
				t.Errorf("%s: %v", e.name, err)
			} else if est.Iterations == 0 && est.Error == 0 {
				norm = est.Value
			}
			if d > 0 && p > 0 && row != e.row {
				t.Errorf("%s: Rows is %v, want %v", e.name, row, e.row)
			}
			if norm != e.norm {
				t.Errorf("%s: Norm2 without iterating is %v, want %v", e.name, norm, e.norm)
			}
			rhs := dev.Alloc(2, p)
			dev.Fill(rhs, 1)
			if d > 0 && p > 0 {
				if got := solve(e.a, rhs, 0.5); got != e.ok {
					t.Errorf("%s: closed form %t, want %t", e.name, got, e.ok)
				}
			}
			rhs.Free()
		}
	})
}

func TestAskingForStructureAllocatesNothing(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, e := range catalogue(t, dev) {
			if got := testing.AllocsPerRun(10, func() { StructureOf(e.a) }); got > 0 {
				t.Errorf("%s: StructureOf allocates %v times", e.name, got)
			}
		}
	})
}

func TestOperatorsGiveAllMemoryBack(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		type releaser interface{ Release() }
		x := randomDense(dev, 5, 8)
		w := NewDiagonal(dev, []float64{1, 2, 3, 4, 5, 6, 7, 8})
		s := selection(t, dev, 8, 3, 1)
		c := randomCSR(t, dev, 5, 8)
		rhs, dst := dev.Alloc(3, 8), dev.Alloc(3, 8)
		dev.Fill(rhs, 1)
		// More values of eta than are kept.
		for i := range 9 {
			eta := 0.1 * float64(i+1)
			for _, a := range []Operator{x, w, s} {
				StructureOf(a).SolveNormal(dst, rhs, eta)
			}
		}
		rhs.Free()
		dst.Free()
		for _, r := range []releaser{x, w, s, c} {
			r.Release()
		}
		if live := dev.Stats().Live; live != 0 {
			t.Errorf("%d batches live after everything was released", live)
		}
	})
}

func TestAdjointOfAdjointIsTheOperator(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, e := range catalogue(t, dev) {
			// An adjoint of an adjoint is unwrapped, and a new one is made.
			back := Adjoint(Adjoint(e.a))
			if back != e.a && Adjoint(back) != Adjoint(e.a) {
				t.Errorf("%s: the adjoint's adjoint is a %T", e.name, back)
			}
		}
	})
}

func TestCombinationsMatchTheirMatrices(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		a, b := randomDense(dev, 3, 4), randomDense(dev, 3, 4)
		ma, mb := ToDense(dev, a), ToDense(dev, b)
		entry := func(f func(i, j int) float64, d, p int) *mat.Dense {
			m := mat.NewDense(d, p, nil)
			m.Apply(func(i, j int, _ float64) float64 { return f(i, j) }, m)
			return m
		}
		var product mat.Dense
		product.Mul(ma, mb.T())
		for _, c := range []struct {
			name string
			op   Operator
			want mat.Matrix
		}{
			{"Scale", Scale(-2, a), entry(func(i, j int) float64 { return -2 * ma.At(i, j) }, 3, 4)},
			{"Sum", Sum(a, b), entry(func(i, j int) float64 { return ma.At(i, j) + mb.At(i, j) }, 3, 4)},
			{"Compose", Compose(a, Adjoint(b)), &product},
			{"Adjoint", Adjoint(a), ma.T()},
			{"HStack", HStack(a, b), entry(func(i, j int) float64 {
				if j < 4 {
					return ma.At(i, j)
				}
				return mb.At(i, j-4)
			}, 3, 8)},
			{"VStack", VStack(a, b), entry(func(i, j int) float64 {
				if i < 3 {
					return ma.At(i, j)
				}
				return mb.At(i-3, j)
			}, 6, 4)},
			{"BlockDiag", BlockDiag(a, b), entry(func(i, j int) float64 {
				switch {
				case i < 3 && j < 4:
					return ma.At(i, j)
				case i >= 3 && j >= 4:
					return mb.At(i-3, j-4)
				}
				return 0
			}, 6, 8)},
		} {
			if got := ToDense(dev, c.op); !mat.EqualApprox(got, c.want, 1e-14) {
				t.Errorf("%s is\n%v, want\n%v", c.name, mat.Formatted(got), mat.Formatted(c.want))
			}
		}
	})
}

func TestToDenseTakesMoreColumnsThanABatch(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		x := randomDense(dev, 3, 150)
		// A Sum has no matrix of its own: 1 X + 0 goes column by column.
		if got := ToDense(dev, Sum(x, Zero(3, 150))); !mat.Equal(got, x.Dense()) {
			t.Error("ToDense is not the matrix")
		}
	})
}

func TestCSRAddsRepeatedEntriesAndSortsRows(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		a, err := NewCSR(dev, 2, 3, []int{0, 4, 5}, []int{2, 0, 2, 0, 1}, []float64{1, 2, 3, 4, 5})
		if err != nil {
			t.Fatal(err)
		}
		want := mat.NewDense(2, 3, []float64{6, 0, 4, 0, 5, 0})
		if !mat.Equal(a.Dense(), want) || a.Nonzeros() != 3 {
			t.Errorf("%d entries\n%v, want\n%v", a.Nonzeros(), mat.Formatted(a.Dense()), mat.Formatted(want))
		}
		if err := linopstest.Check(dev, a); err != nil {
			t.Error(err)
		}
	})
}

func TestDenseTakesAViewOfALargerMatrix(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		big := mat.NewDense(6, 7, gaussian(42, 1))
		if err := linopstest.Check(dev, NewDense(dev, big.Slice(1, 5, 2, 5).(*mat.Dense))); err != nil {
			t.Error(err)
		}
	})
}

func TestConstructorsNameTheCulprit(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		csr := func(d, p int, indptr, indices []int, values ...float64) func() error {
			return func() error { _, err := NewCSR(dev, d, p, indptr, indices, values); return err }
		}
		sel := func(p int, idx ...int) func() error {
			return func() error { _, err := NewSelection(dev, p, idx); return err }
		}
		for _, c := range []struct {
			f    func() error
			want string
		}{
			{sel(5, 0, 5), "index 1 is 5, want 0 to 4"},
			{sel(5, -1), "index 0 is -1, want 0 to 4"},
			{sel(5, 3, 1, 3), "index 2 is 3, as is index 0"},
			{sel(-1), "from -1 coordinates"},
			{csr(-1, 2, nil, nil), "size -1 x 2"},
			{csr(2, 2, []int{0, 1}, []int{0}, 1), "2 row pointers, want 3"},
			{csr(1, 2, []int{0, 1}, []int{0}), "1 column indices and 0 values"},
			{csr(1, 2, []int{0, 2}, []int{0}, 1), "run from 0 to 2, want 0 to 1"},
			{csr(3, 2, []int{0, 2, 1, 2}, []int{0, 1}, 1, 1), "row pointer 2 is 1, less than 2"},
			{csr(2, 2, []int{0, 3, 2}, []int{0, 1}, 1, 1), "row pointer 2 is 2, less than 3"},
			{csr(2, 2, []int{0, 1, 2}, []int{0, 2}, 1, 1), "index 1 (row 1) is 2, want 0 to 1"},
			{csr(2, 2, []int{0, 1, 2}, []int{0, 1}, 1, math.NaN()), "value 1 (row 1, column 1) is NaN"},
		} {
			if err := c.f(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		}
	})
}

func TestMismatchedShapesPanicWithBoth(t *testing.T) {
	i3, i4 := Identity(3), Identity(4)
	for want, f := range map[string]func(){
		"Sum of operators of size 3 x 3 and 4 x 4":     func() { Sum(i3, i4) },
		"Compose of operators of size 3 x 3 and 4 x 4": func() { Compose(i3, i4) },
		"HStack of operators of size 3 x 3 and 4 x 4":  func() { HStack(i3, i4) },
		"VStack of operators of size 3 x 3 and 4 x 4":  func() { VStack(i3, i4) },
		"BlockDiag of no operators":                    func() { BlockDiag() },
		"Identity of size -1 x -1":                     func() { Identity(-1) },
		"Func of size 1 x 2 without":                   func() { NewFunc(1, 2, nil, nil) },
	} {
		func() {
			defer func() {
				if r := fmt.Sprint(recover()); !strings.Contains(r, want) {
					t.Errorf("panic %q, want %q", r, want)
				}
			}()
			f()
		}()
	}
}

func TestHotPathsAllocateLittle(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const k, n = 4, 256
		two := HStack(Identity(n), Identity(n))
		b, z := dev.Alloc(k, 2*n), dev.Alloc(k, n)
		dev.Fill(b, 1)
		for name, f := range map[string]func(){
			"Forward":     func() { two.Forward(z, b) },
			"Adjoint":     func() { two.Adjoint(b, z) },
			"SolveNormal": func() { StructureOf(two).SolveNormal(b, b, 0.5) },
		} {
			f()
			// None in fact; under the race detector a sync.Pool forgets at random.
			if got := testing.AllocsPerRun(100, f); got > 3 {
				t.Errorf("[I I] %s allocates %v times a call", name, got)
			}
		}
	})
}
