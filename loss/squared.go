package loss

import (
	"fmt"
	"math"

	"surepipe/array"
)

// Weighted is the squared loss 1/2 sum_i w_i (z_i - y_i)^2.
type Weighted struct {
	w       array.Batch // the zero Batch for ones
	largest float64
	each    int // entries of an observation, 0 for one
}

// squared is the squared loss without weights.
var squared = &Weighted{largest: 1}

// Squared returns the squared loss 1/2 ||z - y||^2.
func Squared() *Weighted { return squared }

// WeightedSquared returns the weighted squared loss with the weights w on a device. Observation i
// counts as much as w_i observations at the same place; if its noise has variance sigma_i^2,
// weights proportional to 1/sigma_i^2 are efficient. A weight of 0 leaves the observation out. It
// is an error if a weight is negative or not finite, or if all are 0.
func WeightedSquared(dev array.Device, w []float64) (*Weighted, error) {
	largest, err := checkWeights(w)
	if err != nil {
		return nil, err
	}
	l := &Weighted{w: dev.Alloc(1, len(w)), largest: largest}
	dev.Upload(l.w, w)
	if err := dev.Err(); err != nil {
		l.Release()
		return nil, fmt.Errorf("loss: %d weights: %w", len(w), err)
	}
	return l, nil
}

// checkWeights returns the largest weight, and an error where one is negative or not finite, or none
// is positive.
func checkWeights(w []float64) (largest float64, err error) {
	for i, v := range w {
		if !(v >= 0) || math.IsInf(v, 1) {
			return 0, fmt.Errorf("loss: the weight of observation %d is %g, expected a finite number that "+
				"is 0 or more", i, v)
		}
		largest = max(largest, v)
	}
	if largest == 0 {
		return 0, fmt.Errorf("loss: none of %d weights is positive, expected at least one", len(w))
	}
	return largest, nil
}

// Each is the same loss of observations with n consecutive entries each, which are left out together. It shares the
// weights.
func (l *Weighted) Each(n int) *Weighted { return &Weighted{l.w, l.largest, n} }

func (l *Weighted) Structure() Structure { return Structure{Name: "squared", Each: l.each} }

func (l *Weighted) Value(z, y array.Batch) float64 {
	l.check(z, y)
	dev := z.Device()
	r := dev.Alloc(1, z.N())
	defer r.Free()
	dev.Lin(r, 1, z, -1, y)
	weighted := r
	if !l.w.IsZero() {
		weighted = dev.Alloc(1, z.N())
		defer weighted.Free()
		dev.Mul(weighted, r, l.w)
	}
	return weighted.Dot(r) / 2
}

func (l *Weighted) Gradient(dst, z, y array.Batch) {
	l.check(dst, z, y)
	dev := dst.Device()
	dev.Lin(dst, 1, z, -1, y)
	if !l.w.IsZero() {
		dev.Mul(dst, dst, l.w)
	}
}

func (l *Weighted) Weights() (array.Batch, bool) { return l.w, true }

func (l *Weighted) Curvature(dst, z, y array.Batch) {
	l.check(dst, z, y)
	if l.w.IsZero() {
		dst.Device().Fill(dst, 1)
	} else {
		dst.Device().Copy(dst, l.w)
	}
}

func (l *Weighted) Lipschitz() float64 { return l.largest }

// Release frees the weights. The loss is dead afterwards.
func (l *Weighted) Release() {
	l.w.Free()
	l.w = array.Batch{}
}

// check panics unless all batches are single vectors of one length, that of the weights.
func (l *Weighted) check(batches ...array.Batch) {
	if l.w.IsZero() {
		check("the squared loss", batches...)
	} else {
		check("the weighted squared loss", append(batches, l.w)...)
	}
}

func check(name string, batches ...array.Batch) {
	for _, b := range batches {
		if b.K() != 1 || b.N() != batches[0].N() {
			panic(fmt.Sprintf("loss: %s of batches %v, expected vectors of one length", name, batches))
		}
	}
}
