package arraytest

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"surepipe/array"
)

// requests checks that views compute what their device computes, that batches of the device and of
// its views mix, and that they share one memory. To test that a view keeps its own faults takes a
// device that can be made to fail: see the tests of package cuda.
func requests(dev array.Device) error {
	before := dev.Stats()
	r := dev.Request()
	for name, check := range map[string]func(array.Device) error{
		"transfers": transfers, "reductions": reductions, "Gather and Scatter": gatherScatter, "MulCSR": mulCSR,
		"patterns": patternProducts, "blocks": blockProducts, "rays": rayProducts,
		"Fourier transforms": fourierTransforms, "mismatches": mismatches, "memory": memory,
	} {
		if err := check(r); err != nil {
			return fmt.Errorf("%s on a request: %w", name, err)
		}
	}
	if r.Name() != dev.Name() {
		return fmt.Errorf("a request of %q has the name %q", dev.Name(), r.Name())
	}
	if err := mixed(dev, r, r.Request()); err != nil {
		return err
	}
	if now := dev.Stats(); now.Live != before.Live || now.LiveBytes != before.LiveBytes {
		return fmt.Errorf("Stats is %+v before a request and %+v when all its memory is freed", before, now)
	}
	return errors.Join(r.Err(), r.Sync(), dev.Err())
}

// mixed checks operations among batches of a device and of two views.
func mixed(dev, r, s array.Device) error {
	rng := rand.New(rand.NewPCG(12, 0))
	x, y, want := newTable(rng, 3, 50), newTable(rng, 3, 50), newTable(rng, 3, 50)
	for i := range want.v {
		want.v[i] = 2*x.v[i] - y.v[i]
	}
	places := []int{0, 7, 49}
	for _, on := range [][4]array.Device{{dev, r, s, dev}, {r, dev, s, dev}, {s, r, dev, r}, {r, s, s, s}} {
		receiver, dst, a, b := on[3], on[0].Alloc(3, 50), on[1].Put(x.v, 3, 50), on[2].Put(y.v, 3, 50)
		if dst.Device() != on[0] || a.Device() != on[1] {
			return errors.New("a batch that a request allocated has another device")
		}
		receiver.Lin(dst, 2, a, -1, b)
		got := held{Batch: dst, whole: dst}
		if err := got.check(want, roundingTol, "Lin of batches of a device and its requests"); err != nil {
			return err
		}
		gram, again := on[1].Alloc(3, 3), on[2].Alloc(3, 3)
		receiver.Gemm(false, true, 1, a, b, 0, gram)
		a.Device().Gemm(false, true, 1, a, b, 0, again)
		if !bits(gram.ToHost(), again.ToHost()) {
			return errors.New("Gemm gives different bits on another request")
		}
		idx := on[0].NewIndex(places)
		few := on[1].Alloc(3, len(places))
		receiver.Gather(few, a, idx)
		if v := few.ToHost(); v[1] != x.at(0, 7) || v[8] != x.at(2, 49) {
			return errors.New("Gather with an index of another request gives different values")
		}
		out, same := make([]float64, 3), make([]float64, 3)
		receiver.Dot(out, a, b)
		dev.Dot(same, a, b)
		if !bits(out, same) {
			return errors.New("Dot gives different bits on another request")
		}
		idx.Free()
		for _, batch := range []array.Batch{dst, a, b, gram, again, few} {
			receiver.Free(batch)
		}
	}
	return nil
}
