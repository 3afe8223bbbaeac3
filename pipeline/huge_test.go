package pipeline_test

import (
	"context"
	"math"
	"runtime"
	"testing"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/prox/lowrank"
	"surepipe/solve/solvetest"
	"surepipe/vjp"
)

// hugeShape is that of a matrix of which nothing as long as it can be formed: a byte for each entry
// would take 2.2 GB.
var hugeShape = array.Shape{Rows: 60000, Cols: 36000}

// A completion of a huge matrix that is 0 but for some rows and columns is that of the small matrix of
// these: both have the same estimates, in memory that does not depend on the product of the sides.
func TestCompletionOfAHugeMatrix(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	ctx := context.Background()
	small := array.Shape{Rows: 150, Cols: 130}
	a, y := solvetest.Completion(t, dev, small, 5000)
	rowAt, colAt := func(i int) int { return (i*577 + 11) % hugeShape.Rows },
		func(j int) int { return (j*307 + 5) % hugeShape.Cols }
	places, _ := linops.StructureOf(a).Sampled(dev, small)
	idx := make([]int, places.Len())
	for k, c := range indicesOf(dev, a) {
		idx[k] = rowAt(c/small.Cols)*hugeShape.Cols + colAt(c%small.Cols)
	}
	o := pipeline.Options{Sigma2: 0.09, Queries: 60, Seed: 3, KeepB: true, ALO: true}
	estimate := func(a linops.Operator, shape array.Shape) pipeline.Risk {
		t.Helper()
		p := vjp.Problem{A: a, R: lowrank.NewNuclear(shape, 14), Device: dev}
		s, err := vjp.NewSolver(ctx, "fista", p, vjp.Options{Sigma2: o.Sigma2})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		e, err := pipeline.New(s, o)
		if err != nil {
			t.Fatal(err)
		}
		r, err := e.Estimate(ctx, y)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	want := estimate(a, small)

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	huge, err := linops.NewSelection(dev, hugeShape.Len(), idx)
	if err != nil {
		t.Fatal(err)
	}
	defer huge.Release()
	got := estimate(huge, hugeShape)
	runtime.ReadMemStats(&after)
	if mem := after.TotalAlloc - before.TotalAlloc; mem > uint64(hugeShape.Len()) {
		t.Errorf("%d bytes were allocated for %d entries", mem, len(y))
	}
	for _, v := range []struct {
		name      string
		got, want float64
	}{
		{"SURE", got.SURE, want.SURE}, {"its error bar", got.StdErr, want.StdErr},
		{"the residual", got.Residual, want.Residual},
		{"GCV", got.GCV, want.GCV}, {"leave-one-out", got.ALO, want.ALO},
		{"the divergence", got.Trace.Trace, want.Trace.Trace},
	} {
		if !(math.Abs(v.got-v.want) <= 1e-3*math.Abs(v.want)) {
			t.Errorf("%s is %g, of the small matrix %g", v.name, v.got, v.want)
		}
	}
	if !floats.EqualApprox(got.MuHat, want.MuHat, 1e-4) {
		t.Error("mu_hat is another one")
	}
	if got.B != nil || got.Factors == nil {
		t.Fatal("b is not given by its factors")
	}
	if !floats.EqualApprox(got.BAt(idx), got.MuHat, 1e-10) {
		t.Error("b at the observed places is not mu_hat")
	}
	for i := range small.Rows {
		for j := range small.Cols {
			if b := got.Factors.At(rowAt(i), colAt(j)); math.Abs(b-want.B[i*small.Cols+j]) > 1e-3 {
				t.Fatalf("b at (%d, %d) is %g, of the small matrix %g", i, j, b, want.B[i*small.Cols+j])
			}
		}
	}
	checkRefusals(t, dev)
}

// indicesOf are the places that a selection picks, in the order of its rows.
func indicesOf(dev array.Device, a linops.Operator) []int {
	d, p := a.Dims()
	all, some := dev.Alloc(1, p), dev.Alloc(1, d)
	defer all.Free()
	defer some.Free()
	x := make([]float64, p)
	for i := range x {
		x[i] = float64(i)
	}
	dev.Upload(all, x)
	a.Forward(some, all)
	idx := make([]int, d)
	for k, v := range some.ToHost() {
		idx[k] = int(v)
	}
	return idx
}

// checkRefusals asks for what needs a vector as long as the matrix, of which all rows and columns are connected:
// an error, not a crash.
func checkRefusals(t *testing.T, dev array.Device) {
	t.Helper()
	ctx := context.Background()
	cross := make([]int, 0, hugeShape.Rows+hugeShape.Cols)
	for i := range hugeShape.Rows {
		cross = append(cross, i*hugeShape.Cols)
	}
	for j := 1; j < hugeShape.Cols; j++ {
		cross = append(cross, j)
	}
	a, err := linops.NewSelection(dev, hugeShape.Len(), cross)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Release()
	y := make([]float64, len(cross))
	p := vjp.Problem{A: a, R: lowrank.NewNuclear(hugeShape, 8), Device: dev}
	for _, name := range []string{"admm", "newton", "direct", "active-set"} {
		if s, err := vjp.NewSolver(ctx, name, p, vjp.Options{}); err == nil {
			s.Release()
			t.Errorf("no error for the solver %s", name)
		}
	}
	s, err := vjp.NewSolver(ctx, "fista", p, vjp.Options{Derivative: vjp.Unrolled})
	if err != nil {
		return
	}
	defer s.Release()
	e, err := pipeline.New(s, pipeline.Options{Sigma2: 1})
	if err == nil {
		_, err = e.Estimate(ctx, y)
	}
	if err == nil {
		t.Error("no error for an unrolled derivative")
	}
}
