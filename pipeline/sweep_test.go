package pipeline_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/hutch"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/progress"
	"surepipe/prox"
	"surepipe/risk"
	"surepipe/solve"
	"surepipe/vjp"
)

// curve is the elastic net on 130 x 40 data, sigma2 = 1, mu known: the weights are
// lambda and lambda2.
type curve struct {
	pipeline.Family
	y, mu []float64
	max   float64 // ||A* y||_inf
}

func newCurve(t testing.TB, dev array.Device) curve {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 8))
	const d, p = 130, 40
	x := mat.NewDense(d, p, gaussian(rng, d*p))
	mu := make([]float64, d)
	for i := range mu {
		mu[i] = 0.3*x.At(i, 0) - 0.2*x.At(i, 1) + 0.1*x.At(i, 2)
	}
	y := slices.Clone(mu)
	for i := range y {
		y[i] += rng.NormFloat64()
	}
	var c mat.VecDense
	c.MulVec(x.T(), mat.NewVecDense(d, y))
	a := linops.NewDense(dev, x)
	t.Cleanup(a.Release)
	family := pipeline.Family{
		Problem: vjp.Problem{A: a, Device: dev}, Solver: "fista", Settings: vjp.Options{Tol: 1e-10},
		Regularizer: func(w []float64) (prox.Prox, error) {
			if len(w) == 1 {
				return prox.NewL1(w[0]), nil
			}
			return prox.NewElasticNet(w[0], w[1]), nil
		},
	}
	return curve{family, y, mu, max(mat.Max(&c), -mat.Min(&c))}
}

// axis is n values from lo to hi.
func axis(lo, hi float64, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = lo * math.Pow(hi/lo, float64(i)/float64(n-1))
	}
	return v
}

// collect runs a sweep and returns its points, times aside. Results of one point are
// kept whole, in the last: the minimizer.
func collect(t testing.TB, c curve, grid [][]float64, o pipeline.SweepOptions) []pipeline.SweepPoint {
	t.Helper()
	if o.Sigma2 == 0 {
		o.Sigma2 = 1
	}
	var points []pipeline.SweepPoint
	for p, err := range pipeline.Sweep(context.Background(), c.y, c.Family, grid, o) {
		if err != nil {
			t.Fatal(err)
		}
		p.Solve, p.Divergence, p.Total = 0, 0, 0
		points = append(points, p)
	}
	return points
}

func known(points []pipeline.SweepPoint) []pipeline.SweepValue {
	var k []pipeline.SweepValue
	for _, p := range points {
		k = append(k, pipeline.SweepValue{Weights: p.Weights, Value: p.SURE, Trusted: p.Trusted(), Digest: p.Digest})
	}
	return k
}

// Points do not depend on how many are in flight, nor on where an earlier sweep was
// interrupted.
// A sweep takes a method that is not in the table, and is that of the method by its name.
func TestSweepTakesAMethod(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	y := []float64{6, -5, 0.4, -0.3, 0.2, 0.1}
	family := pipeline.Family{
		Problem: vjp.Problem{A: linops.Identity(len(y)), Device: dev}, Solver: "fista",
		Regularizer: func(weights []float64) (prox.Prox, error) { return prox.NewL1(weights[0]), nil },
	}
	points := func(f pipeline.Family) (sure []float64) {
		o := pipeline.SweepOptions{Refine: -1, Options: pipeline.Options{Sigma2: 0.2}}
		for p, err := range pipeline.Sweep(t.Context(), y, f, [][]float64{{0.25, 1, 4}}, o) {
			if err != nil {
				t.Fatal(err)
			}
			sure = append(sure, p.SURE)
		}
		return sure
	}
	want := points(family)
	fista, _ := solve.Lookup("fista")
	family.Solver, family.Method = "", &fista
	if got := points(family); !slices.Equal(got, want) {
		t.Errorf("SURE %v, expected %v", got, want)
	}
}

