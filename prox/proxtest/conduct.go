package proxtest

import (
	"fmt"
	"math"
	"sync"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/prox"
)

// batch checks that the bits of a vector's result do not depend on the other vectors of the batch.
func (c *checker) batch() error {
	for _, t := range c.steps {
		v := c.upload(c.at()...)
		dst := c.dev.Alloc(v.K(), c.dim)
		err := c.p.Eval(dst, v, t)
		got := dst.ToHost()
		v.Free()
		dst.Free()
		if err != nil {
			return fmt.Errorf("Eval: %w", err)
		}
		for i, x := range c.at() {
			want, err := c.eval(x, t)
			if err != nil {
				return err
			}
			if err := same(fmt.Sprintf("vector %d of a batch and alone, t = %v", i, t), got[i*c.dim:(i+1)*c.dim],
				want); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *checker) inPlace() error {
	return c.eachPoint(func(v []float64, t float64) error {
		want, err := c.eval(v, t)
		if err != nil {
			return err
		}
		b := c.upload(v)
		defer b.Free()
		if err := c.p.Eval(b, b, t); err != nil {
			return fmt.Errorf("Eval in place: %w", err)
		}
		if err := same("Eval in place and into another batch", b.ToHost(), want); err != nil {
			return err
		}
		c.dev.Upload(b, v)
		j, err := c.p.Linearize(b, b, t)
		if err != nil {
			return fmt.Errorf("Linearize in place: %w", err)
		}
		defer j.Release()
		value, apart, err := c.linearize(v, t)
		if err != nil {
			return err
		}
		defer apart.Release()
		if err := same("Linearize in place and into another batch", b.ToHost(), value); err != nil {
			return err
		}
		z := c.unit()
		return same("derivative of Linearize in place and into another batch", c.apply(j, z), c.apply(apart, z))
	})
}

// gap is the value between the vectors of a view, which must not change.
const gap = 12345.5

// view returns a batch of the vectors vs with gaps on both sides, and the batch that holds it.
func (c *checker) view(vs ...[]float64) (inner, outer array.Batch) {
	outer = c.dev.Alloc(len(vs), c.dim+5)
	c.dev.Fill(outer, gap)
	inner = outer.Cols(2, 2+c.dim)
	for i, v := range vs {
		c.dev.Upload(inner.Rows(i, i+1), v)
	}
	return inner, outer
}

// intact returns an error if the gaps of a view were written.
func (c *checker) intact(outer array.Batch) error {
	for i, x := range outer.ToHost() {
		if at := i % (c.dim + 5); (at < 2 || at >= c.dim+2) && x != gap {
			return fmt.Errorf("value %d beside the vectors of a view was overwritten by %v", at, x)
		}
	}
	return nil
}

func (c *checker) strided() error {
	for _, t := range c.steps {
		v, vOuter := c.view(c.at()...)
		dst, dstOuter := c.view(c.at()...)
		defer vOuter.Free()
		defer dstOuter.Free()
		if err := c.p.Eval(dst, v, t); err != nil {
			return fmt.Errorf("Eval: %w", err)
		}
		if err := c.intact(dstOuter); err != nil {
			return err
		}
		got := dst.ToHost()
		for i, x := range c.at() {
			want, err := c.eval(x, t)
			if err != nil {
				return err
			}
			if err := same(fmt.Sprintf("vector %d of a view and alone, t = %v", i, t), got[i*c.dim:(i+1)*c.dim],
				want); err != nil {
				return err
			}
			if err := same(fmt.Sprintf("operand %d after Eval", i), v.Rows(i, i+1).ToHost(), x); err != nil {
				return err
			}
		}
	}
	return nil
}

// nan checks that a NaN gives an error or a NaN, never a number in its place.
func (c *checker) nan() error {
	v := c.random(c.scale)
	at := c.rng.IntN(c.dim)
	v[at] = math.NaN()
	p, err := c.eval(v, c.steps[0])
	if err == nil && !floats.HasNaN(p) {
		return fmt.Errorf("v[%d] is NaN, and Eval returned neither an error nor a NaN", at)
	}
	p, j, err := c.linearize(v, c.steps[0])
	if err == nil {
		j.Release()
		if !floats.HasNaN(p) {
			return fmt.Errorf("v[%d] is NaN, and Linearize returned neither an error nor a NaN", at)
		}
	}
	return nil
}

func (c *checker) derivativeBatch() error {
	return c.eachDerivative(func(j prox.Derivative) error {
		zs := c.directions(7)
		got := c.apply(j, zs...)
		for i, z := range zs {
			if err := same(fmt.Sprintf("direction %d of a batch and alone", i), got[i*c.dim:(i+1)*c.dim],
				c.apply(j, z)); err != nil {
				return err
			}
		}
		empty := c.upload()
		j.Apply(empty, empty)
		empty.Free()
		return nil
	})
}

func (c *checker) derivativeViews() error {
	return c.eachDerivative(func(j prox.Derivative) error {
		zs := c.directions(5)
		want := c.apply(j, zs...)
		z := c.upload(zs...)
		defer z.Free()
		j.Apply(z, z)
		if err := same("in place and into another batch", z.ToHost(), want); err != nil {
			return err
		}
		in, inOuter := c.view(zs...)
		out, outOuter := c.view(zs...)
		defer inOuter.Free()
		defer outOuter.Free()
		j.Apply(out, in)
		if err := same("a view and a batch", out.ToHost(), want); err != nil {
			return err
		}
		if err := c.intact(outOuter); err != nil {
			return err
		}
		j.Apply(in, in)
		if err := same("a view in place and a batch", in.ToHost(), want); err != nil {
			return err
		}
		return c.intact(inOuter)
	})
}

func (c *checker) derivativeConcurrent() error {
	return c.eachDerivative(func(j prox.Derivative) error {
		const goroutines = 8
		zs := c.directions(goroutines * 3)
		want := c.apply(j, zs...)
		got := make([][]float64, goroutines)
		faults := make([]any, goroutines)
		var wg sync.WaitGroup
		for g := range goroutines {
			wg.Go(func() {
				defer func() { faults[g] = recover() }()
				got[g] = c.apply(j, zs[3*g:3*g+3]...)
			})
		}
		wg.Wait()
		for g, part := range got {
			if faults[g] != nil {
				return fmt.Errorf("panic: %v", faults[g])
			}
			if err := same(fmt.Sprintf("goroutine %d of %d", g, goroutines), part,
				want[3*g*c.dim:3*(g+1)*c.dim]); err != nil {
				return err
			}
		}
		return nil
	})
}

// memory checks that a derivative holds as many bytes as it reports, before and after it is asked
// for its model, and that Release frees them. A device may round sizes up: twice Bytes and 4 KiB
// per batch are allowed, and as much for four indices or sparse matrices.
func (c *checker) memory() error {
	return c.eachPoint(func(v []float64, t float64) error {
		before := c.dev.Stats()
		_, j, err := c.linearize(v, t)
		if err != nil {
			return err
		}
		held := c.dev.Stats()
		bytes := j.Bytes()
		c.apply(j, c.unit())
		applied := c.dev.Stats()
		j.Diagonal()
		j.Model()
		asked := c.dev.Stats()
		all := j.Bytes()
		j.Release()
		after := c.dev.Stats()
		if err := holds("Linearize", bytes, before, held); err != nil {
			return err
		}
		if err := holds("a derivative with its model", all, before, asked); err != nil {
			return err
		}
		switch {
		case applied.Live != held.Live:
			return fmt.Errorf("Apply kept %d batches", applied.Live-held.Live)
		case after.Live != before.Live || after.LiveBytes != before.LiveBytes:
			return fmt.Errorf("%d batches (%d bytes) not freed after Release", after.Live-before.Live,
				after.LiveBytes-before.LiveBytes)
		}
		return nil
	})
}

// holds compares the bytes that a derivative reports with those allocated on the device.
func holds(what string, bytes int64, before, held array.Stats) error {
	live, grown := held.Live-before.Live, held.LiveBytes-before.LiveBytes
	switch {
	case bytes < 0 || bytes > grown:
		return fmt.Errorf("Bytes() = %d, but %s took %d", bytes, what, grown)
	case grown > 2*bytes+4096*int64(live+4):
		return fmt.Errorf("Bytes() = %d, but %s took %d in %d batches", bytes, what, grown, live)
	}
	return nil
}
