package arrow_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"surepipe/array"
	"surepipe/internal/numerics/arrow"
)

// BenchmarkArrow is the time of the factorization, of the leverages and of 24 images, by size and rank.
func BenchmarkArrow(b *testing.B) {
	if err := array.UseNative(); err != nil {
		b.Log(err)
	}
	for _, size := range []struct {
		m, n, k int
		share   float64
	}{
		{1797, 64, 10, 0.5}, {1797, 64, 30, 0.5}, {1797, 64, 60, 0.5}, {625, 200, 20, 0.1}, {1000, 500, 8, 0.1},
	} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			c := random(size.m, size.n, size.k, size.share)
			v := make([]float64, 24*len(c.Row))
			for i := range v {
				v[i] = float64(i%3) - 1
			}
			ctx := context.Background()
			var made, images time.Duration
			for b.Loop() {
				begun := time.Now()
				a, err := arrow.New(ctx, c)
				if err != nil {
					b.Fatal(err)
				}
				made += time.Since(begun)
				begun = time.Now()
				_ = a.Images(ctx, v, v, 24)
				images += time.Since(begun)
				if _, err := a.Leverages(ctx); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(c.Order()), "order")
			b.ReportMetric(made.Seconds()/float64(b.N), "s/factor")
			b.ReportMetric(images.Seconds()/float64(b.N), "s/images")
		})
	}
}

// random is a point with a positive definite second derivative but for what does not change L R*.
func random(m, n, k int, share float64) arrow.Completion {
	rng := rand.New(rand.NewPCG(1, 1))
	c := arrow.Completion{Rows: m, Cols: n, K: k, Lambda: 1}
	for i := range m {
		for j := range n {
			if rng.Float64() < share {
				c.Row, c.Col = append(c.Row, int32(i)), append(c.Col, int32(j))
				c.Misfit = append(c.Misfit, 1e-3*rng.NormFloat64())
			}
		}
	}
	for range m * k {
		c.L = append(c.L, rng.NormFloat64())
	}
	for range n * k {
		c.R = append(c.R, rng.NormFloat64())
	}
	return c
}
