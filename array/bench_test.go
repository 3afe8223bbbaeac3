package array

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

func randomBatch(dev Device, seed uint64, k, n int) Batch {
	rng := rand.New(rand.NewPCG(seed, 0))
	v := make([]float64, k*n)
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	b := dev.Alloc(k, n)
	dev.Upload(b, v)
	return b
}

// The shapes of the paper's largest LASSO, 2500 x 5000, with a third of
// Hutch++'s probes, with all, and with one vector.
func BenchmarkGemm(b *testing.B) {
	dev := NewHost()
	const d, p = 2500, 5000
	m := randomBatch(dev, 1, d, p)
	for _, k := range []int{1, 2, 8, 24, 34, 102} {
		for _, forward := range []bool{true, false} {
			x, y := randomBatch(dev, 2, k, p), dev.Alloc(k, d)
			name := "Forward"
			if !forward {
				x, y = randomBatch(dev, 2, k, d), dev.Alloc(k, p)
				name = "Adjoint"
			}
			b.Run(fmt.Sprintf("%s/k=%d", name, k), func(b *testing.B) {
				for b.Loop() {
					dev.Gemm(false, forward, 1, x, m, 0, y)
				}
				s := b.Elapsed().Seconds() / float64(b.N)
				b.ReportMetric(2*float64(k*d*p)/s/1e9, "GFLOP/s")
				b.ReportMetric(8*float64(d*p)/s/1e9, "GB/s")
			})
			x.Free()
			y.Free()
		}
	}
}

func BenchmarkGemmEach(b *testing.B) {
	dev := NewHost()
	for _, c := range []struct {
		k      int
		sa, sb Shape
	}{{34, Shape{200, 100}, Shape{100, 20}}, {34, Shape{20, 10}, Shape{10, 4}}, {1, Shape{500, 500}, Shape{500, 34}}} {
		x, y := randomBatch(dev, 1, c.k, c.sa.Len()), randomBatch(dev, 2, 1, c.sb.Len())
		z := dev.Alloc(c.k, c.sa.Rows*c.sb.Cols)
		b.Run(fmt.Sprintf("k=%d/%dx%dx%d", c.k, c.sa.Rows, c.sa.Cols, c.sb.Cols), func(b *testing.B) {
			for b.Loop() {
				dev.GemmEach(false, false, 1, x, c.sa, y, c.sb, 0, z)
			}
			b.ReportMetric(2*float64(c.k*c.sa.Len()*c.sb.Cols)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

func BenchmarkElementwise(b *testing.B) {
	dev := NewHost()
	for _, size := range [][2]int{{34, 20000}, {34, 1000000}, {1, 20000}, {100000, 7}} {
		k, n := size[0], size[1]
		x, y, z, w := randomBatch(dev, 1, k, n), randomBatch(dev, 2, k, n), dev.Alloc(k, n), randomBatch(dev, 3, 1, n)
		out := make([]float64, k)
		dev.Fill(z, 0) // the first touch of fresh memory is slow
		for _, c := range []struct {
			name string
			// streams is how many values go to or come from memory for each of k n.
			streams int
			op      func()
		}{
			{"Copy", 2, func() { dev.Copy(z, x) }},
			{"Fill", 1, func() { dev.Fill(z, 1) }},
			{"Scale", 2, func() { dev.Lin(z, 2, x, 0, Batch{}) }},
			{"Add", 3, func() { dev.Lin(z, 1, x, 1, y) }},
			{"Lin", 3, func() { dev.Lin(z, 0.5, x, 0.25, y) }},
			{"Mul", 3, func() { dev.Mul(z, x, y) }},
			{"MulBroadcast", 2, func() { dev.Mul(z, x, w) }},
			{"Dot", 2, func() { dev.Dot(out, x, y) }},
			{"MaxAbs", 1, func() { dev.MaxAbs(out, x) }},
			{"Soft", 2, func() { dev.Soft(z, x, Batch{}, 0.5) }},
			{"SoftMask", 2, func() { dev.SoftMask(z, x, Batch{}, 0.5) }},
			{"Clamp", 3, func() { dev.Clamp(z, x, w, y) }},
			{"ClampMask", 3, func() { dev.ClampMask(z, x, w, y) }},
			{"Shrink", 2, func() { dev.Shrink(z, x, Batch{}, 0.5) }},
		} {
			b.Run(fmt.Sprintf("%s/%dx%d", c.name, k, n), func(b *testing.B) {
				for b.Loop() {
					c.op()
				}
				b.ReportMetric(8*float64(c.streams*k*n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
			})
		}
		x.Free()
		y.Free()
		z.Free()
		w.Free()
	}
}

func BenchmarkSparse(b *testing.B) {
	dev := NewHost()
	const k, rows, cols, perRow = 34, 5000, 20000, 40
	rng := rand.New(rand.NewPCG(1, 1))
	indptr, indices, values := []int{0}, []int{}, []float64{}
	for range rows {
		for range perRow {
			indices = append(indices, rng.IntN(cols))
			values = append(values, rng.NormFloat64())
		}
		indptr = append(indptr, len(indices))
	}
	m := dev.NewCSR(rows, cols, indptr, indices, values)
	idx := dev.NewIndex(rng.Perm(cols)[:rows])
	x, y := randomBatch(dev, 1, k, cols), dev.Alloc(k, rows)
	b.Run("MulCSR", func(b *testing.B) {
		for b.Loop() {
			dev.MulCSR(y, m, x)
		}
		b.ReportMetric(2*float64(k*rows*perRow)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
	})
	b.Run("Gather", func(b *testing.B) {
		for b.Loop() {
			dev.Gather(y, x, idx)
		}
		b.ReportMetric(16*float64(k*rows)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
	})
	b.Run("Scatter", func(b *testing.B) {
		for b.Loop() {
			dev.Scatter(x, y, idx)
		}
		b.ReportMetric(8*float64(k*(cols+2*rows))*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
	})
}

// What package mat gains: run it with SUREPIPE_BLAS=gonum too.
func BenchmarkMat(b *testing.B) {
	dev := NewHost()
	const n = 500
	x := randomBatch(dev, 1, n, n)
	a := mat.NewDense(n, n, x.ToHost())
	var gram mat.SymDense
	gram.SymOuterK(1, a)
	b.Run("Mul", func(b *testing.B) {
		var c mat.Dense
		for b.Loop() {
			c.Mul(a, a)
		}
		b.ReportMetric(2*n*n*n*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
	})
	b.Run("SVD", func(b *testing.B) {
		var svd mat.SVD
		for b.Loop() {
			svd.Factorize(a, mat.SVDThin)
		}
	})
	b.Run("EigenSym", func(b *testing.B) {
		var eig mat.EigenSym
		for b.Loop() {
			eig.Factorize(&gram, true)
		}
	})
	b.Run("Cholesky", func(b *testing.B) {
		var chol mat.Cholesky
		for b.Loop() {
			chol.Factorize(&gram)
		}
	})
	b.Run("QR", func(b *testing.B) {
		var qr mat.QR
		for b.Loop() {
			qr.Factorize(a)
		}
	})
}
