package loss

import (
	"fmt"
	"math"
	"slices"

	"surepipe/array"
)

// Weighted is the weighted squared loss 1/2 sum_i w_i (z_i - y_i)^2.
type Weighted struct {
	w    array.Batch // 1 x d
	most float64
}

// WeightedSquared returns l(z; y) = 1/2 sum_i w_i (z_i - y_i)^2 for weights w_i >= 0, some of them
// positive. The slice is copied.
func WeightedSquared(dev array.Device, w []float64) (*Weighted, error) {
	most := 0.0
	for i, v := range w {
		if !(v >= 0) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("loss: weight %d is %g, expected a finite number of at least 0", i, v)
		}
		most = max(most, v)
	}
	if most == 0 {
		return nil, fmt.Errorf("loss: all %d weights are 0, expected some positive ones", len(w))
	}
	l := &Weighted{dev.Alloc(1, len(w)), most}
	dev.Upload(l.w, slices.Clone(w))
	return l, nil
}

// Value returns 1/2 sum_i w_i (z_i - y_i)^2.
func (l *Weighted) Value(z, y array.Batch) float64 {
	dev := l.w.Device()
	g, e, sum := dev.Alloc(1, z.N()), dev.Alloc(1, z.N()), []float64{0}
	defer g.Free()
	defer e.Free()
	dev.Lin(e, 1, z, -1, y)
	dev.Mul(g, e, l.w)
	dev.Dot(sum, e, g)
	return sum[0] / 2
}

// Gradient sets dst = w (z - y).
func (l *Weighted) Gradient(dst, z, y array.Batch) {
	dev := l.w.Device()
	dev.Lin(dst, 1, z, -1, y)
	dev.Mul(dst, dst, l.w)
}

// Weights returns w.
func (l *Weighted) Weights() (array.Batch, bool) { return l.w, true }

// Curvature sets dst = w.
func (l *Weighted) Curvature(dst, _, _ array.Batch) { l.w.Device().Copy(dst, l.w) }

// Lipschitz is the largest weight.
func (l *Weighted) Lipschitz() float64 { return l.most }

// Release frees the weights on the device.
func (l *Weighted) Release() { l.w.Free() }
