package rewrite_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/additive"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/risk"
	"surepipe/solve"
	"surepipe/solve/engine"
	"surepipe/solve/rewrite"
	"surepipe/solve/solvetest"
)

// A row is a rewriting and the problem that it is for.
type row struct {
	name    string
	asked   solvetest.Asked
	rewrite func() (engine.Rewriting, error)
}

// gaussian is a random matrix.
func gaussian(rng *rand.Rand, d, p int) *mat.Dense {
	return mat.NewDense(d, p, solvetest.Gaussian(rng, d*p))
}

// always is a rewriting that cannot fail.
func always(f func() engine.Rewriting) func() (engine.Rewriting, error) {
	return func() (engine.Rewriting, error) { return f(), nil }
}

// weighing is the squared loss with weights of the observations.
func weighing(t *testing.T, dev array.Device, w []float64) loss.Loss {
	l, err := loss.WeightedSquared(dev, w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Release)
	return l
}

// rewritings are all of them, on a device.
func rewritings(t *testing.T, dev array.Device) []row {
	rng := rand.New(rand.NewPCG(3, 1))
	const d, p, q = 9, 5, 3
	a := linops.NewDense(dev, gaussian(rng, d, p))
	k := linops.NewDense(dev, gaussian(rng, q, p))
	square := linops.NewDense(dev, gaussian(rng, p, p))
	wide := linops.NewDense(dev, gaussian(rng, p+2, p))
	t.Cleanup(func() { a.Release(); k.Release(); square.Release(); wide.Release() })
	ridge := func(k linops.Operator, l loss.Loss) solve.Problem {
		return solve.Problem{A: a, K: k, R: prox.NewSquaredL2(0.7), Loss: l, Device: dev}
	}
	units, rows := []float64{1, 0.25, 8, 2, 1}, []float64{1, 16, 0.5, 1, 2, 4, 1}
	plain, behind := ridge(nil, nil), ridge(wide, nil)
	weighted := ridge(wide, weighing(t, dev, []float64{1, 4, 0.25, 0, 2, 3, 0.1, 0, 5}))
	all := []row{
		{"columns", solvetest.Asked{Problem: plain}, always(func() engine.Rewriting {
			return rewrite.Columns(plain, units)
		})},
		{"columns of A and K", solvetest.Asked{Problem: behind}, always(func() engine.Rewriting {
			return rewrite.Columns(behind, units)
		})},
		{"rows", solvetest.Asked{Problem: behind}, always(func() engine.Rewriting { return rewrite.Rows(behind, rows) })},
		{"weights", solvetest.Asked{Problem: weighted}, always(func() engine.Rewriting {
			w, _ := weighted.Loss.Weights()
			return rewrite.Weights(weighted, w.ToHost())
		})},
	}
	for name, k := range map[string]linops.Operator{"coordinates": k, "all coordinates": square} {
		asked := ridge(k, nil)
		all = append(all, row{name, solvetest.Asked{Problem: asked}, func() (engine.Rewriting, error) {
			return rewrite.Coordinates(t.Context(), asked)
		}})
	}
	return append(all, projections(t, dev, rng)...)
}

// projections are an intercept, and effects of the rows and columns of a matrix with an entry that determines an
// effect alone, with weights and without.
func projections(t *testing.T, dev array.Device, rng *rand.Rand) []row {
	const d, p = 8, 3
	ones := mat.NewDense(d, 1, slices.Repeat([]float64{1}, d))
	x := linops.NewDense(dev, gaussian(rng, d, p))
	centered := additive.NewCentered(dev, x)
	t.Cleanup(func() { centered.Release(); x.Release() })
	of := func(a, raw linops.Operator, r prox.Prox, l loss.Loss, z *mat.Dense, pi additive.Projection) row {
		terms, _ := pi.Named()
		return row{terms, solvetest.Asked{Problem: solve.Problem{A: raw, R: r, Loss: l, Device: dev}, Terms: z},
			func() (engine.Rewriting, error) {
				q, err := rewrite.Project(solve.Problem{A: a, R: r, Loss: l, Device: dev}, pi)
				return q.Origin, err
			}}
	}
	all := []row{of(centered, x, prox.NewSquaredL2(0.7), nil, ones, additive.Constant(d))}
	shape, places := array.Shape{Rows: 4, Cols: 3}, []int{0, 1, 3, 4, 5, 8, 11, 10}
	indicators := mat.NewDense(len(places), shape.Rows+shape.Cols-1, nil) // all but the last column's: a basis
	for i, c := range places {
		indicators.Set(i, c/shape.Cols, 1)
		if j := c % shape.Cols; j < shape.Cols-1 {
			indicators.Set(i, shape.Rows+j, 1)
		}
	}
	s, err := linops.NewSelection(dev, shape.Len(), places)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Release)
	for _, w := range [][]float64{nil, {1, 2, 0.5, 3, 1, 1, 0.25, 4}} {
		e, err := additive.NewEffects(dev, shape, places, true, true, w)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Release)
		var l loss.Loss
		if w != nil {
			l = weighing(t, dev, w)
		}
		all = append(all, of(additive.WithoutEffects(s, e), s, prox.NewSquaredL2(0.3), l, indicators, e))
	}
	return all
}

// Every rewriting is one: its solution and its derivative are those of the problem that was asked for.
func TestRewritings(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, r := range rewritings(t, dev) {
			if err := solvetest.CheckRewriting(r.asked, r.rewrite); err != nil {
				t.Errorf("%s: %v", r.name, err)
			}
		}
	})
}

