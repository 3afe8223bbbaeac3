package differential

import (
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/prox"
	"surepipe/prox/clustered"
	"surepipe/prox/cones"
	"surepipe/prox/lowrank"
)

// Reg is a description of a regularizer that both sides understand. Numbers of size math.MaxFloat64
// stand for infinity, which JSON does not have.
type Reg struct {
	// Kind is zero, ridge, l1, weightedl1, elasticnet, nonnegative, box, groupl2, grouplinf,
	// slope, l1ball, l2, linfball, simplex, nuclear, tv1d or separable.
	Kind string
	// N is the length of b.
	N int
	// Lambda is the weight, Lambda2 that of the elastic net's square, and Radius the size of a
	// ball.
	Lambda  float64 `json:",omitempty"`
	Lambda2 float64 `json:",omitempty"`
	Radius  float64 `json:",omitempty"`
	// Weights are the weights of coordinates, of groups or of places in the order.
	Weights []float64 `json:",omitempty"`
	Lo      []float64 `json:",omitempty"`
	Hi      []float64 `json:",omitempty"`
	Groups  [][]int   `json:",omitempty"`
	// Shape is nuclear's.
	Shape [2]int `json:",omitzero"`
	// Scale, if not 0, multiplies r by way of prox.NewScaled.
	Scale float64 `json:",omitempty"`
	// Blocks are separable's.
	Blocks []Reg `json:",omitempty"`
}

func infinite(x []float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		if out[i] = v; math.Abs(v) == math.MaxFloat64 {
			out[i] = math.Inf(int(math.Copysign(1, v)))
		}
	}
	return out
}

// build makes the regularizer on a device.
func (r Reg) build(dev array.Device) (prox.Prox, func(), error) {
	if r.Kind == "separable" {
		return r.buildBlocks(dev)
	}
	p, err := r.one(dev)
	if err != nil {
		return nil, nil, err
	}
	made := p
	release := func() { prox.Release(made) }
	if r.Scale != 0 {
		p = prox.NewScaled(r.Scale, p)
	}
	return p, release, nil
}

func (r Reg) buildBlocks(dev array.Device) (prox.Prox, func(), error) {
	var blocks []prox.Prox
	var releases []func()
	release := func() {
		for _, f := range releases {
			f()
		}
	}
	for _, b := range r.Blocks {
		q, f, err := b.build(dev)
		if err != nil {
			release()
			return nil, nil, err
		}
		if q.Dim() == 0 {
			q = prox.Block{Prox: q, N: b.N}
		}
		blocks, releases = append(blocks, q), append(releases, f)
	}
	return prox.NewSeparable(blocks...), release, nil
}

func (r Reg) one(dev array.Device) (prox.Prox, error) {
	switch r.Kind {
	case "zero":
		return prox.Zero(), nil
	case "ridge":
		return prox.NewSquaredL2(r.Lambda), nil
	case "l1":
		return prox.NewL1(r.Lambda), nil
	case "weightedl1":
		return prox.NewWeightedL1(dev, r.Lambda, r.Weights)
	case "elasticnet":
		return prox.NewElasticNet(r.Lambda, r.Lambda2), nil
	case "nonnegative":
		return prox.NonNegative(), nil
	case "box":
		return prox.NewBox(dev, infinite(r.Lo), infinite(r.Hi))
	case "groupl2":
		return prox.NewGroupL2(dev, r.N, r.Lambda, r.Groups, r.Weights)
	case "grouplinf":
		return prox.NewGroupLinf(dev, r.N, r.Lambda, r.Groups, r.Weights)
	case "slope":
		return clustered.NewSortedL1(r.Weights)
	case "l1ball":
		return cones.NewL1Ball(r.N, r.Radius), nil
	case "l2":
		return prox.NewGroupL2(dev, r.N, r.Lambda, [][]int{lists.Upto(r.N)}, nil)
	case "linfball":
		return prox.NewLinfBall(r.N, r.Radius), nil
	case "simplex":
		return cones.NewSimplex(r.N, r.Radius), nil
	case "nuclear":
		return lowrank.NewNuclear(array.Shape{Rows: r.Shape[0], Cols: r.Shape[1]}, r.Lambda), nil
	case "tv1d":
		return clustered.NewTV1D(r.N, r.Lambda), nil
	}
	return nil, fmt.Errorf("differential: regularizer %q", r.Kind)
}
