//go:build cuda

package cuda

import (
	"slices"

	"surepipe/array"
)

// rays is a matrix of rays on the card, as the kernels read it: the places, slopes and weights of the rays, their
// lines, and runs of them.
type rays struct {
	lists
	shape     array.Shape
	len, runs int
}

func (a *rays) Dims() (rays, pixels int) { return a.len, a.shape.Len() }

func (d *Device) NewRays(s array.Shape, list []array.Ray) array.Rays {
	array.CheckRays(s, list)
	list = slices.Clone(list)
	found := array.RayRuns(s, list)
	bit := func(b bool, value int32) int32 {
		if b {
			return value
		}
		return 0
	}
	var places []float64
	var spans, runs []int32
	for _, r := range list {
		places = append(places, r.At, r.Slope, r.Weight)
		spans = append(spans, int32(r.From), int32(max(r.From, r.To)), bit(r.Level, 1))
	}
	for _, r := range found {
		runs = append(runs, int32(r.First), int32(r.Last), bit(r.Level, 1)+bit(r.Falling, 2))
	}
	a := &rays{shape: s, len: len(list), runs: len(found)}
	put(d, &a.lists, "NewRays", places)
	put(d, &a.lists, "NewRays", spans)
	put(d, &a.lists, "NewRays", runs)
	return a
}

// MulRays sets dst_i = A x_i along the rays, or A* x_i, each pixel a sum over the rays that meet it.
func (d *Device) MulRays(trans bool, dst array.Batch, a array.Rays, x array.Batch) {
	d = d.into(dst, x)
	on := onCard[*rays](d, "MulRays", a)
	array.CheckMulRays(trans, dst, a, x)
	d.entries("MulRays", dst, dst.K(), dst.N(), func(g grid, k, n int64) error {
		rows, cols := int64(on.shape.Rows), int64(on.shape.Cols)
		if trans {
			const vectors = 4 // VECTORS of the kernel
			return d.launchRaysAdjoint(over((k+vectors-1)/vectors, n), operandOf(dst), operandOf(x), on.at(0), on.at(1),
				on.at(2), int64(on.runs), cols, k, n)
		}
		return d.launchRays(g, operandOf(dst), operandOf(x), on.at(0), on.at(1), rows, cols, k, n)
	})
}