// broken is a rewriting with some methods replaced.
type broken struct {
	engine.Rewriting
	data, start func(x array.Batch) (array.Batch, bool)
	deliver     func(b, mu, y array.Batch) error
	images      func(dst, v array.Batch, inner func(dst, v array.Batch) error) error
	closed      func(c engine.Closed) engine.Closed
	noise       float64
	kept        bool
}

func (b broken) Data(y array.Batch) (array.Batch, bool) {
	if b.data != nil {
		return b.data(y)
	}
	return b.Rewriting.Data(y)
}

func (b broken) Start(x array.Batch) (array.Batch, bool) {
	if b.start != nil {
		return b.start(x)
	}
	return b.Rewriting.Start(x)
}

func (b broken) Deliver(x, mu, y array.Batch) error {
	if b.deliver != nil {
		return b.deliver(x, mu, y)
	}
	return b.Rewriting.Deliver(x, mu, y)
}

func (b broken) Images(dst, v array.Batch, inner func(dst, v array.Batch) error) error {
	if b.images != nil {
		return b.images(dst, v, inner)
	}
	return b.Rewriting.Images(dst, v, inner)
}

func (b broken) Closed(c engine.Closed) engine.Closed {
	if b.closed != nil {
		return b.closed(c)
	}
	return b.Rewriting.Closed(c)
}

func (b broken) Noise() float64 { return b.Rewriting.Noise() + b.noise }

func (b broken) Release() {
	if !b.kept {
		b.Rewriting.Release()
	}
}

// A rewriting that is wrong in one place does not pass.
func TestBrokenRewritings(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	all := rewritings(t, dev)
	named := func(name string) row { return all[slices.IndexFunc(all, func(r row) bool { return r.name == name })] }
	for _, c := range []struct {
		fault, of string
		breaks    func(b *broken)
		want      string
	}{
		{"y is not weighted", "weights",
			func(b *broken) { b.data = engine.Unchanged{}.Data }, "b is off"},
		{"y is not projected", "intercept",
			func(b *broken) { b.data = engine.Unchanged{}.Data }, "the misfit is off"},
		{"y is changed", "intercept", func(b *broken) {
			w := b.Rewriting
			b.data = func(y array.Batch) (array.Batch, bool) { dev.Lin(y, 2, y, 0, array.Batch{}); return w.Data(y) }
		}, "changes what it is given"},
		{"another batch is not owned", "weights", func(b *broken) {
			w := b.Rewriting
			b.data = func(y array.Batch) (array.Batch, bool) { z, _ := w.Data(y); return z, false }
		}, "another batch"},
		{"starts in the wrong units", "columns",
			func(b *broken) { b.start = engine.Unchanged{}.Start }, "b of b' is off"},
		{"b is not delivered", "columns",
			func(b *broken) { b.deliver = engine.Unchanged{}.Deliver }, "b is off"},
		{"coordinates are not delivered", "coordinates",
			func(b *broken) { b.deliver = engine.Unchanged{}.Deliver }, "b is off"},
		{"mu is that of sqrt(w) A", "weights",
			func(b *broken) { b.deliver = engine.Unchanged{}.Deliver }, "mu is off"},
		{"the mean is not added", "intercept",
			func(b *broken) { b.deliver = engine.Unchanged{}.Deliver }, "mu is off"},
		{"images without the mean", "intercept",
			func(b *broken) { b.images = engine.Unchanged{}.Images }, "the matrix of Images is off"},
		{"a trace without the rank", "effects of rows and columns",
			func(b *broken) { b.closed = engine.Unchanged{}.Closed }, "the trace and the Frobenius norm is off"},
		{"a diagonal without the effects", "effects of rows and columns", func(b *broken) {
			w := b.Rewriting
			b.closed = func(c engine.Closed) engine.Closed {
				out := w.Closed(c)
				out.Diagonal = c.Diagonal
				return out
			}
		}, "the diagonal is off"},
		{"leverages of 1 are not marked", "effects of rows and columns", func(b *broken) {
			w := b.Rewriting
			b.closed = func(c engine.Closed) engine.Closed {
				c = w.Closed(c)
				c.Determined = nil
				return c
			}
		}, "Determined of observation"},
		{"the noise is that of y", "weights", func(b *broken) { b.noise = 0.5 }, "Noise is"},
		{"memory is kept", "columns", func(b *broken) { b.kept = true }, "not given back"},
	} {
		r := named(c.of)
		err := solvetest.CheckRewriting(r.asked, func() (engine.Rewriting, error) {
			w, err := r.rewrite()
			b := broken{Rewriting: w}
			c.breaks(&b)
			return b, err
		})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.fault, err, c.want)
		}
	}
}

// The mean alone: SURE is ||y - mean(y) 1||^2 - d sigma2 + 2 sigma2.
func TestInterceptAlone(t *testing.T) {
	y := []float64{1, 4, 2, 5}
	residual := 4. + 1 + 1 + 4 // about the mean 3
	dev := array.NewHost()
	defer dev.Close()
	p, err := rewrite.Project(solve.Problem{Device: dev}, additive.Constant(len(y)))
	if err != nil {
		t.Fatal(err)
	}
	c := p.Rewriting().Closed(engine.Closed{})
	got := risk.Terms{D: len(y), Sigma2: 1.5, Residual: residual, Divergence: c.Trace, Frobenius2: c.Frobenius2}.SURE()
	if want := residual - 4*1.5 + 2*1.5; got != want {
		t.Errorf("SURE %g, expected %g", got, want)
	}
}
