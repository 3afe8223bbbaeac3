package spec

import (
	"fmt"
	"math"

	"surepipe/internal/dataio/ndarray"
	"surepipe/prox"
	"surepipe/prox/cones"
)

var nonnegativeRegularizer = RegularizerKind{
	Name:  "nonnegative",
	Forms: []Form{{"nonnegative", "b >= 0"}},
	Build: func(*Arguments, Block) (Penalty, error) {
		return Penalty{Free: true, Make: fixed(prox.NonNegative())}, nil
	},
}

var boxRegularizer = RegularizerKind{
	Name:  "box",
	Forms: []Form{{"box: {lo: a, hi: c}", "a <= b <= c, numbers or arrays"}},
	Parameters: []Parameter{{Name: "lo", Read: NumberOr(Numbers), Optional: true},
		{Name: "hi", Read: NumberOr(Numbers), Optional: true}},
	Check: func(c *Call) error {
		if !c.Given("lo") && !c.Given("hi") {
			return c.Errorf("", "box has no bounds, expected box: {lo: 0, hi: 1}")
		}
		return nil
	},
	Build: func(a *Arguments, in Block) (p Penalty, err error) {
		low, err := a.Repeated("lo", in.Len(), math.Inf(-1))
		if err != nil {
			return p, err
		}
		high, err := a.Repeated("hi", in.Len(), math.Inf(1))
		if err != nil {
			return p, err
		}
		r, err := a.Keep(prox.NewBox(a.dev, low, high))
		return Penalty{Free: true, Make: fixed(r)}, err
	},
}

var equalRegularizer = RegularizerKind{
	Name:       "equal",
	Forms:      []Form{{"equal: {to: c}", "b = c, a number or an array; of a term with an operator: K b = c"}},
	Parameters: []Parameter{{Name: "to", Read: NumberOr(Numbers)}},
	Build: func(a *Arguments, in Block) (p Penalty, err error) {
		c, err := a.Repeated("to", in.Len(), math.NaN())
		if err != nil {
			return p, err
		}
		for j, x := range c {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return p, a.Errorf("", "equal: entry %d of to is %v, expected a finite number", j+1, x)
			}
		}
		r, err := a.Keep(prox.NewBox(a.dev, c, c))
		return Penalty{Free: true, Make: fixed(r)}, err
	},
}

// ball is a constraint with one positive number, which the key names.
func ball(name, key, meaning string, newProx func(n int, w float64) prox.Prox) RegularizerKind {
	return RegularizerKind{
		Name: name, Forms: []Form{{name + ": {" + key + ": W}", meaning}},
		Parameters: []Parameter{{Name: key, Read: FiniteWeight}},
		Build: func(a *Arguments, in Block) (Penalty, error) {
			n := in.Len()
			return Penalty{Free: true,
				Make: a.Weight(key).Of(func(w float64) prox.Prox { return newProx(n, w) })}, nil
		},
	}
}

var (
	linfBallRegularizer = ball("linf-ball", "radius", "||b||_inf <= W",
		func(n int, w float64) prox.Prox { return prox.NewLinfBall(n, w) })
	l1BallRegularizer = ball("l1-ball", "radius", "||b||_1 <= W",
		func(n int, w float64) prox.Prox { return cones.NewL1Ball(n, w) })
	l2BallRegularizer = ball("l2-ball", "radius", "||b||_2 <= W",
		func(n int, w float64) prox.Prox { return cones.NewL2Ball(n, w) })
	simplexRegularizer = ball("simplex", "sum", "b >= 0, sum_j b_j = W",
		func(n int, w float64) prox.Prox { return cones.NewSimplex(n, w) })
)

var secondOrderRegularizer = RegularizerKind{
	Name: "second-order-cone",
	Forms: []Form{{"second-order-cone: {size: k}",
		"b_1 >= ||(b_2, ..., b_k)||_2 for each k entries, one after the other\n(default: all of them); or planes: " +
			"k, across k arrays of n numbers,\n" +
			"one after the other: b_i >= ||(b_{n+i}, b_{2n+i}, ...)||_2"}},
	Parameters: []Parameter{{Name: "size", Read: Count, Optional: true}, {Name: "planes", Read: Count, Optional: true}},
	Check: func(c *Call) error {
		if c.Given("size") && c.Given("planes") {
			return c.Errorf("", "second-order-cone has size and planes, expected one of them")
		}
		return nil
	},
	Build: func(a *Arguments, in Block) (p Penalty, err error) {
		sets, err := conesOf(in.Len(), a.Count("size", 0), a.Count("planes", 0))
		if err != nil {
			return p, err
		}
		r, err := cones.NewSecondOrderCones(in.Len(), sets)
		if err != nil {
			return p, Trim(err)
		}
		return Penalty{Free: true, Make: fixed(r)}, nil
	},
}

// conesOf are cones of size consecutive entries, or across planes; of all entries where both are 0.
func conesOf(all, size, planes int) ([][]int, error) {
	stride := 1
	switch {
	case planes > 0 && all%planes != 0:
		return nil, fmt.Errorf("second-order-cone across %d arrays, expected a divisor of the number of entries, %d",
			planes, all)
	case planes > 0:
		size, stride = planes, all/planes
	case size == 0:
		size = all
	case all%size != 0:
		return nil, fmt.Errorf("second-order-cone of %d entries, expected a divisor of the number of entries, %d",
			size, all)
	}
	cones := make([][]int, all/size)
	for i := range cones {
		first := i * size
		if stride > 1 {
			first = i
		}
		for k := range size {
			cones[i] = append(cones[i], first+k*stride)
		}
	}
	return cones, nil
}

var semidefiniteRegularizer = RegularizerKind{
	Name:  "semidefinite",
	Forms: []Form{{"semidefinite", "b is a symmetric positive semidefinite m x m matrix, row-major"}},
	Build: func(_ *Arguments, in Block) (Penalty, error) {
		all := in.Len()
		m := int(math.Round(math.Sqrt(float64(all))))
		if m*m != all || len(in.Shape) == 2 && in.Shape[0] != in.Shape[1] {
			return Penalty{}, fmt.Errorf("semidefinite: a block of shape %s, expected a square matrix",
				ndarray.ShapeString(in.Shape))
		}
		return Penalty{Free: true, Make: fixed(cones.NewSemidefinite(m))}, nil
	},
}
