package outofcore

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/parallel"
	"surepipe/linops"
	"surepipe/progress"
)

func (a *source) lines() int {
	if a.x.ByRows {
		return a.x.Rows
	}
	return a.x.Cols
}

func (a *source) length() int {
	if a.x.ByRows {
		return a.x.Cols
	}
	return a.x.Rows
}

func (a *source) count(from, to int) {
	if to-from == a.lines() {
		a.passes.Add(1)
	}
	a.bytes.Add(a.x.Size(from, to))
}

func (a *source) pass(ctx context.Context, f func(from, to int)) error {
	a.count(0, a.lines())
	report, all := progress.From(ctx), a.x.Size(0, a.lines())
	return a.x.Pass(ctx, func(bytes int64) {
		report(progress.Report{Stage: progress.Pass, Step: int(bytes), Steps: int(all)})
	}, f)
}

// denseLines are products with lines of which every value is stored: products of matrices on the
// device.
type denseLines struct{ *source }

// blocks is a pass in which every block is a batch on the device.
func (a denseLines) blocks(ctx context.Context, dev array.Device, f func(block array.Batch, from, to int)) error {
	buf := a.buffer(a.x.Block)
	return a.pass(ctx, func(from, to int) {
		block := dev.Put(a.x.Read(buf, from, to), to-from, a.length())
		f(block, from, to)
		dev.Sync()
		block.Free()
	})
}

func (a denseLines) buffer(lines int) []float64 {
	if a.x.Views {
		return nil
	}
	return make([]float64, lines*a.length())
}

func (a denseLines) columnBytes(int) int64 { return 8 * int64(a.x.Rows) }

func (a denseLines) forward(dst, b array.Batch) error {
	dev := dst.Device()
	if a.x.ByRows {
		return a.blocks(a.ctx, dev, func(block array.Batch, from, to int) {
			dev.Gemm(false, true, 1, b, block, 0, dst.Cols(from, to))
		})
	}
	dev.Fill(dst, 0)
	buf := a.buffer(1)
	for _, j := range nonzero(b) {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		column := dev.Put(a.x.Read(buf, j, j+1), 1, a.length())
		dev.Gemm(false, false, 1, b.Cols(j, j+1), column, 1, dst)
		dev.Sync()
		column.Free()
		a.x.Drop(j, j+1)
		a.count(j, j+1)
	}
	return nil
}

func nonzero(b array.Batch) (set []int) {
	need := make([]bool, b.N())
	for i, v := range b.ToHost() {
		need[i%b.N()] = need[i%b.N()] || v != 0
	}
	for j, some := range need {
		if some {
			set = append(set, j)
		}
	}
	return set
}

func (a denseLines) transposed(ctx context.Context, dst, z array.Batch) error {
	dev := dst.Device()
	if a.x.ByRows {
		dev.Fill(dst, 0)
		return a.blocks(ctx, dev, func(block array.Batch, from, to int) {
			dev.Gemm(false, false, 1, z.Cols(from, to), block, 1, dst)
		})
	}
	if a.x.Products != nil && z.K() == 1 {
		host, out := z.ToHost(), make([]float64, a.x.Block)
		served := true // a single vector: for more a product of matrices is faster
		err := a.pass(ctx, func(from, to int) {
			if served = served && a.x.Products(out[:to-from], from, host); served {
				dev.Upload(dst.Cols(from, to), out[:to-from])
			}
		})
		if served || err != nil {
			return err
		}
	}
	return a.blocks(ctx, dev, func(block array.Batch, from, to int) {
		dev.Gemm(false, true, 1, z, block, 0, dst.Cols(from, to))
	})
}

func (a denseLines) columns(ctx context.Context, dev array.Device, set []int, u units) (linops.Restricted, error) {
	d, n := a.x.Rows, len(set)
	out := make([]float64, d*n)
	if a.x.ByRows {
		buf := a.buffer(a.x.Block)
		err := a.pass(ctx, func(from, to int) {
			block := a.x.Read(buf, from, to)
			parallel.For(to-from, func(i int) {
				row, x := out[(from+i)*n:][:n], block[i*a.x.Cols:]
				for k, j := range set {
					row[k] = u.entry(x[j], j)
				}
			})
		})
		if err != nil {
			return nil, err
		}
		return linops.NewDense(dev, mat.NewDense(d, n, out)), nil
	}
	// A few columns at a time are transposed into rows.
	for lo := 0; lo < n; lo += tile {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		some := set[lo:min(lo+tile, n)]
		lines := lists.Map(some, func(j int) []float64 { return a.x.Read(a.buffer(1), j, j+1) })
		parallel.Ranges(d, tile, func(from, to int) {
			for i := from; i < to; i++ {
				row := out[i*n+lo:]
				for k, j := range some {
					row[k] = u.entry(lines[k][i], j)
				}
			}
		})
		for _, j := range some {
			a.x.Drop(j, j+1)
			a.count(j, j+1)
		}
	}
	return linops.NewDense(dev, mat.NewDense(d, n, out)), nil
}

// tile is the side of the squares in which columns are transposed into rows.
const tile = 64
