package lowrank_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/prox"
	"surepipe/prox/lowrank"
	"surepipe/prox/proxtest"
)

// withValues is a matrix with the given singular values and random vectors, row-major.
func withValues(shape array.Shape, seed uint64, values ...float64) []float64 {
	rng := rand.New(rand.NewPCG(seed, 0))
	basis := func(n int) *mat.Dense {
		g := mat.NewDense(n, len(values), nil)
		g.Apply(func(int, int, float64) float64 { return rng.NormFloat64() }, g)
		var qr mat.QR
		qr.Factorize(g)
		var q mat.Dense
		qr.QTo(&q)
		return mat.DenseCopyOf(q.Slice(0, n, 0, len(values)))
	}
	var us, x mat.Dense
	us.Mul(basis(shape.Rows), mat.NewDiagDense(len(values), values))
	x.Mul(&us, basis(shape.Cols).T())
	return x.RawMatrix().Data
}

func TestFollowersConform(t *testing.T) {
	lowrank.FollowAll(t)
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		tall, wide := array.Shape{Rows: 36, Cols: 31}, array.Shape{Rows: 31, Cols: 37}
		for _, c := range []struct {
			name  string
			shape array.Shape
			p     prox.Prox
		}{
			{"tall", tall, lowrank.NewNuclear(tall, 2)},
			{"wide, scaled", wide, prox.NewScaled(2, lowrank.NewNuclear(wide, 1))},
		} {
			t.Run(c.name, func(t *testing.T) {
				points := proxtest.Points(
					withValues(c.shape, 1, 9, 7, 0.8, 0.5, 0.3),
					withValues(c.shape, 2, 9),                      // a direction of its own
					withValues(c.shape, 3, 8, 8),                   // twice the same value
					withValues(c.shape, 4, 1e3, 1e-3),              // and a small one
					withValues(c.shape, 5, 0.9, 0.8, 0.7),          // none above
					withValues(c.shape, 6, linear(31, 9, 0.01)...), // many
					make([]float64, c.shape.Len()))
				if err := proxtest.Check(dev, c.p, c.shape.Len(), points, proxtest.Steps(1, 1.7),
					proxtest.Seed(2)); err != nil {
					t.Error(err)
				}
			})
		}
	})
}

// path evaluates along points at step 1 and returns the results, the certificates and
// whether there were any.
func path(t *testing.T, dev array.Device, f prox.Follower, near float64, points ...[]float64) (results [][]float64,
	slacks []float64, certified []bool) {
	t.Helper()
	for _, v := range points {
		on, dst := dev.Alloc(1, len(v)), dev.Alloc(1, len(v))
		dev.Upload(on, v)
		if err := f.Eval(context.Background(), dst, on, 1, near); err != nil {
			t.Fatal(err)
		}
		slack, ok, err := f.Certify(context.Background(), on, near)
		if err != nil {
			t.Fatal(err)
		}
		results, slacks, certified = append(results, dst.ToHost()), append(slacks, slack), append(certified, ok)
		on.Free()
		dst.Free()
	}
	return results, slacks, certified
}

// A value that appears in a direction which the block does not hold is missed at first,
// which the certificate notices, and then found.
func TestFollowerMissesNoValue(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	shape := array.Shape{Rows: 90, Cols: 80}
	diagonal := func(values ...float64) []float64 {
		x := make([]float64, shape.Len())
		for i, v := range values {
			x[i*shape.Cols+i] = v
		}
		return x
	}
	before := diagonal(append([]float64{9, 7, 5}, linear(20, 0.9, 0.8)...)...)
	after := slices.Clone(before)
	after[60*shape.Cols+60] = 1.5
	p := lowrank.NewNuclear(shape, 1)
	f := follow(p)
	defer f.Release()
	const near = 1e-3
	points := append(slices.Repeat([][]float64{before}, 50), slices.Repeat([][]float64{after}, 50)...)
	results, slacks, certified := path(t, dev, f, near, points...)
	if !certified[49] || certified[50] {
		t.Errorf("certified: %v before the value appears and %v when it does", certified[49], certified[50])
	}
	if !certified[99] || slacks[99] > near || math.Abs(results[99][60*shape.Cols+60]-0.5) > near {
		t.Errorf("the value becomes %v, certified: %v to %v", results[99][60*shape.Cols+60], certified[99], slacks[99])
	}
}

// Followers that see the same points give the same bits.
func TestFollowersRepeat(t *testing.T) {
	dev := array.NewHost()
	shape := array.Shape{Rows: 70, Cols: 64}
	points := [][]float64{
		withValues(shape, 1, append([]float64{9, 7, 5}, linear(50, 0.9, 0.1)...)...),
		withValues(shape, 1, append([]float64{9, 7.5, 5}, linear(50, 0.95, 0.1)...)...),
		withValues(shape, 2, linear(64, 3, 0)...),
		withValues(shape, 1, 9, 7, 5),
	}
	var first [][]float64
	for range 3 {
		f := prox.StructureOf(lowrank.NewNuclear(shape, 1)).Follow()
		results, _, _ := path(t, dev, f, 1e-6, points...)
		f.Release()
		if first == nil {
			first = results
		}
		for i := range results {
			if !slices.Equal(results[i], first[i]) {
				t.Errorf("point %d differs", i)
			}
		}
	}
}

