package linops

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/space"
)

// Products are A*B for operators of any kind, and rows can be weighed in place on a space.
func TestProductsOfColumns(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	rng := rand.New(rand.NewPCG(1, 14))
	const d, p = 30, 9
	x := mat.NewDense(d, p, nil)
	for i := range d {
		for j := range p {
			x.Set(i, j, rng.NormFloat64())
		}
	}
	a := NewDense(dev, x)
	defer a.Release()
	w := make([]float64, d)
	for i := range w {
		w[i] = rng.Float64()
	}
	sets := [][]int{{0, 3, 4}, {1, 2, 5, 8}}
	var parts []Restricted
	for _, set := range sets {
		s := space.Coordinates(dev, p, set)
		op, _ := On(dev, a, s)
		StructureOf(op).WeighRows(w)
		parts = append(parts, op)
		defer s.Release()
		defer op.Release()
	}
	parts = append(parts, &combined{Operator: Scale(1, parts[1])}) // knows no entries
	for k, b := range parts[1:] {
		for _, left := range []int{0, 1} {
			first, second := parts[0], b
			if left == 1 {
				first, second = b, parts[0]
			}
			_, m := first.Dims()
			_, n := second.Dims()
			dst := dev.Alloc(m, n)
			into, free := Products(dev, first)
			into(dst, second)
			free()
			got := dst.ToHost()
			dst.Free()
			rows, cols := sets[left], sets[1-left]
			for i, r := range rows {
				for j, c := range cols {
					want := 0.0
					for l := range d {
						want += w[l] * w[l] * x.At(l, r) * x.At(l, c)
					}
					if math.Abs(got[i*n+j]-want) > 1e-12 {
						t.Fatalf("part %d: entry %d, %d is %g, want %g", k, i, j, got[i*n+j], want)
					}
				}
			}
		}
	}
	if beside := StructureOf(HStack(a, a)).Entries; beside != Known(2*d*p) {
		t.Errorf("beside each other they have %v entries", beside)
	}
}

// A few columns at a time give the bits of all at once, which come from the entries alone.
func TestProductsInParts(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	const d, p = 30, 7
	indptr, indices, values := []int{0}, []int{}, []float64{}
	for i := range d {
		indices, values = append(indices, i%p, (3*i+1)%p), append(values, float64(i)-4.3, 1/float64(i+1))
		indptr = append(indptr, len(values))
	}
	a, err := NewCSR(dev, d, p, indptr, indices, values)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Release()
	whole, parts := dev.Alloc(p, p), dev.Alloc(p, p)
	defer whole.Free()
	defer parts.Free()
	into, free := Products(dev, a)
	into(whole, a)
	free()
	for some := 1; some < p; some += 2 {
		productsInParts(parts, a, a, some)
		want := whole.ToHost()
		for i, v := range parts.ToHost() {
			if v != want[i] {
				t.Fatalf("%d at a time: entry %d is %g, want %g", some, i, v, want[i])
			}
		}
	}
}

// entriesOnly has a structure, and no products with vectors.
type entriesOnly struct{ Operator }

func (e entriesOnly) Structure() Structure     { return StructureOf(e.Operator) }
func (entriesOnly) Forward(dst, b array.Batch) { panic("a product") }
func (entriesOnly) Adjoint(dst, z array.Batch) { panic("a product") }

// Gram matrices of sparse matrices, and of such with one of rank one, come from their entries alone.
func TestGramOfSparseMatrices(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	const d, p = 20, 6
	rng := rand.New(rand.NewPCG(3, 1))
	x := mat.NewDense(d, p, nil)
	indptr, indices, values := []int{0}, []int{}, []float64{}
	for i := range d {
		for _, j := range []int{i % p, (i + 1 + i/p) % p} {
			if x.At(i, j) == 0 {
				x.Set(i, j, rng.NormFloat64())
				indices, values = append(indices, j), append(values, x.At(i, j))
			}
		}
		indptr = append(indptr, len(values))
	}
	sparse, err := NewCSR(dev, d, p, indptr, indices, values)
	if err != nil {
		t.Fatal(err)
	}
	defer sparse.Release()
	u, v := make([]float64, d), make([]float64, p)
	for i := range u {
		u[i] = rng.NormFloat64()
	}
	for j := range v {
		v[j] = rng.NormFloat64()
	}
	moved := NewShifted(dev, sparse, u, v)
	defer moved.Release()
	for name, a := range map[string]Operator{"sparse": sparse, "shifted": moved} {
		whole := mat.DenseCopyOf(x)
		if name == "shifted" {
			whole.RankOne(whole, 1, mat.NewVecDense(d, u), mat.NewVecDense(p, v))
		}
		var want mat.Dense
		want.Mul(whole.T(), whole)
		got := mat.NewDense(p, p, GramOf(dev, entriesOnly{a}))
		if !mat.EqualApprox(got, &want, 1e-12) {
			t.Errorf("%s: the Gram matrix is\n%v, want\n%v", name, mat.Formatted(got), mat.Formatted(&want))
		}
	}
}
