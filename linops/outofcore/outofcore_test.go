package outofcore_test

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/additive"
	"surepipe/linops/linopstest"
	"surepipe/linops/outofcore"
)

// linesOf holds a matrix in memory in place of a store, in blocks of a few lines.
func linesOf(x *mat.Dense, byRows bool, block int, passes *int) outofcore.Lines {
	d, p := x.Dims()
	stored := mat.DenseCopyOf(x)
	if !byRows {
		stored = mat.DenseCopyOf(x.T())
	}
	n, length := stored.Dims()
	var counting sync.Mutex // products may be concurrent
	l := outofcore.Lines{
		Rows: d, Cols: p, ByRows: byRows, Size: func(from, to int) int64 { return int64(8 * length * (to - from)) },
		Block: block,
		Read: func(dst []float64, from, to int) []float64 {
			return append(dst[:0], stored.RawMatrix().Data[from*length:to*length]...)
		},
		Pass: func(ctx context.Context, read func(int64), f func(from, to int)) error {
			counting.Lock()
			*passes++
			counting.Unlock()
			for from := 0; from < n; from += block {
				if err := ctx.Err(); err != nil {
					return err
				}
				f(from, min(from+block, n))
				read(int64(8 * length * min(from+block, n)))
			}
			return nil
		},
		Drop:  func(int, int) {},
		Means: make([]float64, p), Centered2: make([]float64, p),
	}
	for j := range p {
		column := mat.Col(nil, j, x)
		l.Means[j] = mat.Sum(mat.NewVecDense(d, column)) / float64(d)
		for _, v := range column {
			l.Centered2[j] += (v - l.Means[j]) * (v - l.Means[j])
		}
	}
	if byRows {
		centered, square := mat.DenseCopyOf(x), mat.NewDense(p, p, nil)
		centered.Apply(func(_, j int, v float64) float64 { return v - l.Means[j] }, x)
		square.Mul(centered.T(), centered)
		l.Gram = square.RawMatrix().Data
	}
	return l
}

// entriesOf is linesOf with the entries that are not 0.
func entriesOf(x *mat.Dense, byRows bool, block int, passes *int) outofcore.Lines {
	l := linesOf(x, byRows, block, passes)
	read, length := l.Read, l.Cols
	if !byRows {
		length = l.Rows
	}
	l.Read, l.Nonzeros = nil, make([]int64, l.Cols)
	l.Size = func(from, to int) int64 { return 3 << 20 * int64(to-from) } // so that a block is decoded in pieces
	l.Entries = func(e *outofcore.LineEntries, from, to int) {
		values := read(make([]float64, (to-from)*length), from, to)
		e.Indptr, e.Indices, e.Values = append(e.Indptr[:0], 0), e.Indices[:0], e.Values[:0]
		for u, v := range values {
			if v != 0 {
				e.Indices, e.Values = append(e.Indices, int32(u%length)), append(e.Values, v)
			}
			if (u+1)%length == 0 {
				e.Indptr = append(e.Indptr, len(e.Values))
			}
		}
	}
	for j := range l.Cols {
		for _, v := range mat.Col(nil, j, x) {
			if v != 0 {
				l.Nonzeros[j]++
			}
		}
	}
	return l
}

func TestOutOfCore(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		rng := rand.New(rand.NewPCG(3, 4))
		const d, p = 23, 31
		x, s := mat.NewDense(d, p, nil), make([]float64, p)
		x.Apply(func(i, j int, _ float64) float64 { return rng.NormFloat64() + float64(j%3) }, x)
		for j := range s {
			s[j] = 0.5 + rng.Float64()
		}
		for i := range 8 * d { // a sparse matrix
			x.Set(i%d, rng.IntN(p), 0)
		}
		stores := []func(*mat.Dense, bool, int, *int) outofcore.Lines{linesOf, entriesOf}
		for i := range 8 {
			byRows, centered, store := i&1 > 0, i&2 > 0, stores[i>>2]
			{
				passes := 0
				a := outofcore.NewOutOfCore(t.Context(), store(x, byRows, 4, &passes), centered)
				scaled := linops.ScaleColumns(dev, a, s)
				for _, op := range []linops.Operator{a, scaled} {
					if err := linopstest.Check(dev, op); err != nil {
						t.Errorf("by rows %v, centered %v: %v", byRows, centered, err)
					}
				}
				want := mat.DenseCopyOf(x)
				want.Apply(func(_, j int, v float64) float64 {
					if centered {
						v -= mat.Sum(x.ColView(j)) / d
					}
					return v * s[j]
				}, want)
				got := linops.ToDense(dev, scaled)
				got.Sub(got, want)
				if off := mat.Max(got) - mat.Min(got); off > 1e-13 {
					t.Errorf("by rows %v, centered %v: off by %g", byRows, centered, off)
				}
			}
		}
	})
}

// A pass that is cancelled gives an error, or NaN where there is no room for one.
func TestOutOfCoreIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	dev, passes := array.NewHost(), 0
	a := outofcore.NewOutOfCore(ctx, linesOf(mat.NewDense(4, 5, nil), true, 1, &passes), false)
	z, g := dev.Alloc(1, 4), dev.Alloc(1, 5)
	dev.Fill(z, 1)
	cancel()
	if err := linops.StructureOf(a).Passes.Adjoint(ctx, g, z); err == nil {
		t.Error("no error")
	}
	if a.Adjoint(g, z); !math.IsNaN(g.ToHost()[0]) {
		t.Error(g.ToHost())
	}

	// Also in the middle of the last block of a sparse matrix.
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	l := entriesOf(mat.NewDense(4, 5, nil), true, 4, &passes)
	read, pieces := l.Entries, 0
	l.Entries = func(e *outofcore.LineEntries, from, to int) {
		pieces++
		cancel()
		read(e, from, to)
	}
	if err := linops.StructureOf(outofcore.NewOutOfCore(ctx, l, false)).Passes.Adjoint(ctx, g, z); err == nil ||
		pieces != 1 {
		t.Errorf("error %v after %d pieces", err, pieces)
	}
}

// Gram matrices of sparse columns of many rows do not write all of them down at once, and centering does
// not double what they write down.
func TestProductsOfLongColumnsTakeLittleMemory(t *testing.T) {
	dev := array.NewHost()
	const d, p = 1 << 17, 100 // all columns take 105 MB
	var indptr, indices []int
	var values []float64
	for i := range d {
		indptr = append(indptr, len(indices))
		indices, values = append(indices, i%p), append(values, float64(1+i%7))
	}
	csr, err := linops.NewCSR(dev, d, p, append(indptr, len(indices)), indices, values)
	if err != nil {
		t.Fatal(err)
	}
	a := additive.NewCentered(dev, csr)
	dst := dev.Alloc(p, p)
	before := dev.Stats().LiveBytes
	into, free := linops.Products(dev, a)
	into(dst, a)
	free()
	if took := dev.Stats().PeakBytes - before; took > 128<<20 {
		t.Errorf("%d MB", took>>20)
	}
	// The columns have disjoint supports: <c_i, c_j> = -d m_i m_j off the diagonal.
	got, means := dst.ToHost(), a.Means()
	if want := -d * means[2] * means[31]; math.Abs(got[2*p+31]-want) > 1e-9*math.Abs(want) {
		t.Errorf("%g, want %g", got[2*p+31], want)
	}
}
