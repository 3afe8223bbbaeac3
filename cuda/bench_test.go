//go:build cuda

package cuda_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"surepipe/array"
	"surepipe/cuda"
	"surepipe/hutch"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/prox/lowrank"
	"surepipe/space"
	"surepipe/vjp"
)

// The benchmarks are for a card of one's own (see bench/bench.sh): each says how many
// bytes it has to move, how many operations to do, and what share of this card's
// measured ceilings that makes. Sizes that the card has no memory for are left out.

// ceilings are what the card does at best: values read and written by its own kernels, and
// multiplications and additions by cuBLAS.
var ceilings struct {
	once         sync.Once
	bytes, flops float64 // a second
}

func card(b *testing.B) *cuda.Device {
	b.Helper()
	dev, err := cuda.Open(0, 0)
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() {
		if err := dev.Err(); err != nil {
			b.Error(err)
		}
		dev.Close()
	})
	return dev
}

// room skips what needs more than its share of the card's memory.
func room(b *testing.B, dev *cuda.Device, values int) {
	b.Helper()
	available, _ := dev.Available()
	if need := 8 * int64(values); need > available*3/4 {
		b.Skipf("needs %d bytes, the card has %d", need, available)
	}
}

func random(dev array.Device, k, n int) array.Batch {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	row := make([]float64, n)
	b := dev.Alloc(k, n)
	for i := range k {
		for j := range row {
			row[j] = rng.NormFloat64()
		}
		dev.Upload(b.Rows(i, i+1), row)
	}
	return b
}

// seconds times op until its n calls are done on the card.
func seconds(b *testing.B, dev array.Device, op func()) float64 {
	op()
	if err := dev.Sync(); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for range b.N {
		op()
	}
	if err := dev.Sync(); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	return b.Elapsed().Seconds() / float64(b.N)
}

// report states what a call of op moved and computed.
func report(b *testing.B, s, bytes, flops float64) {
	share := 0.0
	if bytes > 0 {
		b.ReportMetric(bytes/s/1e9, "GB/s")
		if ceilings.bytes > 0 {
			share = bytes / s / ceilings.bytes
		}
	}
	if flops > 0 {
		b.ReportMetric(flops/s/1e9, "GFLOP/s")
		if ceilings.flops > 0 {
			share = max(share, flops/s/ceilings.flops)
		}
	}
	if share > 0 {
		b.ReportMetric(100*share, "%ceiling")
	}
}

// BenchmarkCeilings comes first: the others refer to it.
func BenchmarkCeilings(b *testing.B) {
	dev := card(b)
	available, _ := dev.Available()
	n := int(min(1<<26, available/8/8))
	x, y, z := dev.Alloc(1, n), dev.Alloc(1, n), dev.Alloc(1, n)
	dev.Fill(x, 1)
	dev.Fill(y, 2)
	b.Run("triad", func(b *testing.B) {
		s := seconds(b, dev, func() { dev.Lin(z, 0.5, x, 0.25, y) })
		ceilings.bytes = max(ceilings.bytes, 24*float64(n)/s)
		report(b, s, 24*float64(n), 0)
	})
	side := 4096
	for side > 64 && 3*side*side > n {
		side /= 2
	}
	b.Run(fmt.Sprintf("gemm/%d", side), func(b *testing.B) {
		square := func(v array.Batch) array.Batch { return v.Cols(0, side*side).Reshape(side, side) }
		s := seconds(b, dev, func() {
			dev.GemmEach(false, false, 1, square(x).Reshape(1, side*side), array.Shape{Rows: side, Cols: side},
				square(y).Reshape(1, side*side), array.Shape{Rows: side, Cols: side}, 0,
				square(z).Reshape(1, side*side))
		})
		flops := 2 * float64(side) * float64(side) * float64(side)
		ceilings.flops = max(ceilings.flops, flops/s)
		report(b, s, 0, flops)
	})
	host := make([]float64, n/4)
	b.Run("upload", func(b *testing.B) {
		report(b, seconds(b, dev, func() { dev.Upload(x.Cols(0, len(host)), host) }), 8*float64(len(host)), 0)
	})
	b.Run("download", func(b *testing.B) {
		report(b, seconds(b, dev, func() { dev.Download(host, x.Cols(0, len(host))) }), 8*float64(len(host)), 0)
	})
	b.Run("launch", func(b *testing.B) { seconds(b, dev, func() { dev.Fill(x.Cols(0, 1), 0) }) })
	b.Run("number", func(b *testing.B) {
		var out [1]float64
		seconds(b, dev, func() { dev.Dot(out[:], x.Cols(0, 1), x.Cols(0, 1)) })
	})
}

