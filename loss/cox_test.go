package loss_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/loss"
)

// Of three patients the first dies at time 1, the second is censored at 2, the third dies at 3: the first event was one
// of three equally likely ones.
func ExampleNewCox() {
	l, err := loss.NewCox(loss.Observed{Times: loss.Times{Time: []float64{1, 2, 3}}}, false)
	if err != nil {
		panic(err)
	}
	dev := array.NewHost()
	z, y, g := dev.Alloc(1, 3), dev.Alloc(1, 3), dev.Alloc(1, 3)
	dev.Upload(y, []float64{1, 0, 1})
	l.Gradient(g, z, y)
	fmt.Printf("value %.4f, gradient %.4f\n", l.Value(z, y), g.ToHost())
	// Output:
	// value 1.0986, gradient [-0.6667 0.3333 0.3333]
}

// timed are the losses of events at tied times, with and without strata, starts and weights.
func timed(t *testing.T, each func(name string, efron bool, o loss.Observed, l *loss.Cox, y, z []float64)) {
	for k := range 16 {
		r := rand.New(rand.NewPCG(5, uint64(k)))
		const n = 23
		o := loss.Observed{Times: loss.Times{Time: make([]float64, n)}}
		y, z := make([]float64, n), make([]float64, n)
		for i := range n {
			o.Time[i] = float64(1 + r.IntN(9))
			y[i], z[i] = float64(r.IntN(3)%2), r.NormFloat64()
			if k&2 != 0 {
				o.Strata = append(o.Strata, float64(r.IntN(3)))
			}
			if k&4 != 0 {
				o.Start = append(o.Start, o.Time[i]-float64(r.IntN(9))-0.5*float64(r.IntN(2))-0.25)
			}
			if k&8 != 0 {
				o.Weights = append(o.Weights, float64(r.IntN(4))/2)
				o.Offset = append(o.Offset, r.NormFloat64())
			}
		}
		efron := k&1 != 0
		l, err := loss.NewCox(o, efron)
		if err != nil {
			t.Fatal(err)
		}
		each(fmt.Sprintf("efron %t, %d", efron, k), efron, o, l, y, z)
	}
}

// partial is the loss by its definition.
func partial(o loss.Observed, efron bool, y, z []float64) (sum float64) {
	stratum := func(i int) float64 { return append(slices.Clone(o.Strata), make([]float64, len(y))...)[i] }
	weight := func(i int) float64 {
		if o.Weights == nil {
			return 1
		}
		return o.Weights[i]
	}
	eta := func(i int) float64 {
		if o.Offset == nil {
			return z[i]
		}
		return z[i] + o.Offset[i]
	}
	for i := range y {
		if y[i] == 0 || weight(i) == 0 {
			continue
		}
		risk, ties := 0.0, []int{}
		for j := range y {
			if o.Strata != nil && stratum(j) != stratum(i) || o.Time[j] < o.Time[i] ||
				o.Start != nil && o.Start[j] >= o.Time[i] {
				continue
			}
			risk += weight(j) * math.Exp(eta(j))
			if y[j] == 1 && o.Time[j] == o.Time[i] && weight(j) > 0 {
				ties = append(ties, j)
			}
		}
		sum -= weight(i) * eta(i)
		if !efron {
			sum += weight(i) * math.Log(risk)
			continue
		}
		tied, total, at := 0.0, 0.0, 0
		for k, j := range ties {
			tied += weight(j) * math.Exp(eta(j))
			total += weight(j)
			if j == i {
				at = k
			}
		}
		d := float64(len(ties))
		sum += total / d * math.Log(risk-float64(at)/d*tied)
	}
	return sum
}