func TestSweepIsBitIdenticalParallelAndResumed(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		c := newCurve(t, dev)
		for name, grid := range map[string][][]float64{
			"one":      {axis(0.02*c.max, 2*c.max, 13)},
			"two":      {axis(0.05*c.max, c.max, 5), axis(1, 300, 4)},
			"edge":     {axis(0.5*c.max, 2*c.max, 4)},
			"path":     {axis(0.002*c.max, 2*c.max, 15)},
			"two path": {axis(0.05*c.max, c.max, 5), axis(1, 300, 3)},
		} {
			o := pipeline.SweepOptions{Mu: c.mu, Chain: 4, Options: pipeline.Options{ALO: true}}
			if c.Solver = "fista"; strings.HasSuffix(name, "path") {
				c.Solver, o.Chain = "active-set", 0
			}
			want := collect(t, c, grid, o)
			o.Parallel, o.Batch = 3, 7
			if got := collect(t, c, grid, o); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: three in flight give other points", name)
			}
			for cut := range want {
				if (testing.Short() || arraytest.Emulated(t, dev)) && cut%3 != 1 {
					continue
				}
				o.Parallel = 1 + cut%2
				o.Known = known(want[:cut])
				got := collect(t, c, grid, o)
				if !reflect.DeepEqual(got, want[cut:]) {
					t.Errorf("%s: resumed after %d points the rest differs", name, cut)
				}
			}
		}
	})
}

// The order is from the largest weights to the smallest, the first weight fastest; the
// minimizer is the least of all points; edges are told.
func TestSweepOrderAndMinimizer(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		c := newCurve(t, dev)
		grid := [][]float64{axis(0.02*c.max, 2*c.max, 6), axis(0.5, 50, 3)}
		points := collect(t, c, grid, pipeline.SweepOptions{Mu: c.mu, Options: pipeline.Options{KeepB: true}})
		for i, p := range points[:18] {
			place := []int{5 - i%6, 2 - i/6}
			if !slices.Equal(p.Place, place) || p.Weights[0] != grid[0][place[0]] ||
				p.Weights[1] != grid[1][place[1]] || p.Stage != pipeline.GridStage || p.MuHat != nil || p.B != nil {
				t.Errorf("point %d: place %v, weights %v", i, p.Place, p.Weights)
			}
		}
		last := points[len(points)-1]
		for _, p := range points {
			if p.SURE < last.SURE {
				t.Errorf("point %d has SURE %g, below the minimizer's %g", p.Index, p.SURE, last.SURE)
			}
		}
		if len(points) < 20 || last.MuHat == nil || last.B == nil || last.SURE != points[last.Index].SURE {
			t.Errorf("%d points, minimizer %+v", len(points), last)
		}
		for _, c2 := range []struct {
			lo, hi  float64
			n, edge int
		}{{0.02, 0.05, 2, 1}, {0.5, 0.9, 7, -1}, {0.02, 0.5, 7, 0}} {
			grid := [][]float64{axis(c2.lo*c.max, c2.hi*c.max, c2.n)}
			points := collect(t, c, grid, pipeline.SweepOptions{Refine: -1})
			if last := points[len(points)-1]; last.Edge[0] != c2.edge || len(points) != c2.n+1 {
				t.Errorf("%v: edge %v with %d points", c2, last.Edge, len(points))
			}
			// The refinement goes on beyond the edge.
			points = collect(t, c, grid, pipeline.SweepOptions{})
			if w := points[len(points)-1].Weights[0]; c2.edge > 0 && w <= grid[0][c2.n-1] || c2.edge < 0 && w >= grid[0][0] {
				t.Errorf("%v: the minimizer is %g, expected one beyond the edge", c2, w)
			}
		}
	})
}

// The refinement finds what a grid a hundred times as dense finds, or ten times where the card
// is emulated. Ridge regression's curve is smooth.
func TestRefinementFindsTheMinimumOfADenseGrid(t *testing.T) {
	if testing.Short() {
		t.Skip("short: an algorithm above the device, shown by the full run")
	}
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		c := newCurve(t, dev)
		c.Regularizer = func(w []float64) (prox.Prox, error) { return prox.NewSquaredL2(w[0]), nil }
		c.Solver, c.Settings = "direct", vjp.Options{}
		o := pipeline.SweepOptions{Options: pipeline.Options{Estimator: hutch.Exact}}
		coarse := collect(t, c, [][]float64{axis(1, 1e5, 11)}, o)
		got := coarse[len(coarse)-1]
		o.Refine = -1
		times := 100
		if arraytest.Emulated(t, dev) {
			times = 10
		}
		dense := collect(t, c, [][]float64{axis(1, 1e5, 10*times+1)}, o)
		want := dense[len(dense)-1]
		if len(dense) != 10*times+2 {
			t.Errorf("%d points without a refinement", len(dense))
		}
		if step := math.Log(10) / 2; math.Abs(math.Log(got.Weights[0]/want.Weights[0])) > (0.02+1/float64(times))*step {
			t.Errorf("minimizer %g, on the dense grid %g", got.Weights[0], want.Weights[0])
		}
		if got.SURE > want.SURE+1e-3 || len(coarse) > 11+20+1 {
			t.Errorf("SURE %g after %d points, on the dense grid %g", got.SURE, len(coarse), want.SURE)
		}
	})
}

