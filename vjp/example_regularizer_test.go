package vjp_test

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/space"
	"surepipe/vjp"
)

// signed is a user's regularizer, written with exported names only: an elastic net that penalizes
// negative coefficients more than positive ones,
//
//	r(b) = sum_j up max(b_j, 0) + down max(-b_j, 0) + ridge/2 b_j^2.
//
//	prox_{t r}(v)_j = max(v_j - t up, 0)/(1 + t ridge) - max(-v_j - t down, 0)/(1 + t ridge)
type signed struct{ up, down, ridge float64 }

func (r signed) Dim() int { return 0 }

// prox is the proximal operator of one number.
func (r signed) prox(v, t float64) float64 {
	switch {
	case v > t*r.up:
		return (v - t*r.up) / (1 + t*r.ridge)
	case v < -t*r.down:
		return (v + t*r.down) / (1 + t*r.ridge)
	}
	return 0
}

func (r signed) Eval(dst, v array.Batch, t float64) error {
	x := v.ToHost()
	for i := range x {
		x[i] = r.prox(x[i], t)
	}
	dst.Device().Upload(dst, x)
	return nil
}

func (r signed) Linearize(dst, v array.Batch, t float64) (prox.Derivative, error) {
	x := v.ToHost()
	if err := r.Eval(dst, v, t); err != nil {
		return nil, err
	}
	dev := v.Device()
	diagonal := make([]float64, len(x))
	j := &signedDerivative{}
	var set []int
	margin := math.Inf(1)
	for i, a := range x {
		if r.prox(a, t) != 0 {
			diagonal[i] = 1 / (1 + t*r.ridge)
			set = append(set, i)
		}
		margin = min(margin, math.Abs(a-t*r.up), math.Abs(a+t*r.down))
	}
	j.d = dev.Alloc(1, len(x))
	dev.Upload(j.d, diagonal)
	// The model: the coordinates that are not 0, with the curvature ridge on each.
	j.model = &prox.Model{Space: space.Coordinates(dev, len(x), set), Curvature: prox.NewDiagonalCurvature(dev,
		slices.Repeat([]float64{r.ridge}, len(set)), t), Margin: func(array.Batch) float64 { return margin }}
	return j, nil
}

// Structure reports that r is a sum over coordinates, which a working set needs, and the terms of a
// duality gap.
func (r signed) Structure() prox.Structure {
	return prox.Structure{
		Value: func(b array.Batch) float64 {
			sum := 0.0
			for _, x := range b.ToHost() {
				sum += r.up*max(x, 0) + r.down*max(-x, 0) + r.ridge/2*x*x
			}
			return sum
		},
		Closure: func(s []int) []int { return s },
		On: func(_ array.Device, t space.Space) (prox.Prox, error) {
			if t.Form().Kind != space.Subset {
				return nil, nil
			}
			return r, nil
		},
	}
}

// signedDerivative is J = diag(d).
type signedDerivative struct {
	d     array.Batch
	model *prox.Model
}

func (j *signedDerivative) Apply(dst, z array.Batch) { dst.Device().Mul(dst, z, j.d) }
func (j *signedDerivative) Diagonal() array.Batch    { return j.d }
func (j *signedDerivative) Model() *prox.Model       { return j.model }

func (j *signedDerivative) Bytes() int64 {
	return j.d.Bytes() + j.model.Space.Bytes() + j.model.Curvature.Bytes()
}

func (j *signedDerivative) Release() {
	j.d.Free()
	j.model.Space.Release()
	j.model.Curvature.Release()
}

// A regularizer written elsewhere gets a factored system, an exact trace, working sets and warm
// starts, because its derivative has a model and it has a structure.
func Example_regularizer() {
	dev := array.NewHost()
	defer dev.Close()
	const d, p = 60, 300
	x, y := mat.NewDense(d, p, nil), make([]float64, d)
	for i := range d {
		for j := range p {
			x.Set(i, j, math.Sin(float64((i+1)*(j+3)))) // any numbers
		}
		y[i] = 4*x.At(i, 7) - 3*x.At(i, 20) + math.Cos(float64(5*i))
	}
	a := linops.NewDense(dev, x)
	defer a.Release()
	problem := vjp.Problem{A: a, R: signed{up: 8, down: 12, ridge: 0.5}, Device: dev}
	s, err := vjp.NewSolver(context.Background(), "fista", problem, vjp.Options{Tol: 1e-12})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Release()
	on := dev.Alloc(1, d)
	defer on.Free()
	dev.Upload(on, y)
	sol, err := s.Solve(context.Background(), on)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sol.Release()

	// The trace by its definition: sum_i of the differences of mu_hat_i with y_i.
	const h = 1e-3
	trace := 0.0
	for i := range y {
		for _, sign := range []float64{1, -1} {
			moved := append([]float64(nil), y...)
			moved[i] += sign * h
			dev.Upload(on, moved)
			there, err := s.SolveFrom(context.Background(), on, vjp.From{B: sol.B}) // a warm start
			if err != nil {
				fmt.Println(err)
				return
			}
			trace += sign * there.MuHat.ToHost()[i] / (2 * h)
			there.Release()
		}
	}
	closed := sol.Linearization.Closed()
	fmt.Println("known:", closed.Known, "near the differences:", math.Abs(closed.Trace-trace) < 1e-4)
	for _, c := range sol.Choices {
		fmt.Printf("%s: %s\n", c.Part, c.Chosen)
	}
	// Output:
	// known: true near the differences: true
	// loss: squared
	// units: the user's
	// method: a working set
	// derivative: implicit
	// space: free coordinates: dimension 6 in R^55
	// system: factored by Cholesky's method
}