// The value is that of the definition, the gradient that of the value, products are those of the gradient, the
// curvature is above them, the root is one, and its inverses are inverses.
func TestCoxIsConsistent(t *testing.T) {
	dev := array.NewHost()
	on := func(x []float64) array.Batch {
		b := dev.Alloc(1, len(x))
		dev.Upload(b, x)
		return b
	}
	r := rand.New(rand.NewPCG(1, 9))
	timed(t, func(name string, efron bool, o loss.Observed, l *loss.Cox, y, z []float64) {
		n := len(y)
		by := on(y)
		gradient := func(z []float64) []float64 {
			g := on(z)
			defer g.Free()
			l.Gradient(g, g, by)
			return g.ToHost()
		}
		value := func(z []float64) float64 { return l.Value(on(z), by) }
		near := func(what string, got, want, tol float64) {
			t.Helper()
			if !(math.Abs(got-want) <= tol) {
				t.Errorf("%s: %s is %g, expected %g", name, what, got, want)
			}
		}
		near("the value", value(z), partial(o, efron, y, z), 1e-11)
		v, g := make([]float64, n), gradient(z)
		for i := range v {
			v[i] = r.NormFloat64()
		}
		const h = 1e-5
		for i := range z {
			up, down := slices.Clone(z), slices.Clone(z)
			up[i] += h
			down[i] -= h
			near("the gradient", g[i], (value(up)-value(down))/(2*h), 1e-8)
		}
		up, down := slices.Clone(z), slices.Clone(z)
		for i := range z {
			up[i] += h * v[i]
			down[i] -= h * v[i]
		}
		product, curve := on(v), on(z)
		l.Product(product, product, on(z), by)
		l.Curvature(curve, curve, by)
		hv, upper := product.ToHost(), curve.ToHost()
		quadratic, bound := 0.0, 0.0
		gUp, gDown := gradient(up), gradient(down)
		for i := range z {
			near("the product", hv[i], (gUp[i]-gDown[i])/(2*h), 1e-8)
			quadratic += v[i] * hv[i]
			bound += upper[i] * v[i] * v[i]
		}
		if !(quadratic >= 0 && quadratic <= bound) {
			t.Errorf("%s: the quadratic form %g is not below that of the curvature, %g", name, quadratic, bound)
		}
		root, err := l.Root(on(z), by)
		if err != nil {
			t.Fatal(err)
		}
		rv, back := make([]float64, n), make([]float64, n)
		root.Forward(rv, v)
		root.Adjoint(back, rv)
		for i := range back {
			near("R*R v", back[i], hv[i], 1e-11)
		}
		pairs := make([]float64, 0, 2*n) // the matrix of the columns z and v
		for i := range v {
			pairs = append(pairs, z[i], v[i])
		}
		root.Columns(pairs, 2)
		for i := range rv {
			near("a column", pairs[2*i+1], rv[i], 0)
		}
		root.Inverse(back, rv)
		root.Forward(back, back)
		for i := range back {
			near("R x for R x = R v", back[i], rv[i], 1e-9)
		}
		root.InverseAdjoint(back, hv)
		root.Adjoint(back, back)
		for i := range back {
			near("R* x for R* x = l''v", back[i], hv[i], 1e-9)
		}
		parts, sum := make([]float64, n), 0.0
		l.Parts(parts, z, y)
		for _, p := range parts {
			sum += p
		}
		near("the sum of the parts", sum, value(z), 1e-10)
		if least := l.Structure().Least(by); !(least <= value(z)) {
			t.Errorf("%s: the least is %g, the value %g", name, least, value(z))
		}
		// Those that are left out.
		var out, keep []int
		for i := range n {
			if i%4 == 1 {
				out = append(out, i)
			} else {
				keep = append(keep, i)
			}
		}
		picked, _, err := loss.Pick(dev, l, keep)
		if err != nil {
			t.Fatal(err)
		}
		pick := func(x []float64) (some []float64) {
			for _, i := range keep {
				some = append(some, x[i])
			}
			return some
		}
		rest := picked.Value(on(pick(z)), on(pick(y)))
		left := 0.0
		for _, e := range loss.LeftOut(l, out, rest, z, y) {
			left += e
		}
		near("the loss of those left out", left, value(z)-rest, 1e-10)
		for _, i := range out {
			slope := make([]float64, n)
			l.SlopeWithout(i, slope, z, y)
			others := slices.Delete(allBut(n), i, i+1)
			one, _, _ := loss.Pick(dev, l, others)
			some := func(x []float64) (s []float64) {
				for _, k := range others {
					s = append(s, x[k])
				}
				return s
			}
			near("the loss without one", value(z)-l.Share(i, z, y), one.Value(on(some(z)), on(some(y))), 1e-10)
			g := on(some(z))
			one.Gradient(g, g, on(some(y)))
			for k, v := range g.ToHost() {
				near("the slope without one", slope[others[k]], v, 1e-11)
			}
			near("the slope of one left out", slope[i], 0, 0)
		}
	})
}

