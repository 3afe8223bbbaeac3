package proxtest

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"surepipe/prox"
)

// support checks Support: the value at the point to which it moves g bounds <b, g> for all b of the
// domain, is reached or approached by one, and that point is moved no more.
func (c *checker) support() error {
	support := prox.StructureOf(c.p).Support
	if support == nil {
		return nil
	}
	at := func(g []float64) (float64, []float64) {
		x := c.upload(g)
		defer x.Free()
		s := support(x)
		return s, x.ToHost()
	}
	return c.eachPoint(func(v []float64, t float64) error {
		s, g := at(c.random(c.scale))
		if math.IsNaN(s) || math.IsInf(s, 0) {
			return fmt.Errorf("the support function is %v where it has moved g", s)
		}
		again, same := at(g)
		size := 1 + length(g)
		if err := near("g, moved twice", same, g, 1e-12*size); err != nil {
			return err
		}
		if !(math.Abs(again-s) <= 1e-12*(1+math.Abs(s))) {
			return fmt.Errorf("the support function is %g, and then %g", s, again)
		}
		b, err := c.eval(v, t)
		if err != nil {
			return err
		}
		if got := floats.Dot(b, g); got > s+1e-9*(1+length(b)*size) {
			return fmt.Errorf("a point of the domain has <b, g> = %.12g, more than the support function %.12g", got, s)
		}
		far := make([]float64, len(g))
		floats.ScaleTo(far, 1e6, g)
		if b, err = c.eval(far, t); err != nil {
			return err
		}
		if got := floats.Dot(b, g); got < s-1e-4*(1+math.Abs(s))*size {
			return fmt.Errorf("no point of the domain is known with <b, g> near the support function %g: the "+
				"farthest has %g", s, got)
		}
		return nil
	})
}
