//go:build cuda

package cuda_test

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"surepipe/array/arraytest"
	"surepipe/cuda/emulator"
	"surepipe/hutch"
	"surepipe/internal/dataio"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/vjp"
)

// An imagingCase is a specification with data.
type imagingCase struct {
	name string
	setting
}

// specified loads a specification of arrays in memory.
func specified(t testing.TB, text string, arrays ...dataio.Array) problems.Data {
	t.Helper()
	dir := t.TempDir()
	if err := dataio.WriteNPZ(filepath.Join(dir, "d.npz"), arrays...); err != nil {
		t.Fatal(err)
	}
	s, err := problems.ParseSpec([]byte("data: d.npz\n"+text), filepath.Join(dir, "problem.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return must(t)(s.Load(problems.SpecFiles{FS: problems.Disk}))
}

// steps is an array of pieces with noise of standard deviation sigma.
func steps(sigma float64, shape ...int) dataio.Array {
	rng := rand.New(rand.NewPCG(5, 8))
	a := dataio.Array{Name: "y", Shape: shape}
	n := 1
	for _, m := range shape {
		n *= m
	}
	for i := range n {
		a.Data = append(a.Data, math.Round(math.Sin(float64(i)*5/float64(n)))+sigma*rng.NormFloat64())
	}
	return a
}

// imagings are small problems of every kind that has an image or a sequence behind an operator.
func imagings(t testing.TB) []imagingCase {
	const m, n = 8, 7
	tv := "terms:\n  - {operator: gradient, regularizer: {joint-l2: lambda}}\n"
	mask := dataio.Array{Name: "mask", Shape: []int{m, n}, Data: make([]float64, m*n)}
	samples := 0
	for i := range mask.Data {
		if i%3 != 1 {
			mask.Data[i] = 1
			samples++
		}
	}
	kernel := dataio.Array{Name: "h", Shape: []int{3, 3}, Data: []float64{1, 2, 1, 3, 6, 2, 1, 1, 1}}
	complexly := func(a dataio.Array) dataio.Array { a.Complex = true; return a }
	coils := complexly(steps(0.5, 2, m, n, 2))
	coils.Name = "S"
	named := func(text string, arrays ...dataio.Array) problems.Data { return specified(t, text, arrays...) }
	var all []imagingCase
	add := func(name, solver, derivative string, lambda float64, data problems.Data) {
		sigma2 := 0.04
		data.Sigma2 = &sigma2
		all = append(all, imagingCase{name, setting{"", data, problems.Hyper{Lambda: problems.Absolute(lambda)},
			solver, derivative, hutch.Exact}})
	}
	image := steps(0.2, m, n)
	add("tv2d", "dual", "implicit", 0.3, named("operator: identity\n"+tv, image))
	add("tv2d of channels", "dual", "implicit", 0.3, named("operator: identity\n"+tv, steps(0.2, 5, 6, 3)))
	add("anisotropic", "dual", "implicit", 0.3, named("operator: identity\nterms:\n  - {operator: {gradient: "+
		"{edge: periodic}}, regularizer: {l1: lambda}}\n", image))
	add("trend", "dual", "implicit", 1, named("operator: identity\nterms:\n  - {operator: trend, regularizer: "+
		"{l1: lambda}}\n", steps(0.2, 40)))
	add("ct", "admm", "implicit", 0.3, named("operator: {projection: {angles: 6, shape: [8, 7]}}\n"+tv,
		steps(0.2, 6, 9)))
	add("fan", "fista", "unrolled", 0.2, named("operator: {projection: {angles: 5, geometry: fan, source: 20, "+
		"detector: 9, shape: [8, 7]}}\nregularizer: {l1: lambda}", steps(0.2, 5, 11)))
	add("mri", "fista", "unrolled", 0.2, named("operator: {fourier: {mask: mask, centered: true}}\nregularizer: "+
		"{complex-l1: lambda}", mask, complexly(steps(0.2, samples, 2))))
	add("ct of wavelets", "fista", "implicit", 0.3,
		named("operator: {projection: {angles: 6, shape: [8, 7]}}\nsynthesis: {adjoint: {wavelet: {family: haar, "+
			"levels: 2}}}\nregularizer: {l1: {weight: lambda, unpenalized: averages}}", steps(0.2, 6, 9)))
	add("mri of wavelets", "fista", "unrolled", 0.2,
		named("operator: {fourier: {mask: mask}}\nsynthesis: {adjoint: {complex: {wavelet: {family: db2, levels: "+
			"1}}}}\nregularizer: {complex-l1: {weight: lambda, unpenalized: averages}}", mask,
			complexly(steps(0.2, samples, 2))))
	add("mri of a real image", "admm", "implicit", 0.1, named("operator: {fourier: {mask: mask, image: real}}\n"+tv,
		mask, complexly(steps(0.2, samples, 2))))
	add("coils", "admm", "implicit", 0.1, named("operator: {product: [{fourier: {mask: mask}}, {coils: "+
		"S}]}\nterms:\n  - {operator: {complex: gradient}, regularizer: {joint-l2: lambda}}\n", mask, coils,
		complexly(steps(0.2, 2, samples, 2))))
	for _, boundary := range []string{"circular", "zero-padded"} {
		add("deblur "+boundary, "admm", "implicit", 0.1,
			named("operator: {convolution: {kernel: h, boundary: "+boundary+"}}\n"+tv, image, kernel))
	}
	add("local low rank", "ista", "implicit", 1,
		named("operator: identity\nregularizer: {local-low-rank: {weight: lambda, patch: 4, stride: 2}}",
			steps(0.2, 3, m, n)))
	return all
}

// What lies behind an operator gives on a card what it gives on the host.
func TestImagesGiveTheHostsRisk(t *testing.T) {
	ctx := context.Background()
	devices := arraytest.Devices(t)
	for _, s := range imagings(t) {
		t.Run(s.name+s.setting.String(), func(t *testing.T) {
			options := vjp.Options{Tol: 1e-5, MaxIter: 300}
			want, err := s.estimate(ctx, devices[0], options, pipeline.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, dev := range devices[1:] {
				arraytest.NoLeak(t, dev)
				got, err := s.estimate(ctx, dev, options, pipeline.Options{})
				if err == nil {
					err = differs(got, want)
				}
				if err != nil {
					t.Errorf("%s: %v", dev.Name(), err)
				}
			}
		})
	}
}

// An iteration copies the numbers that it decides by, and no vector.
func TestIterationsOnImagesStayOnTheCard(t *testing.T) {
	for _, s := range imagings(t) {
		if s.name == "local low rank" {
			continue // which needs a single one
		}
		t.Run(s.name+s.setting.String(), func(t *testing.T) {
			s.derivative = "none"
			count := func(iterations int) (to, from, launches int64) {
				dev := openCard(t, 0)
				before := emulator.Read()
				problem, solver, sol := s.solve(t, dev, 1e-300, iterations)
				after := emulator.Read()
				if sol.Iterations != iterations {
					t.Errorf("%d iterations, expected %d", sol.Iterations, iterations)
				}
				sol.Release()
				solver.Release()
				problem.Release()
				if err := dev.Close(); err != nil {
					t.Error(err)
				}
				nothingHeld(t)
				to, from = copied(before, after)
				return to, from, after.Launches - before.Launches
			}
			const first, last = 30, 70
			to1, from1, launches1 := count(first)
			to2, from2, launches2 := count(last)
			to, from := (to2-to1)/(last-first), (from2-from1)/(last-first)
			t.Logf("an iteration: %d values to the card, %d from it, %d launches", to, from,
				(launches2-launches1)/(last-first))
			if max(to, from) > 8 {
				t.Errorf("an iteration copied %d values to the card and %d from it, expected at most 8", to, from)
			}
		})
	}
}

// What operators keep on the card, and borrow for a product, may be missing: see TestAnyCallMayFail.
func scanners(t testing.TB) []setting {
	mask := dataio.Array{Name: "mask", Shape: []int{3, 4}, Data: []float64{1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 1, 0}}
	coils := steps(0.5, 2, 3, 4, 2)
	coils.Name, coils.Complex = "S", true
	y := steps(0.2, 2, 6, 2)
	y.Complex = true
	all := []setting{
		{"", specified(t, "operator: {projection: {angles: 3, shape: [4, 3]}}\nsynthesis: {adjoint: {wavelet: "+
			"{family: haar, levels: 1}}}\nregularizer: {l1: lambda}", steps(0.2, 3, 4)), problems.Hyper{}, "fista",
			"unrolled", ""},
		{"", specified(t, "operator: {product: [{fourier: {mask: mask}}, {coils: S}]}\nregularizer: "+
			"{complex-l1: lambda}", mask, coils, y), problems.Hyper{}, "fista", "unrolled", ""},
		{"", specified(t, "operator: {convolution: {gaussian: 1, boundary: circular}}\nsynthesis: {adjoint: "+
			"dct}\nregularizer: {l1: lambda}\n", steps(0.2, 3, 4)), problems.Hyper{}, "fista", "implicit", ""},
	}
	for i := range all {
		sigma2 := 0.04
		all[i].data.Sigma2, all[i].hyper.Lambda = &sigma2, problems.Absolute(0.05)
	}
	return all
}
