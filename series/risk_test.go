package series

import (
	"context"
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

var draws = flag.Int("draws", 8, "draws of the noise in the study of SURE; 200 for the numbers of docs/mri.md")

// SURE of a voxel, averaged over a region, is the squared error there: four regions of noise that grows by three. Not
// so where thresholds jump, weights depend on the data (rank), or sigma is estimated: what that costs is logged.
func TestSUREIsUnbiasedOverARegion(t *testing.T) {
	shape := Shape{Extent{12, 8, 4}, 20, false}
	truth, _, sd := simulate(shape, 0.5, 7)
	const regions = 4
	for _, c := range []struct {
		name   string
		o      Options
		biased bool // by more than its error, as docs/mri.md says
		sigma  bool // estimated
	}{
		{"optimal at the edge", Options{Patch: Extent{4, 4, 2}, Thresholds: ByEdge}, false, false},
		{"soft at the edge", Options{Patch: Extent{4, 4, 2}, Shrinkage: "soft", Thresholds: ByEdge}, false, false},
		{"default: patch and multiple by SURE", Options{}, false, false},
		{"weights 1/(1 + rank)", Options{Patch: Extent{4, 4, 2}, Thresholds: ByEdge, Average: InverseRank}, true, false},
		{"hard", Options{Patch: Extent{4, 4, 2}, Shrinkage: "hard"}, true, false},
		{"threshold of each patch by SURE", Options{Patch: Extent{4, 4, 2}, Thresholds: BySURE}, true, false},
		{"default, sigma estimated", Options{}, true, true},
	} {
		var sum, square, losses [regions]float64
		for draw := range *draws {
			rng := rand.New(rand.NewPCG(uint64(draw), 5))
			y := make([]float64, len(truth))
			for i, v := range truth {
				y[i] = v + sd[i/20]*rng.NormFloat64()
			}
			sigma := sd
			if c.sigma {
				n, err := EstimateNoise(context.Background(), Memory{shape, y}, DefaultPatch(shape.Image, 20), nil)
				if err != nil {
					t.Fatal(err)
				}
				sigma = n.Sigma
			}
			_, all := run(t, shape, y, sigma, c.o)
			var off [regions]float64
			for z, s := range all {
				for i, v := range s.Risk {
					region := i % 12 / 3
					off[region] += v
					for k := range 20 {
						e := s.Clean[i*20+k] - truth[(z*96+i)*20+k]
						off[region] -= e * e
						losses[region] += e * e
					}
				}
			}
			for r, v := range off {
				sum[r] += v
				square[r] += v * v
			}
		}
		n := float64(*draws)
		for r := range regions {
			mean := sum[r] / n
			bar := math.Sqrt(max(square[r]/n-mean*mean, 0) / (n - 1))
			loss := losses[r] / n
			t.Logf("%-36s region %d: squared error %7.2f, SURE less that %6.2f ± %.2f (%+.1f%%)", c.name, r+1, loss, mean, bar, 100*mean/loss)
			if !c.biased && math.Abs(mean) > 4*bar {
				t.Errorf("%s, region %d: SURE is off by %g on average, with the standard error %g", c.name, r+1, mean, bar)
			}
		}
	}
}

// The map of degrees of freedom sums up to the divergence, which is computed here from the derivative of the singular
// value decomposition along every entry of every patch.
func TestTheMapOfDegreesOfFreedomSumsUpToTheDivergence(t *testing.T) {
	for _, c := range []struct {
		image, patch Extent
		volumes      int
	}{{Extent{6, 5, 3}, Extent{3, 3, 2}, 6}, {Extent{6, 5, 3}, Extent{2, 2, 2}, 11}} {
		for _, h := range Shrinkages {
			shape := Shape{c.image, c.volumes, false}
			n := c.volumes
			_, y, sd := simulate(shape, 0.4, 3)
			s, all := run(t, shape, y, sd, Options{Patch: c.patch, Stride: Extent{1, 2, 1}, Shrinkage: h.Name})
			var sums, weights, rows [90]float64
			for _, z := range starts(c.image[2], c.patch[2], 1) {
				for _, yy := range starts(c.image[1], c.patch[1], 2) {
					for _, x := range starts(c.image[0], c.patch[0], 1) {
						var at []int
						m := 0
						for dz := range c.patch[2] {
							for dy := range c.patch[1] {
								for dx := range c.patch[0] {
									at = append(at, ((z+dz)*c.image[1]+yy+dy)*c.image[0]+x+dx)
									w := 1.0
									for axis, d := range [3]int{dx, dy, dz} {
										r := (float64(d) - float64(c.patch[axis]-1)/2) / width(c.patch[axis])
										w *= math.Exp(-r * r / 2)
									}
									weights[at[m]] += w
									rows[m] = w
									m++
								}
							}
						}
						for k, df := range patchDF(y, sd, at, n, h, s.Multiple) {
							sums[at[k]] += rows[k] * df
						}
					}
				}
			}
			divergence, total := 0.0, 0.0
			for i := range sd {
				divergence += sums[i] / weights[i]
				total += all[i/30].DF[i%30]
			}
			if math.Abs(total-divergence) > 1e-10*divergence || math.Abs(s.DF-total) > 1e-12*total {
				t.Errorf("%v, %s: the map sums up to %.14g, the summary says %.14g, the divergence is %.14g", c, h.Name, total, s.DF, divergence)
			}
		}
	}
}

// patchDF is the derivative of a patch's estimate with respect to each of its rows.
func patchDF(y, sd []float64, at []int, n int, h Shrinkage, multiple float64) []float64 {
	m := len(at)
	q, x := mat.NewVecDense(m, nil), mat.NewDense(m, n, nil)
	for k, i := range at {
		q.SetVec(k, 1/sd[i])
		for j := range n {
			x.Set(k, j, y[i*n+j]/sd[i])
		}
	}
	q.ScaleVec(1/mat.Norm(q, 2), q)
	var part mat.VecDense
	part.MulVec(x.T(), q)
	x.RankOne(x, -1, q, &part)
	var svd mat.SVD
	svd.Factorize(x, mat.SVDFull)
	var u, v mat.Dense
	svd.UTo(&u)
	svd.VTo(&v)
	s := append(svd.Values(nil), make([]float64, max(m, n))...)
	f, slope := make([]float64, len(s)), make([]float64, len(s))
	longer := max(m-1, n)
	beta, unit := float64(min(m-1, n))/float64(longer), math.Sqrt(float64(longer))
	for i, value := range s {
		f[i], slope[i] = h.Value(value/unit, multiple*h.Edge(beta), beta)
		f[i] *= unit
	}
	ratio := func(a, b float64) float64 {
		if b == 0 {
			return 0
		}
		return a / b
	}
	out := make([]float64, m)
	for k := range m {
		left := make([]float64, m) // U* (I - q q*) e_k
		for i := range m {
			for l := range m {
				e := -q.AtVec(l) * q.AtVec(k)
				if l == k {
					e++
				}
				left[i] += u.At(l, i) * e
			}
		}
		for j := range n {
			out[k] += q.AtVec(k) * q.AtVec(k)
			for a := range m {
				for b := range n {
					d := left[a] * v.At(j, b)
					switch {
					case a == b:
						d *= slope[a]
					default: // the entries (a, b) and (b, a), those beyond the matrix 0
						other := 0.0
						if b < m && a < n {
							other = left[b] * v.At(j, a)
						}
						if b >= m || a >= n {
							d *= ratio(f[a]+f[b], s[a]+s[b])
							break
						}
						d = (d+other)/2*ratio(f[a]-f[b], s[a]-s[b]) + (d-other)/2*ratio(f[a]+f[b], s[a]+s[b])
					}
					out[k] += u.At(k, a) * d * v.At(j, b)
				}
			}
		}
	}
	return out
}
