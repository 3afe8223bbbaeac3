package proxtest

import (
	"fmt"
	"math"

	"surepipe/prox"
)

// sparse checks that the prox is that of the weights and the constraints,
//
//	prox_{t r}(v)_j = sign(v_j) max(|v_j| - t w_j, 0)/(1 + t q_j),
//
// and 0 for a negative v_j where b_j >= 0.
func (c *checker) sparse() error {
	known := prox.StructureOf(c.p).Sparse
	if known == nil {
		return nil
	}
	w, q, positive := known(c.dim)
	for _, all := range []prox.Numbers{w, q} {
		if all.List != nil && len(all.List) != c.dim {
			return fmt.Errorf("%d weights for vectors of length %d", len(all.List), c.dim)
		}
		if all.Any(func(x float64) bool { return !(x >= 0) }) {
			return fmt.Errorf("the weights %v, want >= 0", all)
		}
	}
	if positive != nil && len(positive) != c.dim {
		return fmt.Errorf("%d constraints for vectors of length %d", len(positive), c.dim)
	}
	return c.eachPoint(func(v []float64, t float64) error {
		got, err := c.eval(v, t)
		if err != nil {
			return err
		}
		want := make([]float64, c.dim)
		for j, x := range v {
			if positive != nil && positive[j] && x < 0 {
				continue
			}
			size := math.Abs(x)
			want[j] = math.Copysign(max(size-t*w.At(j), 0)/(1+t*q.At(j)), x)
		}
		return near("prox by the weights", got, want, rounding*(1+length(v)))
	})
}

// groups checks that the prox is that of the groups and their weights,
//
//	prox_{t r}(v)_g = max(1 - t w_g/||v_g||, 0) v_g.
func (c *checker) groups() error {
	known := prox.StructureOf(c.p).Groups
	if known == nil {
		return nil
	}
	owner, w := known()
	if len(owner) != c.dim {
		return fmt.Errorf("groups of %d coordinates for vectors of length %d", len(owner), c.dim)
	}
	for j, g := range owner {
		if g < 0 || g >= len(w) || !(w[g] >= 0) {
			return fmt.Errorf("coordinate %d is in group %d of %d, want one with a weight", j, g, len(w))
		}
	}
	return c.eachPoint(func(v []float64, t float64) error {
		got, err := c.eval(v, t)
		if err != nil {
			return err
		}
		size, want := make([]float64, len(w)), make([]float64, c.dim)
		for j, x := range v {
			size[owner[j]] = math.Hypot(size[owner[j]], x)
		}
		for j, x := range v {
			if g := owner[j]; size[g] > t*w[g] {
				want[j] = x - t*w[g]*(x/size[g])
			}
		}
		return near("prox by the groups", got, want, rounding*(1+length(v)))
	})
}
