package proxtest

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/prox"
)

// follower checks that evaluations along a path of points are as accurate as certified, and as
// accurate as requested.
func (c *checker) follower() error {
	follow := prox.StructureOf(c.p).Follow
	if follow == nil {
		return nil
	}
	f := follow()
	if f == nil {
		return nil
	}
	defer f.Release()
	for i, v := range c.at() {
		for _, size := range []float64{0, 0.1, 1e-3, 1e-6, 0} {
			u := axpy(v, size*c.scale, c.unit())
			for _, t := range c.steps {
				if err := c.follow(f, u, t); err != nil {
					return fmt.Errorf("%.3g from point %d, t = %v: %w", size*c.scale, i, t, err)
				}
			}
		}
	}
	return nil
}

// patience is the largest number of evaluations at one point that a follower may take to reach the
// requested accuracy.
const patience = 100

func (c *checker) follow(f prox.Follower, v []float64, t float64) error {
	ctx := context.Background()
	exact, err := c.eval(v, t)
	if err != nil {
		return err
	}
	size := 1 + floats.Norm(v, 2)
	on, dst := c.upload(v), c.dev.Alloc(1, c.dim)
	defer on.Free()
	defer dst.Free()
	// evaluate reports whether the evaluation was certified.
	evaluate := func(dst array.Batch, near float64) (bool, error) {
		if err := f.Eval(ctx, dst, on, t, near); err != nil {
			return false, fmt.Errorf("Follower.Eval: %w", err)
		}
		got := dst.ToHost()
		if dst == on {
			c.dev.Upload(on, v)
		}
		slack, ok, err := f.Certify(ctx, on, 2*near)
		if err != nil {
			return false, fmt.Errorf("Follower.Certify: %w", err)
		}
		if !ok {
			return false, nil
		}
		if !(slack <= 2*near) {
			return false, fmt.Errorf("a certificate of %.3g where %.3g was wanted", slack, 2*near)
		}
		if e := floats.Distance(got, exact, 2); !(e <= slack+rounding*size) {
			return false, fmt.Errorf("Eval is off by %.3g, certified to %.3g", e, slack)
		}
		return true, nil
	}
	for _, near := range []float64{size, 1e-6 * size} {
		for rounds := 1; ; rounds++ {
			to := dst
			if rounds%2 == 0 {
				to = on
			}
			ok, err := evaluate(to, near)
			if err != nil {
				return err
			}
			if ok {
				break
			}
			if rounds == patience {
				return fmt.Errorf("not certified to %.3g after %d evaluations at one point", 2*near, rounds)
			}
		}
	}
	return nil
}
