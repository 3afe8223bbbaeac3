package kronecker

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/internal/numerics"
)

// problem has blocks of one and two columns, one without a curvature, and one of a ridge.
func problem(seed uint64, k int, size float64) (g *mat.Dense, blocks []Block, dense, gram *mat.SymDense) {
	rng := rand.New(rand.NewPCG(seed, 1))
	const n = 6
	x := mat.NewDense(9, n, nil)
	x.Apply(func(_, j int, _ float64) float64 { return rng.NormFloat64() * float64(j+1) }, x)
	g = new(mat.Dense)
	g.Mul(x.T(), x)
	unit := func(columns int) []float64 {
		u := make([]float64, columns*k)
		for i := range u {
			u[i] = rng.NormFloat64()
		}
		floats.Scale(1/floats.Norm(u, 2), u)
		return u
	}
	blocks = []Block{{[]int{3}, 5 * size, unit(1)}, {[]int{0, 5}, 2 * size, unit(2)}, {[]int{1}, 0, nil},
		{[]int{4}, size, nil}, {[]int{2}, 7 * size, unit(1)}}
	dense, gram = wholeOf(g, k, blocks)
	return g, blocks, dense, gram
}

// wholeOf are G (x) I + Q and G (x) I as matrices.
func wholeOf(g *mat.Dense, k int, blocks []Block) (dense, gram *mat.SymDense) {
	n, _ := g.Dims()
	dense, gram = mat.NewSymDense(n*k, nil), mat.NewSymDense(n*k, nil)
	for i := range n {
		for j := range n {
			for r := range k {
				dense.SetSym(i*k+r, j*k+r, g.At(i, j))
				gram.SetSym(i*k+r, j*k+r, g.At(i, j))
			}
		}
	}
	for _, b := range blocks {
		for a, i := range b.Columns {
			for c, j := range b.Columns {
				for r := range k {
					for s := range k {
						v := 0.0
						if i == j && r == s {
							v = b.C
						}
						if b.U != nil {
							v -= b.C * b.U[a*k+r] * b.U[c*k+s]
						}
						if i*k+r <= j*k+s {
							dense.SetSym(i*k+r, j*k+s, dense.At(i*k+r, j*k+s)+v)
						}
					}
				}
			}
		}
	}
	return dense, gram
}

// Solutions, roots and traces are those of the whole matrix.
func TestInverse(t *testing.T) {
	for seed := range uint64(5) {
		for _, size := range []float64{1e-4, 1, 1e4} {
			const k, rows = 3, 4
			g, blocks, whole, gram := problem(seed, k, size)
			s := New(g, k, blocks)
			n := whole.SymmetricDim()
			var inverse, x mat.Dense
			if err := inverse.Inverse(whole); err != nil {
				t.Fatal(err)
			}
			x.CloneFrom(mat.NewDense(rows, n, nil))
			x.Apply(func(i, j int, _ float64) float64 { return math.Sin(float64(i*n + j + 1)) }, &x)
			var want, d, d2, forms, gotForms mat.Dense
			want.Mul(&x, &inverse)
			got := mat.DenseCopyOf(&x)
			s.Solve(got.RawMatrix().Data, rows)
			if scale := mat.Norm(&want, 2); !mat.EqualApprox(got, &want, 1e-10*scale) {
				t.Errorf("size %g: solutions differ", size)
			}
			half := s.Half(mat.DenseCopyOf(&x).RawMatrix().Data, rows)
			gotForms.Mul(half, half.T())
			forms.Mul(&want, x.T())
			if !mat.EqualApprox(&gotForms, &forms, 1e-10*mat.Norm(&forms, 2)) {
				t.Errorf("size %g: forms differ", size)
			}
			d.Mul(&inverse, gram)
			d2.Mul(&d, &d)
			trace, square := s.Traces()
			if math.Abs(trace-mat.Trace(&d)) > 1e-10*trace || math.Abs(square-mat.Trace(&d2)) > 1e-10*square {
				t.Errorf("size %g: traces %v and %v, want %v and %v", size, trace, square, mat.Trace(&d), mat.Trace(&d2))
			}
			images := mat.NewDense(rows*k, n, nil) // X (x) I
			small := mat.DenseCopyOf(x.Slice(0, rows, 0, n/k))
			for i := range rows * k {
				for j := range n / k {
					images.Set(i, j*k+i%k, small.At(i/k, j))
				}
			}
			var fit mat.Dense
			fit.Product(images, &inverse, images.T())
			for at, v := range s.Blocks(small) {
				row, column := at/k, at/k/k*k+at%k
				if w := fit.At(row, column); math.Abs(v-w) > 1e-10*mat.Norm(&fit, 2) {
					t.Errorf("size %g: entry (%d, %d) of a block is %v, want %v", size, row, column, v, w)
				}
			}
			if s.Condition < 1 {
				t.Errorf("condition %v", s.Condition)
			}
		}
	}
}

