package hutch_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/hutch"
	"surepipe/internal/lists"
)

func squaredNorm(x []float64) (sum float64) {
	for _, v := range x {
		sum += v * v
	}
	return sum
}

// Squared norms are kept without bias and to sqrt(2/s), of dense vectors and of sparse ones, and
// those of differences as well as those of vectors.
func TestProjectionKeepsDistances(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const d, draws = 2000, 600
		p := hutch.NewProjection(dev, d)
		defer p.Free()
		rng := rand.New(rand.NewPCG(1, 2))
		base := make([]float64, d)
		for i := range base {
			base[i] = 1e6 * rng.NormFloat64()
		}
		from := p.Vector(dev.Put(slices.Clone(base), 1, d))
		for _, nonzeros := range []int{3, 50, d} {
			var ratios []float64
			for range draws {
				x := slices.Clone(base)
				norm2 := 0.0
				for range nonzeros {
					i, v := rng.IntN(d), rng.NormFloat64()
					norm2 += (x[i] + v - base[i]) * (x[i] + v - base[i])
					norm2 -= (x[i] - base[i]) * (x[i] - base[i])
					x[i] += v
				}
				s := p.Vector(dev.Put(x, 1, d))
				for i := range s {
					s[i] -= from[i]
				}
				ratios = append(ratios, squaredNorm(s)/norm2)
			}
			want := math.Sqrt(2.0 / hutch.ProjectionSize)
			mean, sd := stat.MeanStdDev(ratios, nil)
			if math.Abs(mean-1) > 5*want/math.Sqrt(draws) || sd > 1.25*want {
				t.Errorf("%d nonzeros: ||Sx||^2 / ||x||^2 is %.4f +- %.4f, expected 1 +- %.4f", nonzeros, mean, sd,
					want)
			}
		}
	})
}

// The sum over the probes is one map of all images together, whatever the batches.
func TestProjectionOfImages(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const d, draws, k, s = 40, 300, hutch.ProjectionProbes, hutch.ProjectionSize
		p := hutch.NewProjection(dev, d)
		defer p.Free()
		rng := rand.New(rand.NewPCG(3, 4))
		var ratios []float64
		for draw := range draws {
			// Images of one rank, along a vector with two entries: the hardest.
			x := make([]float64, k*d)
			a, b := rng.IntN(d), rng.IntN(d)
			for j := range k {
				x[j*d+a] += rng.NormFloat64()
				x[j*d+b] += x[j*d+a]
			}
			batch := dev.Put(x, k, d)
			rows := make([]float64, k*s)
			p.Images(rows, 0, batch)
			if draw == 0 {
				parts := make([]float64, k*s)
				for first := 0; first < k; first += 5 {
					n := min(5, k-first)
					p.Images(parts[first*s:(first+n)*s], first, batch.Rows(first, first+n))
				}
				if !slices.Equal(parts, rows) {
					t.Error("the bits depend on the batch")
				}
			}
			sum := make([]float64, s)
			for i, v := range rows {
				sum[i%s] += v
			}
			ratios = append(ratios, squaredNorm(sum)/squaredNorm(x))
		}
		want := math.Sqrt(2.0 / s)
		if mean, sd := stat.MeanStdDev(ratios, nil); math.Abs(mean-1) > 5*want/math.Sqrt(draws) || sd > 1.3*want {
			t.Errorf("||Sx||^2 / ||x||^2 is %.4f +- %.4f, expected 1 +- %.4f", mean, sd, want)
		}
	})
}

// The maps of a matrix's columns are those that images take, whatever blocks of its rows come, and so is their sum.
func TestMappedColumns(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const d, m, s = 9000, 3, hutch.ProjectionSize
		k := hutch.CommonProbes(d)
		p := hutch.NewProjection(dev, d)
		defer p.Free()
		v := p.Mapped(5, k)
		defer v.Free()
		rng := rand.New(rand.NewPCG(5, 6))
		signs, x := dev.Alloc(k, d), lists.Make(d*m, func(int) float64 { return rng.NormFloat64() })
		defer signs.Free()
		hutch.Rademacher(signs, 5, 0, 0)
		if !slices.Equal(signs.ToHost(), v.ToHost()) {
			t.Error("the vectors are not the probes")
		}
		sums := make([]float64, k*s*m)
		for first := 0; first < d; first += 1000 {
			v.Add(sums, first, m, x[first*m:(first+1000)*m])
		}
		for col := range m {
			column := make([]float64, 0, k*d)
			for i := range k * d {
				column = append(column, x[i%d*m+col])
			}
			images, batch := make([]float64, k*s), dev.Put(column, k, d)
			p.Images(images, 0, batch)
			total := v.Sum(batch)
			batch.Free()
			for i := range images {
				total[i%s] -= images[i]
			}
			if off := floats.Norm(total, math.Inf(1)); off > 1e-10 {
				t.Errorf("column %d: the sum of the maps is off by %g", col, off)
			}
			for i, want := range images {
				if got := sums[i*m+col]; math.Abs(got-want) > 1e-11 {
					t.Fatalf("column %d, number %d: %g, expected %g", col, i, got, want)
				}
			}
		}
		short := hutch.NewProjection(dev, 4000)
		defer short.Free()
		maps := short.Mapped(5, hutch.CommonProbes(4000))
		defer maps.Free()
		if maps.Add != nil {
			t.Error("maps that are longer than the columns")
		}
	})
}
