package loss_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/loss"
)

// The value is that of the definition, the gradient that of the value, products are those of the gradient, the
// curvature is above them, the root is one, and its inverses are inverses; the gap is 0 at the gradient and positive
// elsewhere. With two classes it is the logistic loss.
func TestMultinomialIsConsistent(t *testing.T) {
	dev, r := array.NewHost(), rand.New(rand.NewPCG(3, 1))
	on := func(x []float64) array.Batch {
		b := dev.Alloc(1, len(x))
		dev.Upload(b, x)
		return b
	}
	for _, c := range []struct {
		classes  int
		scale    float64
		weighted bool
	}{{2, 1, false}, {3, 1, true}, {5, 4, true}} {
		const n = 6
		k, d := c.classes, n*c.classes
		o := loss.Observed{Classes: k}
		y, z, v := make([]float64, d), make([]float64, d), make([]float64, d)
		for i := range n {
			if c.weighted {
				o.Weights = append(o.Weights, float64(i)/2)
			}
			y[i*k+i%k] = 1
			if i == 3 {
				y[i*k], y[i*k+1] = 0.25, 0.75
				clear(y[i*k+2 : (i+1)*k])
			}
		}
		for i := range z {
			z[i], v[i] = c.scale*r.NormFloat64(), r.NormFloat64()
		}
		l, err := loss.NewMultinomial(o)
		if err != nil {
			t.Fatal(err)
		}
		near := func(what string, got, want, tol float64) {
			t.Helper()
			if !(math.Abs(got-want) <= tol) {
				t.Errorf("%d classes: %s is %g, expected %g", k, what, got, want)
			}
		}
		by := on(y)
		value := func(z []float64) float64 { return l.Value(on(z), by) }
		gradient := func(z []float64) []float64 {
			g := on(z)
			l.Gradient(g, g, by)
			return g.ToHost()
		}
		want := 0.0
		for i := range n {
			w := 1.0
			if c.weighted {
				w = o.Weights[i]
			}
			at, to := z[i*k:(i+1)*k], y[i*k:(i+1)*k]
			want += w * (floats.LogSumExp(at) - floats.Dot(at, to))
		}
		near("the value", value(z), want, 1e-12)
		moved := func(by float64) []float64 { return floats.AddScaledTo(make([]float64, d), z, by, v) }
		const h = 1e-5
		g, up, down := gradient(z), gradient(moved(h)), gradient(moved(-h))
		near("the slope", floats.Dot(g, v), (value(moved(h))-value(moved(-h)))/(2*h), 1e-8)
		product, curve := on(v), on(z)
		l.Product(product, product, on(z), by)
		l.Curvature(curve, curve, by)
		hv, above := product.ToHost(), curve.ToHost()
		quadratic, bound := floats.Dot(hv, v), 0.0
		root, err := l.Root(on(z), by)
		if err != nil {
			t.Fatal(err)
		}
		rv, back := make([]float64, d), make([]float64, d)
		root.Forward(rv, v)
		root.Adjoint(back, rv)
		for i := range z {
			near("the product", hv[i], (up[i]-down[i])/(2*h), 1e-8)
			near("R*R v", back[i], hv[i], 1e-13)
			bound += above[i] * v[i] * v[i]
		}
		if !(quadratic >= 0 && quadratic <= bound) || quadratic > l.Lipschitz()*floats.Dot(v, v) {
			t.Errorf("%d classes: the quadratic form %g is not below %g", k, quadratic, bound)
		}
		square := root.Square()()
		for i := range v {
			near("a row of R*R", floats.Dot(square[i*k:(i+1)*k], v[i-i%k:i-i%k+k]), hv[i], 1e-13)
		}
		pairs := make([]float64, 0, 2*d) // the matrix of the columns v and z
		for i := range v {
			pairs = append(pairs, v[i], z[i])
		}
		root.Columns(pairs, 2)
		root.Forward(back, z)
		for i := range rv {
			near("a column", pairs[2*i], rv[i], 1e-13)
			near("the other column", pairs[2*i+1], back[i], 1e-13)
		}
		root.Inverse(back, rv)
		root.Forward(back, back)
		other := make([]float64, d)
		root.InverseAdjoint(other, hv)
		root.Adjoint(other, other)
		for i := range back {
			near("R x for R x = R v", back[i], rv[i], 1e-12)
			near("R* x for R* x = l''v", other[i], hv[i], 1e-12)
		}
		known := l.Structure()
		parts := make([]float64, d)
		known.Parts(parts, z, y)
		near("the sum of the parts", floats.Sum(parts)/float64(k), want, 1e-12)
		near("the gap at the gradient", known.Gap(on(g), on(z), by), 0, 1e-12)
		if least := known.Least(by); !(least <= want && least >= 0) {
			t.Errorf("%d classes: the least is %g, the value %g", k, least, want)
		}
		elsewhere := gradient(moved(0.1))
		gap := value(z) - value(moved(0.1)) - floats.Dot(elsewhere, z) + floats.Dot(elsewhere, moved(0.1))
		near("the gap elsewhere", known.Gap(on(elsewhere), on(z), by), gap, 1e-12)
		places := []int{k, k + 1}
		for i := k + 2; i < 2*k; i++ {
			places = append(places, i)
		}
		one, _, err := loss.Pick(dev, l, places)
		if err != nil {
			t.Fatal(err)
		}
		near("an observation", one.Value(on(z[k:2*k]), on(y[k:2*k])), parts[k], 1e-12)
		if k == 2 {
			two, _ := loss.Logistic(nil)
			var z2, y2 []float64
			for i := range n {
				z2, y2 = append(z2, z[2*i+1]-z[2*i]), append(y2, y[2*i+1])
			}
			near("two classes", want, two.Value(on(z2), on(y2)), 1e-12)
		}
	}
	// Probabilities near 1 keep their digits.
	l, _ := loss.NewMultinomial(loss.Observed{Classes: 3})
	z, y := on([]float64{50, 0, 1}), on([]float64{1, 0, 0})
	small := math.Exp(-50) + math.Exp(-49)
	if got := l.Value(z, y); math.Abs(got-small) > 1e-14*small {
		t.Errorf("the value is %g, expected %g", got, small)
	}
	g := on([]float64{0, 0, 0})
	l.Gradient(g, z, y)
	if got := g.ToHost()[0]; math.Abs(got+small) > 1e-14*small {
		t.Errorf("the slope is %g, expected %g", got, -small)
	}
}

func TestMultinomialErrors(t *testing.T) {
	for _, c := range []struct {
		o    loss.Observed
		y    []float64
		want string
	}{
		{loss.Observed{Classes: 1}, nil, "at least 2"},
		{loss.Observed{Classes: 2, Offset: []float64{1}}, nil, "offset"},
		{loss.Observed{Classes: 2, Weights: []float64{-1}}, nil, "weight of observation 0"},
		{loss.Observed{Classes: 2}, []float64{1, 0, 2, 0}, "y[1, 0] is 2"},
		{loss.Observed{Classes: 2}, []float64{1, 0, 0.5, 0}, "y[1] adds up to 0.5"},
		{loss.Observed{Classes: 2}, []float64{1, 0, 1, 0}, "class 1"},
		{loss.Observed{Classes: 2, Weights: []float64{1}}, []float64{1, 0, 0, 1}, "1 weights"},
	} {
		l, err := loss.NewMultinomial(c.o)
		if err == nil {
			err = l.Structure().Check(c.y)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v %v: error %v, expected %q", c.o, c.y, err, c.want)
		}
	}
	if !slices.Contains(loss.Names(), "multinomial") {
		t.Error("multinomial is no loss of the table")
	}
}