func BenchmarkArray(b *testing.B) {
	dev := card(b)
	for _, size := range [][2]int{{34, 2000}, {34, 20000}, {34, 1000000}, {1, 20000000}} {
		k, n := size[0], size[1]
		b.Run(fmt.Sprintf("%dx%d", k, n), func(b *testing.B) {
			room(b, dev, 4*k*n)
			x, y, z, w := dev.Alloc(k, n), dev.Alloc(k, n), dev.Alloc(k, n), dev.Alloc(1, n)
			defer func() {
				for _, v := range []array.Batch{x, y, z, w} {
					v.Free()
				}
			}()
			dev.Fill(x, 1)
			dev.Fill(y, 1)
			dev.Fill(w, 1)
			out, coefficients := make([]float64, k), make([]float64, k)
			for _, op := range []struct {
				name    string
				streams int
				do      func()
			}{
				{"Copy", 2, func() { dev.Copy(z, x) }},
				{"Fill", 1, func() { dev.Fill(z, 1) }},
				{"Lin", 3, func() { dev.Lin(z, 0.5, x, 0.25, y) }},
				{"LinEach", 3, func() { dev.LinEach(z, coefficients, x, coefficients, y) }},
				{"Mul", 3, func() { dev.Mul(z, x, y) }},
				{"MulBroadcast", 2, func() { dev.Mul(z, x, w) }},
				{"Dot", 2, func() { dev.Dot(out, x, y) }},
				{"MaxAbs", 1, func() { dev.MaxAbs(out, x) }},
				{"Soft", 2, func() { dev.Soft(z, x, array.Batch{}, 0.5) }},
				{"SoftMask", 2, func() { dev.SoftMask(z, x, w, 0.5) }},
				{"Shrink", 2, func() { dev.Shrink(z, x, w, 0.5) }},
			} {
				b.Run(op.name, func(b *testing.B) {
					report(b, seconds(b, dev, op.do), 8*float64(op.streams*k*n), 0)
				})
			}
		})
	}
	idx := dev.NewIndex(rand.New(rand.NewPCG(2, 2)).Perm(20000)[:2000])
	defer idx.Free()
	x, y := dev.Alloc(34, 20000), dev.Alloc(34, 2000)
	dev.Fill(x, 1)
	b.Run("Gather/34x2000", func(b *testing.B) {
		report(b, seconds(b, dev, func() { dev.Gather(y, x, idx) }), 16*34*2000, 0)
	})
	b.Run("Scatter/34x20000", func(b *testing.B) {
		report(b, seconds(b, dev, func() { dev.Scatter(x, y, idx) }), 8*34*(20000+2*2000), 0)
	})
	x.Free()
	y.Free()
}

func BenchmarkProducts(b *testing.B) {
	dev := card(b)
	for _, size := range [][2]int{{250, 500}, {2500, 5000}, {25000, 50000}} {
		d, p := size[0], size[1]
		b.Run(fmt.Sprintf("%dx%d", d, p), func(b *testing.B) {
			room(b, dev, d*p+102*(d+p))
			m := dev.Alloc(d, p)
			defer m.Free()
			dev.Fill(m, 0.5)
			for _, k := range []int{1, 2, 34, 96} {
				x, y := dev.Alloc(k, p), dev.Alloc(k, d)
				dev.Fill(x, 1)
				dev.Fill(y, 1)
				bytes, flops := 8*float64(d*p+k*(d+p)), 2*float64(k)*float64(d)*float64(p)
				b.Run(fmt.Sprintf("Forward/k=%d", k), func(b *testing.B) {
					report(b, seconds(b, dev, func() { dev.Gemm(false, true, 1, x, m, 0, y) }), bytes, flops)
				})
				b.Run(fmt.Sprintf("Adjoint/k=%d", k), func(b *testing.B) {
					report(b, seconds(b, dev, func() { dev.Gemm(false, false, 1, y, m, 0, x) }), bytes, flops)
				})
				x.Free()
				y.Free()
			}
		})
	}
	for _, c := range []struct{ k, rows, cols, rank int }{{34, 100, 50, 10}, {34, 500, 250, 30},
		{34, 2000, 1000, 100}} {
		b.Run(fmt.Sprintf("each/%dx%dx%dx%d", c.k, c.rows, c.cols, c.rank), func(b *testing.B) {
			room(b, dev, c.k*(c.rows*c.cols+c.rows*c.rank))
			x, v, z := dev.Alloc(c.k, c.rows*c.cols), dev.Alloc(1, c.cols*c.rank), dev.Alloc(c.k, c.rows*c.rank)
			dev.Fill(x, 1)
			dev.Fill(v, 1)
			s := seconds(b, dev, func() {
				dev.GemmEach(false, false, 1, x, array.Shape{Rows: c.rows, Cols: c.cols}, v,
					array.Shape{Rows: c.cols, Cols: c.rank}, 0, z)
			})
			report(b, s, 8*float64(x.Bytes()/8+z.Bytes()/8), 2*float64(c.k)*float64(c.rows*c.cols)*float64(c.rank))
			for _, batch := range []array.Batch{x, v, z} {
				batch.Free()
			}
		})
	}
}

