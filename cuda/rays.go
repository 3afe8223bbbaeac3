//go:build cuda

package cuda

import (
	"fmt"
	"slices"

	"surepipe/array"
)

// rays is a matrix of rays on the card, as the kernels read it.
type rays struct {
	on                  *card
	shape               array.Shape
	len, count          int // of rays and of runs
	places, spans, runs *buffer
}

func (a *rays) Dims() (rays, pixels int) { return a.len, a.shape.Len() }
func (a *rays) Bytes() int64             { return 36*int64(a.len) + 12*int64(a.count) }

func (a *rays) Free() {
	if a.places != nil {
		a.on.drop(a.places)
		a.on.drop(a.spans)
		a.on.drop(a.runs)
		a.places = nil
	}
}

// NewRays puts the rays on the device.
func (d *Device) NewRays(s array.Shape, list []array.Ray) array.Rays {
	array.CheckRays(s, list)
	list = slices.Clone(list)
	found := array.RayRuns(s, list)
	places, spans := make([]float64, 0, 3*len(list)), make([]int32, 0, 3*len(list))
	for _, r := range list {
		level := int32(0)
		if r.Level {
			level = 1
		}
		places, spans = append(places, r.At, r.Slope, r.Weight),
			append(spans, int32(r.From), int32(max(r.From, r.To)), level)
	}
	var runs []int32
	for _, r := range found {
		kind := int32(0)
		if r.Level {
			kind = 1
		}
		if r.Falling {
			kind += 2
		}
		runs = append(runs, int32(r.First), int32(r.Last), kind)
	}
	return &rays{d.card, s, len(list), len(found), put(d, "NewRays", places), put(d, "NewRays", spans),
		put(d, "NewRays", runs)}
}

// MulRays sets dst_i = A x_i along the rays, or A* x_i, each pixel a sum over the rays that meet it.
func (d *Device) MulRays(trans bool, dst array.Batch, a array.Rays, x array.Batch) {
	d = d.into(dst, x)
	on, ok := a.(*rays)
	if !ok || on.on != d.card {
		panic(fmt.Sprintf("array: MulRays on %q with rays of another device, a %T", d.name, a))
	}
	if on.places == nil {
		panic(fmt.Sprintf("array: MulRays with %d rays used after they were freed", on.len))
	}
	array.CheckMulRays(trans, dst, a, x)
	for _, buf := range []*buffer{on.places, on.spans, on.runs} {
		d.need(buf)
	}
	if dst.K() == 0 || dst.N() == 0 {
		return
	}
	k, n := int64(dst.K()), int64(dst.N())
	to, from := operandOf(dst), operandOf(x)
	d.do("MulRays", dst, func() error {
		if trans {
			const vectors = 4 // VECTORS of the kernel
			return d.kernels.launchRaysAdjoint(over((k+vectors-1)/vectors, n), d.stream, to.at, to.stride, from.at,
				from.stride,
				on.places.at, on.spans.at, on.runs.at, int64(on.count), int64(on.shape.Cols), k, n)
		}
		return d.kernels.launchRays(over(k, n), d.stream, to.at, to.stride, from.at, from.stride, on.places.at,
			on.spans.at, int64(on.shape.Rows), int64(on.shape.Cols), k, n)
	})
}