func allBut(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// The value of thousands of events has no rounding errors of a sum of as many terms: those of plain sums, some 2e-10,
// hid from line searches what their last steps gain.
func TestCoxValueIsOfFewRoundings(t *testing.T) {
	const n = 3000
	dev, worst := array.NewHost(), 0.0
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(7, seed))
		o := loss.Observed{Times: loss.Times{Time: make([]float64, n)}}
		y, z := make([]float64, n), make([]float64, n)
		for i := range n {
			o.Time[i], y[i], z[i] = float64(n-i), float64(r.IntN(2)), r.NormFloat64()/4
		}
		z[0] += 4 // terms are less the largest value
		l, err := loss.NewCox(o, false)
		if err != nil {
			t.Fatal(err)
		}
		risk, want := new(big.Float).SetPrec(120), new(big.Float).SetPrec(120)
		for i := range n {
			risk.Add(risk, big.NewFloat(math.Exp(z[i])))
			if at, _ := risk.Float64(); y[i] > 0 {
				want.Add(want, big.NewFloat(math.Log(at)))
				want.Sub(want, big.NewFloat(z[i]))
			}
		}
		off, _ := want.Sub(want, big.NewFloat(l.Value(dev.Put(z, 1, n), dev.Put(y, 1, n)))).Float64()
		worst = max(worst, math.Abs(off))
	}
	if worst > 1e-11 {
		t.Errorf("the value is off by up to %.2g", worst)
	}
}

func TestCoxErrors(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	for _, c := range []struct {
		o    loss.Observed
		y    []float64
		want string
	}{
		{loss.Observed{}, []float64{1, 0}, "time is missing"},
		{loss.Observed{Times: loss.Times{Time: []float64{1, 2}}}, []float64{1, 2}, "y[1] is 2"},
		{loss.Observed{Times: loss.Times{Time: []float64{1, 2}}}, []float64{0, 0}, "expects an event"},
		{loss.Observed{Times: loss.Times{Time: []float64{1, math.NaN()}}}, []float64{0, 1}, "time[1] is NaN"},
		{loss.Observed{Times: loss.Times{Time: []float64{1, 2}, Start: []float64{0, 2}}}, []float64{0, 1}, "start[1] is 2"},
		{loss.Observed{Times: loss.Times{Time: []float64{1, 2}, Strata: []float64{0}}}, []float64{0, 1}, "strata has 1 values"},
	} {
		l, err := loss.NewCox(c.o, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Structure().Check(c.y); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, expected %q", c, err, c.want)
		}
	}
}

// What is kept of one point is not that of another: any order of questions has the answers of a loss that is asked for
// the first time.
func TestCoxForgetsOtherPoints(t *testing.T) {
	const n = 40
	dev := array.NewHost()
	rng := rand.New(rand.NewPCG(5, 6))
	o := loss.Observed{Times: loss.Times{Time: make([]float64, n)}}
	var z, y [2][]float64
	for i := range n {
		o.Time[i] = float64(rng.IntN(12))
		for k := range 2 {
			z[k], y[k] = append(z[k], rng.NormFloat64()), append(y[k], float64(rng.IntN(2)))
		}
	}
	fresh := func() *loss.Cox {
		l, err := loss.NewCox(o, true)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	kept := fresh()
	zs, ys, dst, v := dev.Alloc(1, n), dev.Alloc(1, n), dev.Alloc(1, n), dev.Alloc(1, n)
	dev.Upload(v, z[1])
	questions := []func(l *loss.Cox, z, y []float64) []float64{
		func(l *loss.Cox, _, _ []float64) []float64 { return []float64{l.Value(zs, ys)} },
		func(l *loss.Cox, _, _ []float64) []float64 { l.Gradient(dst, zs, ys); return dst.ToHost() },
		func(l *loss.Cox, _, _ []float64) []float64 { l.Product(dst, v, zs, ys); return dst.ToHost() },
		func(l *loss.Cox, z, y []float64) []float64 { return []float64{l.Share(3, z, y)} },
		func(l *loss.Cox, z, y []float64) []float64 {
			out := make([]float64, n)
			l.SlopeWithout(5, out, z, y)
			return out
		},
		func(l *loss.Cox, _, _ []float64) []float64 { return []float64{l.Structure().Least(ys)} },
	}
	for range 400 {
		k, m, q := rng.IntN(2), rng.IntN(2), rng.IntN(len(questions))
		dev.Upload(zs, z[k])
		dev.Upload(ys, y[m])
		if got, want := questions[q](kept, z[k], y[m]), questions[q](fresh(), z[k], y[m]); !slices.Equal(got, want) {
			t.Fatalf("question %d at point %d of observations %d: %g, expected %g", q, k, m, got, want)
		}
	}
}