func BenchmarkProx(b *testing.B) {
	dev := card(b)
	for _, s := range []array.Shape{{Rows: 100, Cols: 50}, {Rows: 500, Cols: 250}, {Rows: 2000, Cols: 1000}} {
		b.Run(fmt.Sprintf("Nuclear/%dx%d", s.Rows, s.Cols), func(b *testing.B) {
			const k = 34
			room(b, dev, 3*k*s.Len())
			x, z := random(dev, 1, s.Len()), random(dev, k, s.Len())
			defer x.Free()
			defer z.Free()
			image := dev.Alloc(k, s.Len())
			defer image.Free()
			r, out := lowrank.NewNuclear(s, 1), dev.Alloc(1, s.Len())
			defer out.Free()
			// The singular values end at about the sum of the roots.
			t := 0.7 * (math.Sqrt(float64(s.Rows)) + math.Sqrt(float64(s.Cols)))
			b.Run("Linearize", func(b *testing.B) {
				seconds(b, dev, func() {
					j, err := r.Linearize(out, x, t)
					if err != nil {
						b.Fatal(err)
					}
					j.Release()
				})
			})
			b.Run("Eval", func(b *testing.B) {
				seconds(b, dev, func() {
					if err := r.Eval(out, x, t); err != nil {
						b.Fatal(err)
					}
				})
			})
			j, err := r.Linearize(out, x, t)
			if err != nil {
				b.Fatal(err)
			}
			defer j.Release()
			rank := min(s.Rows, s.Cols)
			if f := j.Model().Space.Form(); f.Kind == space.FixedRank {
				rank = f.Rank
			}
			b.Run(fmt.Sprintf("Derivative/rank=%d", rank), func(b *testing.B) {
				flops := 2 * float64(k*rank) * float64(4*s.Len()+2*(s.Rows+s.Cols)*min(s.Rows, s.Cols))
				report(b, seconds(b, dev, func() { j.Apply(image, z) }), 16*float64(k*s.Len()), flops)
			})
		})
	}
}

func BenchmarkHutch(b *testing.B) {
	dev := card(b)
	for _, d := range []int{2500, 100000, 1000000} {
		b.Run(fmt.Sprintf("Orthonormalize/34x%d", d), func(b *testing.B) {
			room(b, dev, 5*34*d)
			y, q := dev.Alloc(34, d), dev.Alloc(34, d)
			defer y.Free()
			defer q.Free()
			hutch.Rademacher(y, 1, 0, 0)
			s := seconds(b, dev, func() {
				if _, err := hutch.Orthonormalize(q, y); err != nil {
					b.Fatal(err)
				}
			})
			// Two Gram matrices and two products, at least.
			report(b, s, 0, 8*34*34*float64(d))
		})
	}
}

// BenchmarkPaper runs the rows of the paper's tables, on the card and, where
// SUREPIPE_BENCH_HOST is set, on the host beside it.
func BenchmarkPaper(b *testing.B) {
	ctx := context.Background()
	for _, row := range []struct {
		problem    string
		rows, cols int
	}{
		{"lasso", 250, 500}, {"lasso", 2500, 5000}, {"lasso", 25000, 50000},
		{"matrix-completion", 20, 10}, {"matrix-completion", 200, 100}, {"matrix-completion", 2000, 1000},
		{"robust-pca", 10, 10}, {"robust-pca", 100, 100}, {"robust-pca", 1000, 1000},
	} {
		b.Run(fmt.Sprintf("%s/%dx%d", row.problem, row.rows, row.cols), func(b *testing.B) {
			card := card(b)
			// X, or a few batches of probes of a matrix's size.
			values := 200 * row.rows * row.cols
			if row.problem == "lasso" {
				values = row.rows * row.cols
			}
			room(b, card, values)
			var data problems.Data
			var err error
			switch row.problem {
			case "lasso":
				data, err = problems.GenerateLasso(row.rows, row.cols, 1)
			case "matrix-completion":
				data, err = problems.GenerateMatrixCompletion(row.rows, row.cols, 1)
			default:
				data, err = problems.GenerateRobustPCA(row.rows, row.cols, 1)
			}
			if err != nil {
				b.Fatal(err)
			}
			devices := []array.Device{card}
			if os.Getenv("SUREPIPE_BENCH_HOST") != "" {
				devices = append(devices, array.NewHost())
			}
			for _, dev := range devices {
				b.Run(dev.Name(), func(b *testing.B) {
					s := setting{name: row.problem, data: data, solver: "fista", derivative: "auto"}
					p, release, err := s.open(ctx, dev, vjp.Options{}, pipeline.Options{})
					if err != nil {
						b.Fatal(err)
					}
					defer release()
					var risk pipeline.Risk
					seconds(b, dev, func() {
						if risk, err = p.Estimate(ctx, data.Y); err != nil {
							b.Fatal(err)
						}
					})
					loss := 0.0
					for i, v := range risk.MuHat {
						loss += (v - data.Mu[i]) * (v - data.Mu[i])
					}
					d := float64(len(data.Y))
					b.ReportMetric(risk.SURE/d, "SURE/d")
					b.ReportMetric(risk.StdErr/d, "SE/d")
					b.ReportMetric(loss/d, "loss/d")
					b.ReportMetric(risk.Solve.Seconds()*1e3, "ms-solve")
					b.ReportMetric(risk.Divergence.Seconds()*1e3, "ms-divergence")
				})
			}
		})
	}
}