// A matrix that is singular has no inverse.
func TestSingular(t *testing.T) {
	if New(mat.NewDense(1, 1, nil), 2, []Block{{Columns: []int{0}}}) != nil ||
		New(mat.NewDense(1, 1, nil), 2, []Block{{Columns: []int{0}, C: 1, U: []float64{1, 0}}}) != nil {
		t.Error("a singular matrix has an inverse")
	}
}

// Where two columns are equal and their directions parallel, the inverse is a generalized one: it has the traces of the
// pseudoinverse, and Null is what K takes to 0.
func TestEqualColumns(t *testing.T) {
	const k, n = 3, 6
	g, blocks, _, _ := problem(1, k, 2)
	x := mat.NewDense(9, n, nil)
	x.Apply(func(i, j int, _ float64) float64 { return math.Sin(float64(7*i + j*j + 1)) }, x)
	for i := range 9 {
		x.Set(i, 3, -2*x.At(i, 2)) // the blocks of 5 and 7
	}
	g.Mul(x.T(), x)
	for i, v := range blocks[0].U {
		blocks[4].U[i] = -v
	}
	whole, gram := wholeOf(g, k, blocks)
	s := New(g, k, blocks)
	if s == nil || s.Null == nil || !(s.Condition < 1e8) {
		t.Fatal("no directions that K takes to 0")
	}
	var image mat.Dense
	if image.Mul(s.Null, whole); s.Null.RawMatrix().Rows != 1 || mat.Norm(&image, 2) > 1e-12*mat.Norm(s.Null, 2) {
		t.Errorf("%d directions, with an image of size %g", s.Null.RawMatrix().Rows, mat.Norm(&image, 2))
	}
	values, v, err := numerics.Eigen(whole)
	if err != nil {
		t.Fatal(err)
	}
	var inverse, d, d2 mat.Dense
	weights := mat.NewDiagDense(n*k, nil)
	for i, x := range values {
		if i > 0 {
			weights.SetDiag(i, 1/x)
		}
	}
	inverse.Product(v, weights, v.T())
	d.Mul(&inverse, gram)
	d2.Mul(&d, &d)
	trace, square := s.Traces()
	if math.Abs(trace-mat.Trace(&d)) > 1e-10 || math.Abs(square-mat.Trace(&d2)) > 1e-10 {
		t.Errorf("traces %v and %v, want %v and %v", trace, square, mat.Trace(&d), mat.Trace(&d2))
	}
}

// The coefficients (3, 4) of one column, of squared length 2 and weight 5: along them the second derivative is 2,
// across 2 + 5/5.
func ExampleInverse() {
	s := New(mat.NewDense(1, 1, []float64{2}), 2, []Block{{Columns: []int{0}, C: 1, U: []float64{0.6, 0.8}}})
	x := []float64{3, 4}
	s.Solve(x, 1)
	trace, _ := s.Traces()
	fmt.Printf("%.3f %.3f\n", x, trace)
	// Output: [1.500 2.000] 1.667
}
