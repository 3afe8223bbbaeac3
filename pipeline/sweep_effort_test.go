package pipeline_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/pipeline"
	"surepipe/prox"
	"surepipe/vjp"
)

// effortKind is a sort of problem whose sweeps may stop short of certified solutions.
type effortKind struct {
	name string
	make func(t *testing.T, rng *rand.Rand, dev array.Device) curve // with max for y
}

// noisyCurve is the curve of a family with noise of size 1 on mu.
func noisyCurve(rng *rand.Rand, f pipeline.Family, mu []float64, top float64) curve {
	y := slices.Clone(mu)
	for i := range y {
		y[i] += rng.NormFloat64()
	}
	return curve{f, y, mu, top}
}

// allEstimated are all sorts, of which the first are quick.
var allEstimated = []effortKind{
	{"texture", pictures(grain, 2)},
	{"smooth image, anisotropic", pictures(ramp, 1)},
	{"image of blocks", pictures(blocks, 2)},
	{"smooth image", pictures(ramp, 2)},
	{"checkerboard", pictures(board, 2)},
	{"bright pixel", pictures(spot, 2)},
	{"image of blocks, anisotropic", pictures(blocks, 1)},
	{"blurred blocks", seen(blocks, 2, blurred)},
	{"smooth image, blurred", seen(ramp, 2, blurred)},
	{"blocks with missing pixels", seen(blocks, 2, masked)},
	{"smooth image with missing pixels, anisotropic", seen(ramp, 1, masked)},
	{"tomography of blocks", seen(blocks, 2, projected)},
	{"tomography of a smooth image, anisotropic", seen(ramp, 1, projected)},
}

// pictures are images of one of these sorts, with total variation.
func pictures(paint func(rng *rand.Rand, m, n int, dst []float64), planes int) func(*testing.T, *rand.Rand,
	array.Device) curve {
	return func(t *testing.T, rng *rand.Rand, dev array.Device) curve {
		m, n := 46+rng.IntN(12), 46+rng.IntN(12) // above the size at which a solution is settled exactly
		mu, contrast := make([]float64, m*n), math.Exp(3*rng.Float64())
		paint(rng, m, n, mu)
		for i := range mu {
			mu[i] *= contrast
		}
		k := imaging.NewGradient([]int{m, n}, nil, imaging.Reflecting)
		f := pipeline.Family{
			Problem: vjp.Problem{A: linops.Identity(m * n), K: k, Device: dev}, Solver: "dual",
			Settings: vjp.Options{Tol: 1e-6, MaxIter: 1000000, Sigma2: 1},
			Regularizer: func(w []float64) (prox.Prox, error) {
				if planes == 1 {
					return prox.NewL1(w[0]), nil
				}
				return prox.NewVectorialL2(m*n, planes, 1, w[0]), nil
			},
		}
		return noisyCurve(rng, f, mu, 6)
	}
}

// seen are images through an operator, with total variation of so many planes together.
func seen(paint func(rng *rand.Rand, m, n int, dst []float64), planes int,
	operator func(t *testing.T, rng *rand.Rand, n int) (a linops.Operator, column float64),
) func(*testing.T, *rand.Rand, array.Device) curve {
	return func(t *testing.T, rng *rand.Rand, dev array.Device) curve {
		const n = 48
		a, norm := operator(t, rng, n)
		image, scale := make([]float64, n*n), math.Exp(3*rng.Float64())/norm
		paint(rng, n, n, image)
		d, p := a.Dims()
		b, seen := dev.Alloc(1, p), dev.Alloc(1, d)
		defer array.Free(b, seen)
		dev.Upload(b, image)
		a.Forward(seen, b)
		mu := seen.ToHost()
		for i := range mu {
			mu[i] *= scale
		}
		f := pipeline.Family{
			Problem: vjp.Problem{A: a, Device: dev, K: imaging.NewGradient([]int{n, n}, nil, imaging.Reflecting)},
			Solver:  "interior-point", Settings: vjp.Options{Tol: 1e-4, MaxIter: 1000000, Sigma2: 1},
			Regularizer: func(w []float64) (prox.Prox, error) {
				if planes == 2 {
					return prox.NewVectorialL2(n*n, 2, 1, w[0]), nil
				}
				return prox.NewL1(w[0]), nil
			},
		}
		return noisyCurve(rng, f, mu, 6*norm)
	}
}

func blurred(t *testing.T, rng *rand.Rand, n int) (linops.Operator, float64) {
	kernel, width := mat.NewDense(9, 9, nil), 0.5+rng.Float64()
	kernel.Apply(func(i, j int, _ float64) float64 {
		return math.Exp(-float64((i-4)*(i-4)+(j-4)*(j-4)) / (2 * width * width))
	}, kernel)
	kernel.Scale(1/mat.Sum(kernel), kernel)
	a, err := imaging.NewConvolution2D(n, n, kernel, imaging.ZeroPadded)
	if err != nil {
		t.Fatal(err)
	}
	return a, mat.Norm(kernel, 2)
}

func masked(t *testing.T, rng *rand.Rand, n int) (linops.Operator, float64) {
	keep := rng.Perm(n * n)[:n*n*(50+rng.IntN(40))/100]
	slices.Sort(keep)
	a, err := linops.NewSelection(array.NewHost(), n*n, keep)
	if err != nil {
		t.Fatal(err)
	}
	return a, 1
}

