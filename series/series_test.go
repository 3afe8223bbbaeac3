package series

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// simulate draws a series of low local rank: three courses with smooth weights, with noise whose standard deviation
// grows along x from sigma to 3 sigma.
func simulate(shape Shape, sigma float64, seed uint64) (truth, y, sd []float64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	e, course := shape.Image, shape.course()
	courses := make([]float64, 3*course)
	for i := range courses {
		courses[i] = rng.NormFloat64()
	}
	truth, sd = make([]float64, e.voxels()*course), make([]float64, e.voxels())
	y = make([]float64, len(truth))
	for i := range sd {
		x, yy, z := float64(i%e[0])/float64(e[0]), float64(i/e[0]%e[1])/float64(e[1]), float64(i/(e[0]*e[1]))
		sd[i] = sigma * (1 + 2*x)
		for k, w := range [3]float64{4 + x, 2 * math.Sin(3*yy+x), math.Cos(2*x - z/3)} {
			for t := range course {
				truth[i*course+t] += w * courses[k*course+t]
			}
		}
		for t := range course {
			y[i*course+t] = truth[i*course+t] + sd[i]*rng.NormFloat64()
		}
	}
	return truth, y, sd
}

// run denoises a series in memory.
func run(t *testing.T, shape Shape, y, sigma []float64, o Options) (Summary, []Slice) {
	t.Helper()
	var all []Slice
	s, err := Denoise(context.Background(), Memory{shape, y}, sigma, o, func(s Slice) error {
		all = append(all, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, all
}

func clean(all []Slice) (x []float64) {
	for _, s := range all {
		x = append(x, s.Clean...)
	}
	return x
}

func TestDegreesOfFreedomAreTheDivergence(t *testing.T) {
	for _, c := range []struct {
		shape  Shape
		patch  Extent
		stride Extent
	}{
		{Shape{Extent{4, 3, 2}, 5, false}, Extent{3, 2, 2}, Extent{}},        // more voxels than volumes
		{Shape{Extent{4, 3, 2}, 9, false}, Extent{2, 2, 1}, Extent{1, 2, 1}}, // fewer
		{Shape{Extent{3, 3, 2}, 4, true}, Extent{2, 3, 2}, Extent{}},         // complex
		{Shape{Extent{3, 3, 2}, 7, true}, Extent{2, 2, 1}, Extent{}},         // complex, fewer
		{Shape{Extent{3, 4, 1}, 4, false}, Extent{2, 2, 1}, Extent{2, 2, 1}}, // equal sides
		{Shape{Extent{5, 1, 1}, 3, false}, Extent{4, 1, 1}, Extent{}},        // one slice, one row
		{Shape{Extent{4, 4, 1}, 6, false}, Extent{3, 3, 1}, Extent{2, 2, 1}}, // a last patch nearer than the stride
	} {
		for _, h := range Shrinkages {
			t.Run(fmt.Sprint(c.shape, c.patch, h.Name), func(t *testing.T) {
				_, y, sd := simulate(c.shape, 0.4, 3)
				o := Options{Patch: c.patch, Stride: c.stride, Shrinkage: h.Name, Thresholds: ByEdge}
				s, all := run(t, c.shape, y, sd, o)
				sum, trace, course := 0.0, 0.0, c.shape.course()
				const step = 1e-5
				for i := range y {
					at := y[i]
					y[i] = at + step
					_, up := run(t, c.shape, y, sd, o)
					y[i] = at - step
					_, down := run(t, c.shape, y, sd, o)
					y[i] = at
					slice, k := i/c.shape.slice(), i%c.shape.slice()
					d := (up[slice].Clean[k] - down[slice].Clean[k]) / (2 * step)
					trace += d
					sum += d
					if (i+1)%course == 0 { // the voxel is complete
						if df := all[slice].DF[k/course]; math.Abs(df-sum) > 1e-6*(1+math.Abs(sum)) {
							t.Errorf("voxel %d: %.9g degrees of freedom, central differences %.9g", i/course, df, sum)
						}
						sum = 0
					}
				}
				if math.Abs(s.DF-trace) > 1e-6*(1+trace) {
					t.Errorf("%.9g degrees of freedom, central differences %.9g", s.DF, trace)
				}
			})
		}
	}
}

func TestDegreesOfFreedomOfAPatchSumUpToItsTrace(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, copies := range []int{1, 2} {
		for _, size := range [][2]int{{12, 5}, {5, 12}, {7, 7}} {
			for _, h := range Shrinkages {
				var w work
				m, n := size[0], size[1]
				shape := Shape{Extent{m, 1, 1}, n, copies == 2}
				y := make([]float64, m*shape.course())
				for i := range y {
					y[i] = rng.NormFloat64() + 3
				}
				win := &slab{from: Memory{shape, y}, slices: map[int][]float64{0: y}}
				if !w.gather(win, 0, 0, 0, shape.Image, nil) {
					t.Fatal("no patch")
				}
				if err := w.decompose(true, 0); err != nil {
					t.Fatal(err)
				}
				w.shrink(h, h.Edge(w.beta()))
				trace, _ := w.divergence()
				w.estimate()
				sum := 0.0
				for _, v := range w.rows[:m] {
					sum += v
				}
				if math.Abs(sum-trace) > 1e-10*trace || trace == 0 {
					t.Errorf("%d copies of %d x %d, %s: rows sum up to %.15g, the trace is %.15g", copies, m, n, h.Name, sum, trace)
				}
			}
		}
	}
}

func TestNoiseThatVariesByAFactorOfThree(t *testing.T) {
	shape := Shape{Extent{24, 20, 12}, 40, false}
	_, y, sd := simulate(shape, 5, 2)
	noise, err := EstimateNoise(context.Background(), Memory{shape, y}, Extent{4, 4, 4}, nil)
	if err != nil {
		t.Fatal(err)
	}
	mean, worst := 0.0, 0.0
	for i, s := range noise.Sigma {
		r := s/sd[i] - 1
		mean += r / float64(len(sd))
		if x := i % 24; x >= 3 && x < 21 { // a smooth map is flat at the borders
			worst = max(worst, math.Abs(r))
		}
	}
	t.Logf("mean error %.2f%%, largest inside %.2f%%", 100*mean, 100*worst)
	if math.Abs(mean) > 0.03 || worst > 0.08 {
		t.Errorf("sigma is off by %.3g on average, and by up to %.3g inside", mean, worst)
	}
}

func TestABetterEstimateThanTheData(t *testing.T) {
	for _, complexValues := range []bool{false, true} {
		shape := Shape{Extent{12, 12, 6}, 20, complexValues}
		truth, y, sd := simulate(shape, 1, 4)
		before := distance(y, truth)
		for _, o := range []Options{{}, {Average: Uniform}, {Average: Gaussian}, {Average: InverseRisk}, {Stride: Extent{2, 2, 2}},
			{Shrinkage: "soft", Thresholds: BySURE}, {Shrinkage: "optimal", Thresholds: BySeriesSURE}, {Shrinkage: "hard"}} {
			s, all := run(t, shape, y, sd, o)
			after := distance(clean(all), truth)
			t.Logf("complex %v %+v: %.4g of %.4g, SURE %.4g +- %.4g, df %.4g, rank %.3g, removed %.3g +- %.3g",
				complexValues, o, after, before, s.SURE, s.SUREStdErr, s.DF, s.Rank, s.Removed, s.RemovedStdErr)
			if after > before/4 {
				t.Errorf("%+v: squared error %g, of the data %g", o, after, before)
			}
		}
	}
}

func distance(a, b []float64) (sum float64) {
	for i, v := range a {
		sum += (v - b[i]) * (v - b[i])
	}
	return sum
}

func TestVoxelsOutsideOfTheMaskDoNotCount(t *testing.T) {
	shape := Shape{Extent{8, 8, 3}, 10, false}
	_, y, sd := simulate(shape, 1, 4)
	mask := make([]bool, len(sd))
	for i := range mask {
		mask[i] = i%8 < 5
		if !mask[i] {
			y[i*10] = math.NaN()
			sd[i] = 0
		}
	}
	s, all := run(t, shape, y, sd, Options{Mask: mask})
	if s.Voxels != 5*8*3 || math.IsNaN(s.SURE) {
		t.Errorf("%d voxels, SURE %g", s.Voxels, s.SURE)
	}
	if !math.IsNaN(all[0].DF[7]) || math.IsNaN(all[0].DF[4]) || all[1].Clean[7*10+1] != y[(64+7)*10+1] {
		t.Errorf("maps outside of the mask: %g, %g", all[0].DF[7], all[0].DF[4])
	}
	mask = nil
	_, err := Denoise(context.Background(), Memory{shape, y}, sd, Options{}, nil)
	if err == nil || !strings.Contains(err.Error(), "(5, 0, 0)") {
		t.Errorf("a NaN without a mask: %v", err)
	}
}

func TestADesignIsKept(t *testing.T) {
	for _, complexValues := range []bool{false, true} {
		shape := Shape{Extent{6, 5, 3}, 9, complexValues}
		_, y, sd := simulate(shape, 1, 4)
		design := []float64{}
		for k := range 9 {
			design = append(design, 1, math.Sin(float64(k)))
		}
		mask := make([]bool, len(sd))
		for i := range mask {
			mask[i] = i%6 != 5
		}
		o := Options{Patch: Extent{3, 3, 2}, Mask: mask, Keep: design, Shrinkage: "soft", Thresholds: ByEdge}
		s, all := run(t, shape, y, sd, o)
		x, parts, course := clean(all), shape.Parts(), shape.course()
		for i := range sd {
			for part := range parts {
				for column := range 2 {
					sum, scale := 0.0, 0.0
					for k := range 9 {
						sum += design[2*k+column] * (x[i*course+k*parts+part] - y[i*course+k*parts+part])
						scale += math.Abs(y[i*course+k*parts+part])
					}
					if math.Abs(sum) > 1e-12*scale {
						t.Fatalf("complex %v, voxel %d: column %d of the design has changed by %g", complexValues, i, column, sum)
					}
				}
			}
		}
		trace, sum := 0.0, 0.0
		const step = 1e-5
		for i := range y {
			at := y[i]
			y[i] = at + step
			_, up := run(t, shape, y, sd, o)
			y[i] = at - step
			_, down := run(t, shape, y, sd, o)
			y[i] = at
			slice, k := i/shape.slice(), i%shape.slice()
			if d := (up[slice].Clean[k] - down[slice].Clean[k]) / (2 * step); mask[i/course] {
				trace += d
			}
		}
		for _, slice := range all {
			for _, v := range slice.DF {
				if !math.IsNaN(v) {
					sum += v
				}
			}
		}
		if math.Abs(s.DF-trace) > 1e-6*trace || math.Abs(sum-s.DF) > 1e-10*sum || s.Values != 5*5*3*course {
			t.Errorf("%g degrees of freedom of %d values, central differences %g, the map %g", s.DF, s.Values, trace, sum)
		}
		sure := s.DF * 2
		for i, v := range y {
			if mask[i/course] {
				sure += math.Pow((v-x[i])/sd[i/course], 2) - 1
			}
		}
		_, all = run(t, shape, y, sd, o)
		scaled := 0.0
		for z, slice := range all {
			for i, v := range slice.Risk {
				if !math.IsNaN(v) {
					scaled += v / math.Pow(sd[z*30+i], 2)
				}
			}
		}
		if math.Abs(scaled-sure) > 1e-9*math.Abs(sure) {
			t.Errorf("SURE %g, from the estimate %g", scaled, sure)
		}
	}
	for name, design := range map[string][]float64{"columns of": make([]float64, 7), "depends": {1, 2, 1, 2, 1, 2, 1, 2}} {
		shape := Shape{Extent{3, 3, 1}, 4, false}
		if name != "depends" {
			shape.Volumes = 5
		}
		_, y, sd := simulate(shape, 1, 4)
		_, err := Denoise(context.Background(), Memory{shape, y}, sd, Options{Keep: design}, nil)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, expected %q", err, name)
		}
	}
}

func TestACancelledRunEnds(t *testing.T) {
	shape := Shape{Extent{40, 40, 10}, 60, false}
	_, y, sd := simulate(shape, 1, 4)
	ctx, cancel := context.WithCancelCause(context.Background())
	enough := errors.New("enough")
	_, err := Denoise(ctx, Memory{shape, y}, sd, Options{Patch: Extent{5, 5, 5}}, func(Slice) error { cancel(enough); return nil })
	if !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
}

// Means and standard deviations of simulated magnitudes of one coil and of several give back the signal and the sigma,
// where there is no signal, some, and much.
func TestMagnitudesOfCoils(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, coils := range []int{1, 4, 16} {
		m := NewMagnitude(coils)
		var means []float64
		variance := 0.0
		for _, nu := range []float64{0, 2, 6, 40} {
			const n = 40000
			sum, square := 0.0, 0.0
			for range n {
				v2 := 0.0
				for range 2 * coils { // the signal is shared among the coils and their parts
					z := nu/math.Sqrt(2*float64(coils)) + 2*rng.NormFloat64()
					v2 += z * z
				}
				sum += math.Sqrt(v2)
				square += v2
			}
			mean := sum / n
			means = append(means, mean)
			variance += (square/n - mean*mean) / 4
			if got := m.Unbias(mean, 2); math.Abs(got-nu) > 0.05 && nu > 0 || nu == 0 && got > 1 {
				t.Errorf("%d coils: the signal is %g, expected %g", coils, got, nu)
			}
		}
		if got := m.Sigma(means, math.Sqrt(variance)); math.Abs(got-2) > 0.03 {
			t.Errorf("%d coils: sigma is %g, expected 2", coils, got)
		}
	}
	// One coil is Rice's distribution: sqrt(pi/2) exp(-x) ((1 + 2 x) I_0(x) + 2 x I_1(x)), x = theta^2/4; at x = 1.
	const i0, i1 = 1.2660658777520082, 0.5651591039924851
	want := math.Sqrt(math.Pi/2) * math.Exp(-1) * (3*i0 + 2*i1)
	if got := NewMagnitude(1).mean(2); math.Abs(got-want) > 1e-12*want {
		t.Errorf("mean %v, expected %v", got, want)
	}
}
