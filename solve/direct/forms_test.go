package direct_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/internal/limits"
	"surepipe/solve/internal/roomtest"
	"surepipe/solve/solvetest"
)

// squares draws a problem whose regularizer is a sum of squares behind operators, with what its closed
// form is to be.
type squares struct {
	*testing.T
	dev array.Device
	rng *rand.Rand
}

func (s squares) csr(rows, cols int, row func(i int) ([]int, []float64)) linops.Operator {
	indptr, indices, values := []int{0}, []int(nil), []float64(nil)
	for i := range rows {
		at, v := row(i)
		indices, values = append(indices, at...), append(values, v...)
		indptr = append(indptr, len(indices))
	}
	a, err := linops.NewCSR(s.dev, rows, cols, indptr, indices, values)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(a.Release)
	return a
}

// differences are those of n numbers, taken order times.
func (s squares) differences(n, order int) linops.Operator {
	row := []float64{1}
	for range order {
		next := make([]float64, len(row)+1)
		for i, v := range row {
			next[i] -= v
			next[i+1] += v
		}
		row = next
	}
	return s.csr(n-order, n, func(i int) ([]int, []float64) {
		at := make([]int, len(row))
		for j := range at {
			at[j] = i + j
		}
		return at, row
	})
}

func (s squares) pick(n int) linops.Operator {
	var places []int
	for i := range n {
		if i < 3 || i == n-1 || s.rng.IntN(3) > 0 {
			places = append(places, i)
		}
	}
	a, err := linops.NewSelection(s.dev, n, places)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(a.Release)
	return a
}

func (s squares) blur(rows, cols int, b imaging.Boundary) linops.Operator {
	a, err := imaging.NewConvolution2D(rows, cols, mat.NewDense(3, 3, []float64{1, 2, 1, 2, 5, 2, 1, 2, 1}), b)
	if err != nil {
		s.Fatal(err)
	}
	return a
}

// draw returns the problem, the squared loss's weights or nil, and the choice that is expected.
func (s squares) draw(kind int) (p solve.Problem, weights []float64, chosen string) {
	n := 30 + s.rng.IntN(60)
	rows, cols := 9+s.rng.IntN(4), 10+s.rng.IntN(4)
	weight := func() float64 { return math.Pow(10, 6*s.rng.Float64()-2) }
	terms := func(a linops.Operator, ks ...linops.Operator) {
		var all []solve.Term
		for _, k := range ks {
			all = append(all, solve.Term{K: k, R: prox.NewSquaredL2(weight())})
		}
		p.A = a
		p.K, p.R = solve.Terms(all...)
	}
	image := func(e imaging.Edge) linops.Operator { return imaging.NewGradient([]int{rows, cols}, nil, e) }
	const banded, sparse, transform, stacked = "a banded triangular factor", "a sparse Cholesky factor",
		"a fast transform", "pivoted factorization with the penalty"
	chosen = banded
	switch kind {
	case 0:
		terms(linops.Identity(n), s.differences(n, 1+s.rng.IntN(4)))
	case 1:
		terms(linops.Identity(n), s.differences(n, 2), linops.Identity(n), s.differences(n, 1))
	case 2:
		terms(s.pick(n), s.differences(n, 1+s.rng.IntN(3)))
	case 3:
		terms(linops.Identity(n), s.differences(n, 2))
		weights = make([]float64, n)
		for i := range weights {
			weights[i] = math.Max(0, s.rng.Float64()-0.2)
		}
	case 4: // averages of neighbours
		terms(s.csr(n/2, n, func(i int) ([]int, []float64) { return []int{2 * i, 2*i + 1}, []float64{0.3, 0.7} }),
			s.differences(n, 2))
	case 5:
		chosen = transform
		terms(linops.Identity(rows*cols), image(imaging.Reflecting), linops.Identity(rows*cols))
	case 6:
		chosen = transform
		terms(s.blur(rows, cols, imaging.Circular), image(imaging.Periodic))
	case 7: // a graph
		chosen = sparse
		terms(s.pick(120), s.csr(200, 120, func(i int) ([]int, []float64) {
			return []int{i % 120, (i + 1 + s.rng.IntN(118)) % 120}, []float64{1, -1}
		}))
	case 8: // a wide band
		terms(s.blur(rows, cols, imaging.ZeroPadded), image(imaging.Reflecting),
			linops.Scale(0.5, linops.Identity(rows*cols)))
		if s.rng.IntN(2) == 0 {
			terms(s.pick(60), imaging.NewGradient([]int{3, 4, 5}, nil, imaging.Reflecting))
		}
	default:
		chosen = stacked
		d, dim := 4+s.rng.IntN(20), 3+s.rng.IntN(15)
		x := linops.NewDense(s.dev, mat.NewDense(d, dim, solvetest.Gaussian(s.rng, d*dim)))
		s.Cleanup(x.Release)
		terms(x, s.differences(dim, 1), linops.Identity(dim))
	}
	p.Device = s.dev
	return p, weights, chosen
}