// Where values are far from the threshold or out of the range of squares a follower does what
// Eval does.
func TestFollowerAtTheEndsOfTheRange(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	shape := array.Shape{Rows: 64, Cols: 70}
	for _, c := range []struct {
		name   string
		size   float64 // of the matrix and lambda
		lambda float64
	}{
		{"tiny", 1e-200, 1}, {"huge", 1e150, 1}, {"a large value", 1, 1e-3}, {"a very large value", 1, 1e-6},
		{"far below", 1, 1e200},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := withValues(shape, 1, 9, 7, 0.5, 0.0003)
			floats.Scale(c.size, x)
			p := lowrank.NewNuclear(shape, c.lambda*c.size)
			f := follow(p)
			defer f.Release()
			near := 1e-9 * c.size
			results, slacks, certified := path(t, dev, f, near, x, x, x)
			on := dev.Alloc(1, shape.Len())
			defer on.Free()
			dev.Upload(on, x)
			if err := p.Eval(on, on, 1); err != nil {
				t.Fatal(err)
			}
			if e := floats.Distance(results[2], on.ToHost(), 2); !certified[2] || e > slacks[2]+1e-10*c.size {
				t.Errorf("off by %.3g, certified: %v to %.3g", e, certified[2], slacks[2])
			}
		})
	}
}

// Blocks are followed where they can be; an error names its block, and a context that is
// done ends an evaluation.
func TestFollowedBlocks(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	shape := array.Shape{Rows: 64, Cols: 66}
	n := shape.Len()
	p := prox.NewScaled(2, prox.NewSeparable(
		lowrank.NewNuclear(shape, 0.5),
		prox.Block{Prox: prox.NewL1(0.5), N: 10},
		prox.Block{Prox: lowrank.NewNuclear(shape, 1), N: n}))
	f := follow(p)
	defer f.Release()
	left := withValues(shape, 1, append([]float64{9, 7}, linear(50, 0.9, 0.1)...)...)
	right := withValues(shape, 2, append([]float64{5}, linear(50, 1.5, 0.1)...)...)
	v := slices.Concat(left, linear(10, -3, 3), right)
	const near = 1e-6
	results, slacks, certified := path(t, dev, f, near, v, v, v)
	on := dev.Alloc(1, p.Dim())
	defer on.Free()
	dev.Upload(on, v)
	if err := p.Eval(on, on, 1); err != nil {
		t.Fatal(err)
	}
	if e := floats.Distance(results[2], on.ToHost(), 2); !certified[2] || slacks[2] > near || e > slacks[2] {
		t.Errorf("off by %.3g, certified: %v to %.3g", e, certified[2], slacks[2])
	}
	if slices.Equal(results[2], on.ToHost()) {
		t.Error("nothing was followed")
	}

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := f.Eval(ctx, on, on, 1, near); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v from a context that is done", err)
	}
	v[n+10] = math.NaN()
	dev.Upload(on, v)
	if err := f.Eval(context.Background(), on, on, 1, near); err == nil ||
		!strings.Contains(err.Error(), "block 2") || !strings.Contains(err.Error(), "NaN") {
		t.Errorf("error %v where block 2 holds a NaN", err)
	}
}

// Where nothing is gained there is no Follower.
func TestFollowNothing(t *testing.T) {
	small, large := array.Shape{Rows: 20, Cols: 300}, array.Shape{Rows: 100, Cols: 100}
	for name, p := range map[string]prox.Prox{
		"l1":          prox.NewL1(1),
		"small":       lowrank.NewNuclear(small, 1),
		"no penalty":  lowrank.NewNuclear(large, 0),
		"all penalty": prox.NewScaled(2, lowrank.NewNuclear(large, math.Inf(1))),
		"blocks of l1": prox.NewSeparable(prox.Block{Prox: prox.NewL1(1), N: 9},
			prox.Block{Prox: prox.NonNegative(), N: 9}),
		"a user's own":  softFunc(9),
		"a small block": prox.NewSeparable(lowrank.NewNuclear(small, 1), prox.Block{Prox: prox.NewL1(1), N: 9}),
	} {
		if f := follow(p); f != nil {
			t.Errorf("%s: a follower %T", name, f)
		}
	}
}

// follow returns a Follower of p, nil where there is none.
func follow(p prox.Prox) prox.Follower {
	if f := prox.StructureOf(p).Follow; f != nil {
		return f()
	}
	return nil
}
