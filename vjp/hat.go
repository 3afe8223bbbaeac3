package vjp

import (
	"context"

	"surepipe/array"
	"surepipe/solve"
)

// hat is the derivative of an estimator that is linear in y: the hat matrix H, the same for every y.
type hat struct {
	Plain
	h      solve.Linear
	dim    int         // of b
	misfit array.Batch // A b - y, for the slope
}

// newHat is that at a solution.
func newHat(at *solve.Point) Linearization {
	dev := at.Y.Device()
	l := hat{h: at.Linear, dim: at.B.N(), misfit: dev.Alloc(1, at.Y.N())}
	done := false
	defer func() {
		if !done { // A panics
			l.misfit.Free()
		}
	}()
	at.Problem.A.Forward(l.misfit, at.B)
	dev.Lin(l.misfit, 1, l.misfit, -1, at.Y)
	l.Apply = l.VJP
	done = true
	return l
}

// VJP sets dst_i = H v_i.
func (l hat) VJP(ctx context.Context, dst, v array.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.h.Images(dst, v)
	return v.Device().Err()
}

// Closed is what the factorization knows, with and without what is in doubt.
func (l hat) Closed() Closed {
	t := l.h.Traces()
	c := Closed{
		Known: true, Trace: t.Trace, Frobenius2: t.Frobenius2, Low: t.Trace - t.Below, High: t.Trace + t.Above,
		Margin: t.Margin, Slope: l.slope,
	}
	if f, ok := l.h.(interface{ Products(v array.Batch) []float64 }); ok {
		c.Products = f.Products
	}
	if flops, known := l.h.DiagonalFlops(); known {
		c.Diagonal, c.DiagonalFlops = l.diagonal, flops
	}
	return c
}

// diagonal is that of H.
func (l hat) diagonal() ([]float64, error) { return l.h.Diagonal(), l.misfit.Device().Err() }

// slope is -N^+ A* (y - A b), as Q b = A* (y - A b).
func (l hat) slope() ([]float64, error) {
	dev := l.misfit.Device()
	b := dev.Alloc(1, l.dim)
	defer b.Free()
	l.h.Coefficients(b, l.misfit)
	return b.ToHost(), dev.Err()
}

// Kind is "direct".
func (l hat) Kind() string { return "direct" }

// Bytes is that of A b - y: the factors belong to the solver.
func (l hat) Bytes() int64 { return l.misfit.Bytes() }

// ProbeBytes counts what the factors take.
func (l hat) ProbeBytes() int64 { return l.h.ProbeBytes() }

// Release frees A b - y.
func (l hat) Release() { l.misfit.Free() }