func projected(t *testing.T, rng *rand.Rand, n int) (linops.Operator, float64) {
	angles := make([]float64, 24+rng.IntN(40))
	for i := range angles {
		angles[i] = 180 * float64(i) / float64(len(angles))
	}
	a, err := imaging.NewParallelBeam(n, n, angles, 3*n/2, 1, imaging.Axis{})
	if err != nil {
		t.Fatal(err)
	}
	return a, math.Sqrt(float64(len(angles)))
}

// blocks are rectangles, ramp is smooth, board has squares, grain a texture, spot a single bright pixel.
func blocks(rng *rand.Rand, m, n int, dst []float64) {
	for range 3 + rng.IntN(12) {
		i, j, h, w, v := rng.IntN(m), rng.IntN(n), 2+rng.IntN(m/2), 2+rng.IntN(n/2), rng.NormFloat64()
		for a := i; a < min(i+h, m); a++ {
			for b := j; b < min(j+w, n); b++ {
				dst[a*n+b] += v
			}
		}
	}
}

func ramp(rng *rand.Rand, m, n int, dst []float64) {
	p, q, r := rng.NormFloat64(), rng.NormFloat64(), 6*rng.Float64()
	for i := range dst {
		a, b := float64(i/n)/float64(m), float64(i%n)/float64(n)
		dst[i] = p*a + q*b + math.Sin(r*(a+b))
	}
}

func board(rng *rand.Rand, m, n int, dst []float64) {
	side := 1 + rng.IntN(12)
	for i := range dst {
		dst[i] = float64((i/n/side + i%n/side) % 2)
	}
}

func grain(rng *rand.Rand, m, n int, dst []float64) {
	blocks(rng, m, n, dst)
	for i := range dst {
		dst[i] += 0.3 * math.Sin(2*float64(i/n)) * math.Sin(3*float64(i%n))
	}
}

func spot(rng *rand.Rand, m, n int, dst []float64) { dst[rng.IntN(m*n)] = 10 }

var estimatedProblems = flag.Int("estimated", 5, "problems of TestEstimatedChangeHolds; the full study has 200")

// TestEstimatedChangeHolds: what points of a sweep say of the change of SURE yet to come is true of 99 in 100 of them,
// over images; and the sweep chooses a point that cannot be told from the choice among certified ones.
func TestEstimatedChangeHolds(t *testing.T) {
	problems := *estimatedProblems
	if testing.Short() {
		problems = min(problems, 5)
	}
	dev := array.NewHost()
	points, wrong, most := 0, 0, 0.0
	for i := range problems {
		rng := rand.New(rand.NewPCG(34, uint64(i)))
		kind := allEstimated[i%len(allEstimated)]
		t.Run(fmt.Sprintf("%s %d", kind.name, i), func(t *testing.T) {
			c := kind.make(t, rng, dev)
			grid := [][]float64{axis(0.02*c.max, 0.5*c.max, 4+rng.IntN(8))}
			o := pipeline.SweepOptions{Refine: -1, Estimate: true}
			o.Sigma2, o.Queries, o.Estimator = 1, 24, pipeline.Auto
			rough := sweepPoints(t, c.y, c.Family, grid, o)
			o.Estimate, c.Settings.Tol = false, 1e-3*c.Settings.Tol
			if c.Solver == "dual" {
				c.Solver = "interior-point" // dual steps take 1e5 iterations to be as accurate
			}
			exact := sweepPoints(t, c.y, c.Family, grid, o)
			for j, p := range rough[:len(grid[0])] {
				if p.Change == 0 {
					continue
				}
				if !exact[j].Trusted() {
					continue
				}
				if !p.Trusted() {
					t.Errorf("point %d is not trusted: %v", j, p.Warnings())
				}
				points++
				off := math.Abs(p.SURE - exact[j].SURE)
				if most = max(most, off/p.Change); off > p.Change {
					wrong++
					t.Logf(kind.name+": point %d, weight %.3g: SURE %.6g, exact %.6g; %.2g off, said %.2g; %d iterations", j, p.Weights[0],
						p.SURE, exact[j].SURE, off, p.Change, p.Iterations)
				}
			}
			chosen, best := rough[len(rough)-1], exact[len(exact)-1]
			if chosen.Change > 0 {
				t.Errorf("the minimizer has an estimated change of %g, want a certified one", chosen.Change)
			}
			at := chosen.Choice.Chosen
			if !exact[at].Trusted() {
				t.Logf("point %d of the certified ones is marked: %v", at, exact[at].Warnings())
			} else if at != best.Choice.Chosen && !slices.Contains(best.Choice.Alike, at) {
				t.Errorf("chose point %d, certified ones %d, alike %v", at, best.Choice.Chosen, best.Choice.Alike)
			}
		})
	}
	t.Logf("%d estimated points, %d off by more than they say, the most by a factor of %.2g", points, wrong, most)
	if points < problems/2 || 100*wrong > points {
		t.Errorf("%d of %d points are off by more than they say, want at most 1 in 100 of at least %d", wrong, points,
			problems/2)
	}
}
