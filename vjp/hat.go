package vjp

import (
	"context"

	"surepipe/array"
	"surepipe/solve"
)

// hat is the derivative of an estimator that is linear in y: the hat matrix U* diag(w) U, the same
// for every y.
type hat struct {
	Plain
	h *solve.Linear
}

func newHat(h *solve.Linear) Linearization {
	l := hat{h: h}
	l.Apply = l.VJP
	return l
}

// VJP sets dst_i = H v_i.
func (l hat) VJP(ctx context.Context, dst, v array.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	dev := v.Device()
	c := dev.Alloc(v.K(), l.h.U.K())
	defer c.Free()
	dev.Gemm(false, true, 1, v, l.h.U, 0, c)
	dev.Mul(c, c, l.h.Weights)
	dev.Gemm(false, false, 1, c, l.h.U, 0, dst)
	return dev.Err()
}

// Closed sums the weights, with and without the singular values in doubt.
func (l hat) Closed() Closed {
	c := Closed{Known: true, Margin: l.h.Margin}
	for _, v := range l.h.Weights.ToHost() {
		c.Trace += v
		c.Frobenius2 += v * v
	}
	c.Low, c.High = c.Trace-l.h.Doubtful, c.Trace
	c.Products = l.products
	c.Diagonal, c.DiagonalFlops = l.diagonal, 2*float64(l.h.U.K())*float64(l.h.U.N())
	return c
}

// products are the entries of V U* diag(w) U V*.
func (l hat) products(v array.Batch) []float64 {
	dev, k := v.Device(), v.K()
	if l.h.U.K() == 0 {
		return make([]float64, k*k)
	}
	c, weighted, square := dev.Alloc(k, l.h.U.K()), dev.Alloc(k, l.h.U.K()), dev.Alloc(k, k)
	defer c.Free()
	defer weighted.Free()
	defer square.Free()
	dev.Gemm(false, true, 1, v, l.h.U, 0, c)
	dev.Mul(weighted, c, l.h.Weights)
	dev.Gemm(false, true, 1, c, weighted, 0, square)
	return square.ToHost()
}

// diagonal returns sum_r w_r U_ri^2 for every observation i.
func (l hat) diagonal() ([]float64, error) {
	u, dev := l.h.U, l.h.U.Device()
	out := make([]float64, u.N())
	if u.K() == 0 {
		return out, nil
	}
	squares, sums := dev.Alloc(u.K(), u.N()), dev.Alloc(1, u.N())
	defer squares.Free()
	defer sums.Free()
	dev.Mul(squares, u, u)
	dev.Gemm(false, false, 1, l.h.Weights, squares, 0, sums)
	dev.Download(out, sums)
	return out, dev.Err()
}

// Kind is "direct".
func (l hat) Kind() string { return "direct" }

// Bytes is 0: the factors belong to the solver.
func (l hat) Bytes() int64 { return 0 }

// ProbeBytes counts the coefficients on U.
func (l hat) ProbeBytes() int64 { return 8 * int64(l.h.U.K()+l.h.U.N()) }

// Release does nothing: the factors belong to the solver.
func (l hat) Release() {}