// A point that has not converged is the minimizer only if all are such.
func TestSweepLeavesOutWhatHasNotConverged(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		c := newCurve(t, dev)
		c.Settings = vjp.Options{Tol: 1e-10, MaxIter: 25}
		points := collect(t, c, [][]float64{axis(0.01*c.max, 2*c.max, 9)}, pipeline.SweepOptions{Chain: 1, Refine: -1})
		last := points[len(points)-1]
		below := false
		for _, p := range points {
			below = below || !p.Trusted() && p.SURE < last.SURE
		}
		if !last.Trusted() || !below {
			t.Errorf("the test wants some points not to converge, below the minimizer: %+v", last)
		}
		c.Settings.MaxIter = 1
		points = collect(t, c, [][]float64{axis(0.1*c.max, 0.5*c.max, 3)}, pipeline.SweepOptions{})
		if last := points[len(points)-1]; last.Trusted() || len(points) != 4 {
			t.Errorf("%d points, minimizer %+v", len(points), last)
		}
	})
}

func TestSweepStopsWithNothingLeft(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		c := newCurve(t, dev)
		grid := [][]float64{axis(0.02*c.max, 2*c.max, 30)}
		o := pipeline.SweepOptions{Chain: 3, Options: pipeline.Options{Sigma2: 1, Parallel: 4}}
		for _, after := range []int{1, 7, 31} {
			leaks(t, dev, func() {
				n := 0
				for _, err := range pipeline.Sweep(context.Background(), c.y, c.Family, grid, o) {
					if err != nil {
						t.Fatal(err)
					}
					if n++; n == after {
						break
					}
				}
				if n != after {
					t.Errorf("%d points, expected to leave after %d", n, after)
				}
			})
			leaks(t, dev, func() {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				n := 0
				var last error
				for _, err := range pipeline.Sweep(ctx, c.y, c.Family, grid, o) {
					if n++; n == after {
						cancel()
					}
					last = err
				}
				if !errors.Is(last, context.Canceled) {
					t.Errorf("cancelled after %d points: %v", after, last)
				}
			})
		}
		broken := errors.New("no such weight")
		for name, regularizer := range map[string]func(w []float64) (prox.Prox, error){
			"no such weight": func(w []float64) (prox.Prox, error) {
				if w[0] < 0.1*c.max {
					return nil, broken
				}
				return prox.NewL1(w[0]), nil
			},
			"out of range": func(w []float64) (prox.Prox, error) {
				if w[0] < 0.1*c.max {
					panic("out of range")
				}
				return prox.NewL1(w[0]), nil
			},
		} {
			leaks(t, dev, func() {
				f := c.Family
				f.Regularizer = regularizer
				var last error
				for _, err := range pipeline.Sweep(context.Background(), c.y, f, grid, o) {
					last = err
				}
				if last == nil || !strings.Contains(last.Error(), name) {
					t.Errorf("the sweep ended with %v, expected %q", last, name)
				}
			})
		}
	})
}

// The oldest chain fails when all others that may run ahead of it are done, and their worker waits for
// more.
func TestSweepEndsWhereTheOldestChainFailsLast(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		c := newCurve(t, dev)
		grid := [][]float64{axis(0.02*c.max, 2*c.max, 30)}
		o := pipeline.SweepOptions{Chain: 3, Options: pipeline.Options{Sigma2: 1, Parallel: 2}}
		broken := errors.New("no such weight")
		others := make(chan struct{})
		var begun atomic.Int64
		f := c.Family
		f.Regularizer = func(w []float64) (prox.Prox, error) {
			if w[0] == grid[0][18] && begun.Add(1) == 1 { // the last point of the last chain that may begin
				close(others)
			}
			if w[0] != grid[0][28] { // the second point of the first chain
				return c.Family.Regularizer(w)
			}
			select {
			case <-others:
				time.Sleep(100 * time.Millisecond)
			case <-time.After(10 * time.Second):
				t.Error("no chain runs ahead of the first")
			}
			return nil, broken
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		var last error
		for _, err := range pipeline.Sweep(ctx, c.y, f, grid, o) {
			last = err
		}
		if !errors.Is(last, broken) {
			t.Errorf("the sweep ended with %v, expected %q", last, broken)
		}
	})
}

