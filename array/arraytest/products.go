package arraytest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"surepipe/array"
)

// entry is entry (i, j) of op(t).
func entry(t table, trans bool, i, j int) float64 {
	if trans {
		i, j = j, i
	}
	return t.v[i*t.n+j]
}

// product is alpha op(A) op(B) + beta C; old contents do not matter for
// beta = 0.
func product(transA, transB bool, alpha float64, a, b table, inner int, beta float64, c table) table {
	out := table{c.k, c.n, make([]float64, len(c.v))}
	for i := range c.k {
		for j := range c.n {
			s := 0.0
			for l := range inner {
				s += entry(a, transA, i, l) * entry(b, transB, l, j)
			}
			s *= alpha
			if beta != 0 {
				s += beta * c.v[i*c.n+j]
			}
			out.v[i*c.n+j] = s
		}
	}
	return out
}

func maybeSwap(swap bool, k, n int) (int, int) {
	if swap {
		return n, k
	}
	return k, n
}

var (
	flags  = []bool{false, true}
	scales = [][2]float64{{1, 0}, {-0.5, 1}, {2, 0.25}, {0, 3}}
)

func gemm(dev array.Device) error {
	rng := rand.New(rand.NewPCG(4, 0))
	sizes := [][3]int{
		{0, 3, 4}, {3, 0, 4}, {3, 4, 0}, {1, 1, 1}, {1, 40, 30}, {2, 3, 4}, {7, 5, 6}, {24, 33, 17}, {25, 33, 17},
		{34, 70, 90}, {36, 8, 8}, {37, 1, 50}, {73, 130, 20}, {34, 34, 3000}, {1, 2100, 300}, {3, 1030, 600},
	}
	for _, size := range sizes {
		k, n, inner := size[0], size[1], size[2]
		for _, transA := range flags {
			for _, transB := range flags {
				for _, scale := range scales {
					if k*n*inner > 1<<18 && rng.IntN(3) > 0 {
						continue // the loops to compare with are slow
					}
					l := layouts[rng.IntN(len(layouts))]
					ka, na := maybeSwap(transA, k, inner)
					kb, nb := maybeSwap(transB, inner, n)
					a, b, c := newTable(rng, ka, na), newTable(rng, kb, nb), newTable(rng, k, n)
					if scale[1] == 0 {
						for i := range c.v {
							c.v[i] = math.NaN()
						}
					}
					ba, bb, bc := put(dev, a, l), put(dev, b, l), put(dev, c, l)
					want := product(transA, transB, scale[0], a, b, inner, scale[1], c)
					dev.Gemm(transA, transB, scale[0], ba.Batch, bb.Batch, scale[1], bc.Batch)
					err := bc.check(want, sumTol, "Gemm of %s (trans %t) and %s (trans %t), alpha %v, beta %v",
						ba.Batch, transA, bb.Batch, transB, scale[0], scale[1])
					ba.free()
					bb.free()
					bc.free()
					if err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

func gemmEach(dev array.Device) error {
	rng := rand.New(rand.NewPCG(5, 0))
	sizes := [][4]int{ // vectors, rows, columns, inner
		{0, 3, 4, 5}, {2, 0, 3, 4}, {2, 3, 0, 4}, {2, 3, 4, 0}, {1, 1, 1, 1}, {3, 2, 4, 5}, {34, 7, 3, 11},
		{2, 130, 20, 90}, {2, 20, 130, 90}, {1, 300, 290, 60},
	}
	for _, size := range sizes {
		k, rows, cols, inner := size[0], size[1], size[2], size[3]
		for _, transA := range flags {
			for _, transB := range flags {
				for shared := range 4 {
					scale := scales[rng.IntN(len(scales))]
					l := layouts[rng.IntN(len(layouts))]
					var sa, sb array.Shape
					sa.Rows, sa.Cols = maybeSwap(transA, rows, inner)
					sb.Rows, sb.Cols = maybeSwap(transB, inner, cols)
					ka, kb := k, k
					if shared&1 != 0 {
						ka = 1
					}
					if shared&2 != 0 {
						kb = 1
					}
					a, b, c := newTable(rng, ka, sa.Len()), newTable(rng, kb, sb.Len()), newTable(rng, k, rows*cols)
					want := table{c.k, c.n, nil}
					for i := range k {
						one := func(t table, s array.Shape) table {
							if t.k == 1 {
								return table{s.Rows, s.Cols, t.v}
							}
							return table{s.Rows, s.Cols, t.v[i*t.n : (i+1)*t.n]}
						}
						want.v = append(want.v, product(transA, transB, scale[0], one(a, sa), one(b, sb), inner,
							scale[1], one(c, array.Shape{Rows: rows, Cols: cols})).v...)
					}
					ba, bb, bc := put(dev, a, l), put(dev, b, l), put(dev, c, l)
					dev.GemmEach(transA, transB, scale[0], ba.Batch, sa, bb.Batch, sb, scale[1], bc.Batch)
					err := bc.check(want, sumTol,
						"GemmEach of %s as %v (trans %t) and %s as %v (trans %t), alpha %v, beta %v", ba.Batch, sa,
						transA, bb.Batch, sb, transB, scale[0], scale[1])
					ba.free()
					bb.free()
					bc.free()
					if err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

func gatherScatter(dev array.Device) error {
	rng := rand.New(rand.NewPCG(6, 0))
	for _, s := range [][3]int{{0, 5, 3}, {3, 5, 0}, {3, 0, 0}, {1, 1, 1}, {3, 7, 7}, {5, 10, 4}, {4, 30000, 20000}} {
		k, n, m := s[0], s[1], s[2]
		idx := rng.Perm(n)[:m]
		on := dev.NewIndex(idx)
		if on.Len() != m {
			return fmt.Errorf("an index of %d coordinates has length %d", m, on.Len())
		}
		for _, l := range layouts {
			x, y := newTable(rng, k, n), newTable(rng, k, m)
			gathered, scattered := table{k, m, make([]float64, k*m)}, table{k, n, make([]float64, k*n)}
			for i := range k {
				for j, c := range idx {
					gathered.v[i*m+j] = x.v[i*n+c]
					scattered.v[i*n+c] = y.v[i*m+j]
				}
			}
			bx, by := put(dev, x, l), put(dev, y, l)
			g, sc := put(dev, newTable(rng, k, m), l), put(dev, newTable(rng, k, n), l)
			dev.Gather(g.Batch, bx.Batch, on)
			dev.Scatter(sc.Batch, by.Batch, on)
			err := g.check(gathered, 0, "Gather")
			if err == nil {
				err = sc.check(scattered, 0, "Scatter")
			}
			for _, h := range []held{bx, by, g, sc} {
				h.free()
			}
			if err != nil {
				return err
			}
		}
		on.Free()
	}
	repeated := dev.NewIndex([]int{2, 2, 0})
	x, y := put(dev, table{1, 3, []float64{5, 6, 7}}, packed), put(dev, table{1, 3, make([]float64, 3)}, packed)
	dev.Gather(y.Batch, x.Batch, repeated)
	err := y.check(table{1, 3, []float64{7, 7, 5}}, 0, "Gather at repeated coordinates")
	x.free()
	y.free()
	repeated.Free()
	return err
}

// randomCSR is a sparse matrix, some of its rows empty, and its dense form.
func randomCSR(rng *rand.Rand, rows, cols int) (indptr, indices []int, values []float64, dense table) {
	dense = table{rows, cols, make([]float64, rows*cols)}
	indptr = []int{0}
	for r := range rows {
		if r%3 != 1 && cols > 0 {
			for _, c := range rng.Perm(cols)[:1+rng.IntN(min(cols, 9))] {
				v := rng.NormFloat64()
				indices, values = append(indices, c), append(values, v)
				dense.v[r*cols+c] = v
			}
		}
		indptr = append(indptr, len(indices))
	}
	return indptr, indices, values, dense
}

func mulCSR(dev array.Device) error {
	rng := rand.New(rand.NewPCG(7, 0))
	for _, s := range [][3]int{{0, 3, 4}, {2, 0, 4}, {2, 4, 0}, {1, 1, 1}, {2, 5, 7}, {3, 60, 40}, {4, 9, 30},
		{9, 200, 30}, {34, 700, 20}} {
		k, rows, cols := s[0], s[1], s[2]
		indptr, indices, values, dense := randomCSR(rng, rows, cols)
		m := dev.NewCSR(rows, cols, indptr, indices, values)
		if r, c := m.Dims(); r != rows || c != cols || m.Nonzeros() != len(values) {
			return fmt.Errorf("a %d x %d sparse matrix of %d entries says that it is %d x %d of %d", rows, cols,
				len(values), r, c, m.Nonzeros())
		}
		for _, l := range layouts {
			x, c := newTable(rng, k, cols), newTable(rng, k, rows)
			bx, bc := put(dev, x, l), put(dev, c, l)
			dev.MulCSR(bc.Batch, m, bx.Batch)
			want := product(false, true, 1, x, dense, cols, 0, c)
			err := bc.check(want, sumTol, "MulCSR of a %d x %d matrix", rows, cols)
			bx.free()
			bc.free()
			if err != nil {
				return err
			}
		}
		m.Free()
	}
	return nil
}
