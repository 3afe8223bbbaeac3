package prox_test

import (
	"fmt"
	"math"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/prox"
	"surepipe/prox/lowrank"
	"surepipe/prox/proxtest"
	"surepipe/space"
)

// anchored is a regularizer written outside the package, r(b) = lambda ||b - a||_1: entries stay at
// an anchor unless the data move them.
type anchored struct {
	lambda float64
	a      array.Batch // 1 x p
}

func (r anchored) Dim() int { return r.a.N() }

// Eval sets dst = a + soft(v - a, t lambda).
func (r anchored) Eval(dst, v array.Batch, t float64) error {
	one, minus := make([]float64, v.K()), make([]float64, v.K())
	for i := range one {
		one[i], minus[i] = 1, -1
	}
	dev := v.Device()
	dev.LinEach(dst, one, v, minus, r.a)
	dev.Soft(dst, dst, array.Batch{}, t*r.lambda)
	dev.LinEach(dst, one, dst, one, r.a)
	return nil
}

func (r anchored) Linearize(dst, v array.Batch, t float64) (prox.Derivative, error) {
	j := &anchoredDerivative{r: r, t: t, d: v.Device().Alloc(1, v.N())}
	dev := v.Device()
	dev.Lin(j.d, 1, v, -1, r.a)
	dev.SoftMask(j.d, j.d, array.Batch{}, t*r.lambda)
	var set []int
	for i, x := range j.d.ToHost() {
		if x != 0 {
			set = append(set, i)
		}
	}
	j.model = &prox.Model{Space: space.Coordinates(dev, v.N(), set), Margin: j.margin}
	return j, r.Eval(dst, v, t)
}

// Structure returns what else is known about r.
func (r anchored) Structure() prox.Structure {
	return prox.Structure{Value: func(b array.Batch) float64 {
		sum, a := 0.0, r.a.ToHost()
		for i, x := range b.ToHost() {
			sum += r.lambda * math.Abs(x-a[i])
		}
		return sum
	}}
}

type anchoredDerivative struct {
	r     anchored
	t     float64
	d     array.Batch
	model *prox.Model
}

func (j *anchoredDerivative) Apply(dst, z array.Batch) { dst.Device().Mul(dst, j.d, z) }
func (j *anchoredDerivative) Diagonal() array.Batch    { return j.d }
func (j *anchoredDerivative) Model() *prox.Model       { return j.model }
func (j *anchoredDerivative) Bytes() int64             { return j.d.Bytes() + j.model.Space.Bytes() }

func (j *anchoredDerivative) Release() {
	j.d.Free()
	j.model.Space.Release()
}

// margin is the least distance of an entry to a threshold.
func (j *anchoredDerivative) margin(v array.Batch) float64 {
	least, a := math.Inf(1), j.r.a.ToHost()
	for i, x := range v.ToHost() {
		least = min(least, math.Abs(math.Abs(x-a[i])-j.t*j.r.lambda))
	}
	return least
}

// Your own regularizer, with its model and its value: code that estimates risks asks for these and
// not for the type.
func ExampleModel() {
	dev := array.NewHost()
	defer dev.Close()
	a := dev.Alloc(1, 3)
	dev.Upload(a, []float64{1, 0, -1})
	r := anchored{lambda: 1, a: a}

	v := dev.Alloc(1, 3)
	dev.Upload(v, []float64{3.5, 0.5, -0.75})
	b := dev.Alloc(1, 3)
	j, err := r.Linearize(b, v, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer j.Release()
	m := j.Model()
	fmt.Println("prox:", b.ToHost())
	fmt.Println("free to move:", m.Space.Form().Set)
	fmt.Println("margin:", m.Margin(v))
	fmt.Println("value:", prox.StructureOf(r).Value(b))
	// Output:
	// prox: [2.5 0 -1]
	// free to move: [0]
	// margin: 0.5
	// value: 1.5
}

// The structure of a regularizer, and of one derived from it.
func ExampleStructureOf() {
	ridge := prox.NewScaled(3, prox.NewSquaredL2(2))
	fmt.Println("curvature:", prox.StructureOf(ridge).Quadratic.Value)

	intercept := prox.NewSeparable(prox.Block{Prox: prox.Zero(), N: 1}, prox.Block{Prox: prox.NewL1(1), N: 4})
	s := prox.StructureOf(intercept)
	fmt.Println("not penalized:", s.Free(5))
	fmt.Println("duality gap known:", s.DualScale != nil)
	// Output:
	// curvature: 6
	// not penalized: [0]
	// duality gap known: true
}

// A user's regularizer keeps the contract alone and as a part of others, which have models where it
// has one.
func TestAUsersOwnRegularizerConforms(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		a := dev.Alloc(1, 6)
		defer a.Free()
		dev.Upload(a, []float64{1, 0, -1, 2, 0.5, 0})
		r, four := anchored{lambda: 1, a: a}, must(prox.NewGroupL2(dev, 4, 1, [][]int{{0, 1, 2, 3}}, nil))
		defer prox.Release(four)
		for _, c := range []struct {
			name string
			p    prox.Prox
			dim  int
		}{
			{"alone", r, 6},
			{"scaled", prox.NewScaled(2, r), 6},
			{"beside l1", prox.NewSeparable(r, prox.Block{Prox: prox.NewL1(1), N: 4}), 10},
			{"beside group l2", prox.NewSeparable(four, r), 10},
			{"scaled beside group l2", prox.NewScaled(0.6, prox.NewSeparable(four, r)), 10},
		} {
			if err := proxtest.Check(dev, c.p, c.dim); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			v := dev.Alloc(1, c.dim)
			dev.Upload(v, normal(3, c.dim))
			j, err := c.p.Linearize(v, v, 0.5)
			if err != nil {
				t.Fatal(err)
			}
			if j.Model() == nil {
				t.Errorf("%s: no model", c.name)
			}
			j.Release()
			v.Free()
		}
	})
}

// curvedOf is a user's own regularizer with curvature: another one whose derivative hides its type.
type curvedOf struct{ prox.Prox }

type hidden struct{ prox.Derivative }

func (p curvedOf) Linearize(dst, v array.Batch, t float64) (prox.Derivative, error) {
	j, err := p.Prox.Linearize(dst, v, t)
	if err != nil {
		return nil, err
	}
	return hidden{j}, nil
}

// The curvature of c r is c times that of r, also where r is not of this package.
func TestCurvatureOfAScaledRegularizer(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		group := must(prox.NewGroupL2(dev, 6, 0.5, [][]int{{0, 1, 2}, {4, 5}}, nil))
		defer prox.Release(group)
		three := must(prox.NewGroupL2(dev, 3, 0.3, [][]int{{0, 1, 2}}, nil))
		defer prox.Release(three)
		for name, p := range map[string]prox.Prox{
			"elastic net": prox.NewElasticNet(0.2, 0.7),
			"group l2":    group,
			"nuclear":     lowrank.NewNuclear(array.Shape{Rows: 2, Cols: 3}, 0.1),
			"separable": prox.NewSeparable(three,
				prox.Block{Prox: prox.NewSquaredL2(0.4), N: 3}),
			"a user's own":   curvedOf{group},
			"a user's own 2": curvedOf{prox.NewElasticNet(0.2, 0.7)},
		} {
			if err := proxtest.Check(dev, prox.NewScaled(2.5, p), 6); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