// Progress comes one call at a time and names the point.
func TestSweepReportsProgress(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		c := newCurve(t, dev)
		done := map[int]int{}
		o := pipeline.SweepOptions{Refine: -1, Options: pipeline.Options{Parallel: 3}}
		o.Progress = func(p pipeline.Progress) {
			if p.Report.Stage == progress.Probes && p.Done == p.Total {
				done[p.Sample]++
			}
		}
		points := collect(t, c, [][]float64{axis(0.02*c.max, 2*c.max, 9)}, o)
		for i := range len(points) - 1 {
			if done[i] != 1 {
				t.Errorf("point %d was done %d times", i, done[i])
			}
		}
	})
}

func TestSweepOptionsAreChecked(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		c := newCurve(t, dev)
		ok := [][]float64{{1, 2}}
		one := pipeline.Options{Sigma2: 1}
		for _, k := range []struct {
			grid [][]float64
			o    pipeline.SweepOptions
			want string
		}{
			{ok, pipeline.SweepOptions{Criterion: risk.SURE}, "needs sigma2, which is 0"},
			{ok, pipeline.SweepOptions{Criterion: "cp"}, `the criterion is "cp", expected one of sure, gcv`},
			{ok, pipeline.SweepOptions{Options: pipeline.Options{Sigma2: -1}}, "sigma2 is -1"},
			{nil, pipeline.SweepOptions{Options: one}, "a grid without axes"},
			{[][]float64{{}}, pipeline.SweepOptions{Options: one}, "axis 0 of the grid is empty"},
			{[][]float64{{1}, {2, 1}}, pipeline.SweepOptions{Options: one}, "axis 1 of the grid holds 1 after 2"},
			{[][]float64{{1, math.NaN()}}, pipeline.SweepOptions{Options: one}, "holds NaN at 1"},
			{[][]float64{{0, 1}}, pipeline.SweepOptions{Options: one}, "holds 0 at 0"},
			{[][]float64{{1, math.Inf(1)}}, pipeline.SweepOptions{Options: one}, "holds +Inf at 1"},
			{ok, pipeline.SweepOptions{Options: one, Mu: []float64{1}}, "mu has 1 values, expected 130"},
			{ok, pipeline.SweepOptions{Options: one, Chain: -1}, "chains of -1 points"},
			{ok, pipeline.SweepOptions{Options: one, Known: []pipeline.SweepValue{{Weights: []float64{1}}}},
				"known point 0 has weights [1], expected [2]"},
			{ok, pipeline.SweepOptions{Options: one,
				Known: []pipeline.SweepValue{{Weights: []float64{2}, Value: math.NaN()}}}, "sure NaN"},
			{ok, pipeline.SweepOptions{Options: one, Refine: -1, Known: []pipeline.SweepValue{
				{Weights: []float64{2}, Trusted: true}, {Weights: []float64{1}, Trusted: true},
				{Weights: []float64{1.5}, Trusted: true},
			}}, "3 known points, expected at most 2"},
		} {
			var last error
			for _, err := range pipeline.Sweep(context.Background(), c.y, c.Family, k.grid, k.o) {
				last = err
			}
			if last == nil || !strings.Contains(last.Error(), k.want) {
				t.Errorf("%v %+v: error %v, expected one with %q", k.grid, k.o, last, k.want)
			}
		}
	})
}

// A closed form starts nowhere: a sweep of ridge regressions goes on with the same bits.
func TestSweepOfClosedFormsGoesOn(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		c := newCurve(t, dev)
		c.Regularizer = func(w []float64) (prox.Prox, error) { return prox.NewSquaredL2(w[0]), nil }
		c.Solver, c.Settings = "direct", vjp.Options{}
		grid := [][]float64{axis(1, 1e5, 12)}
		want := collect(t, c, grid, pipeline.SweepOptions{Chain: 6})
		for _, cut := range []int{2, 7, 12} {
			o := pipeline.SweepOptions{Chain: 6}
			for _, p := range want[:cut] {
				o.Known = append(o.Known, pipeline.SweepValue{Weights: p.Weights, Value: p.SURE, Trusted: p.Trusted(),
					Digest: p.Digest})
			}
			got := collect(t, c, grid, o)
			if len(got) != len(want)-cut {
				t.Fatalf("%d points after %d of %d", len(got), cut, len(want))
			}
			for i, p := range got {
				if w := want[cut+i]; p.SURE != w.SURE || !p.Closed || p.Stage != w.Stage {
					t.Errorf("after %d, point %d: SURE %v, expected %v; closed %v", cut, cut+i, p.SURE, w.SURE,
						p.Closed)
				}
			}
		}
	})
}