// The closed forms of sums of squares agree with dense algebra in b, the hat matrix, its traces and
// its diagonal.
func TestSumsOfSquaresAgainstDenseAlgebra(t *testing.T) {
	const eachKind = 6
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	for kind := range 10 {
		for seed := range eachKind {
			t.Run(fmt.Sprintf("kind %d, seed %d", kind, seed), func(t *testing.T) {
				s := squares{t, dev, rand.New(rand.NewPCG(uint64(kind), uint64(seed)))}
				p, weights, chosen := s.draw(kind)
				if kind == 7 || kind == 8 {
					defer func(most int) { limits.Stacked = most }(limits.Stacked)
					limits.Stacked = 0
				}
				if weights != nil {
					l, err := loss.WeightedSquared(dev, weights)
					if err != nil {
						t.Fatal(err)
					}
					defer l.Release()
					p.Loss = l
				}
				if got := solve.Default(p); got != "direct" {
					t.Errorf("the default is %s", got)
				}
				s.compare(p, weights, chosen)
			})
		}
	}
}

// compare solves the problem and compares with dense algebra: with M = [W^{1/2} A; q^{1/2} K] = Q R
// the hat matrix is Q1 Q1*.
func (s squares) compare(p solve.Problem, weights []float64, chosen string) {
	d, dim := p.A.Dims()
	y := roomtest.On(s.T, s.dev, solvetest.Gaussian(s.rng, d))
	sol := roomtest.At(s.T, roomtest.NewSolver(s.T, "direct", p, solve.Options{Point: true}), y)
	roomtest.CheckChoice(s.T, sol, "method", chosen)
	q, _ := p.K.Dims()
	a, k, values := linops.ToDense(s.dev, p.A), linops.ToDense(s.dev, p.K), y.ToHost()
	_, curvature, _ := prox.StructureOf(p.R).Sparse(q)
	m := mat.NewDense(d+q, dim, nil)
	z := mat.NewVecDense(d+q, nil)
	for i := range d {
		w := 1.0
		if weights != nil {
			w = math.Sqrt(weights[i])
		}
		z.SetVec(i, w*values[i])
		for j, v := range a.RawRowView(i) {
			m.Set(i, j, w*v)
		}
	}
	for i := range q {
		for j, v := range k.RawRowView(i) {
			m.Set(d+i, j, math.Sqrt(curvature.At(i))*v)
		}
	}
	var qr mat.QR
	qr.Factorize(m)
	var full, r, hat mat.Dense
	qr.QTo(&full)
	qr.RTo(&r)
	var c, b mat.VecDense
	c.MulVec(full.Slice(0, d+q, 0, dim).T(), z)
	if err := b.SolveVec(r.Slice(0, dim, 0, dim), &c); err != nil {
		s.Fatal(err)
	}
	q1 := full.Slice(0, d, 0, dim)
	hat.Mul(q1, q1.T())
	near := func(what string, got, want, scale float64) {
		if math.Abs(got-want) > 1e-9*scale || math.IsNaN(got) {
			s.Errorf("%s is %g, expected %g", what, got, want)
		}
	}
	for j, v := range sol.B.ToHost() {
		near(fmt.Sprintf("b[%d]", j), v, b.AtVec(j), mat.Norm(&b, 2))
	}
	traces := sol.At.Linear.Traces()
	near("the trace", traces.Trace, mat.Trace(&hat), mat.Trace(&hat))
	near("the squared norm", traces.Frobenius2, math.Pow(mat.Norm(&hat, 2), 2), 1e3*mat.Trace(&hat))
	if _, known := sol.At.Linear.DiagonalFlops(); !known {
		s.Error("the diagonal is not known")
	} else {
		for i, v := range sol.At.Linear.Diagonal() {
			near(fmt.Sprintf("entry %d of the diagonal", i), v, hat.At(i, i), 1)
		}
	}
	v, images := s.dev.Alloc(5, d), s.dev.Alloc(5, d)
	defer v.Free()
	defer images.Free()
	probes := solvetest.Gaussian(s.rng, 5*d)
	s.dev.Upload(v, probes)
	sol.At.Linear.Images(images, v)
	var want mat.Dense
	want.Mul(mat.NewDense(5, d, probes), &hat)
	for i, got := range images.ToHost() {
		near(fmt.Sprintf("entry %d of the images", i), got, want.At(i/d, i%d), mat.Norm(&want, 2))
	}
	if !sol.Converged || traces.Below > 1e-9 {
		s.Errorf("converged %v, and the trace may be %g too large", sol.Converged, traces.Below)
	}
}
