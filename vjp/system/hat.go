package system

import (
	"context"

	"surepipe/array"
	"surepipe/solve"
)

// hat is D mu_hat of an estimator that is linear in y: the hat matrix H, the same for every y.
type hat struct {
	direct
	h solve.Linear
}

// Hat is that of an estimator b = M y, mu_hat = H y, whose factors belong to the solver, with d observations.
func Hat(dev array.Device, h solve.Linear, d int) System {
	t := h.Traces()
	s := &hat{direct{Base{d: d}}, h}
	s.closed = Closed{Known: true, Trace: t.Trace, Frobenius2: t.Frobenius2, Low: t.Trace - t.Below,
		High: t.Trace + t.Above, Margin: t.Margin}
	if f, ok := h.(interface {
		Products(v *array.Fixed) []float64
		Mapped(v *array.Mapped) []float64
	}); ok {
		s.closed.Products, s.closed.Mapped = f.Products, f.Mapped
	}
	if f, ok := h.(interface{ Root() []float64 }); ok {
		s.closed.Root = func() ([]float64, error) { return f.Root(), dev.Err() }
	}
	if flops, known := h.DiagonalFlops(); known {
		s.closed.Diagonal, s.closed.DiagonalFlops = func() ([]float64, error) { return h.Diagonal(), dev.Err() }, flops
	}
	return s
}

func (s *hat) Apply(ctx context.Context, dst, w array.Batch, _ Goal, left []float64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	clear(left)
	s.h.Images(dst, w)
	return w.Device().Err()
}

func (s *hat) ProbeBytes() int64 { return s.h.ProbeBytes() }
