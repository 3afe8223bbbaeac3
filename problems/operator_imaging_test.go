package problems_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/linops"
	"surepipe/problems"
	"surepipe/vjp"
)

// scanned loads a specification of data in memory.
func scanned(t *testing.T, text string, arrays ...dataio.Array) (problems.Data, error) {
	t.Helper()
	dir := t.TempDir()
	if err := dataio.WriteNPZ(dir+"/d.npz", arrays...); err != nil {
		t.Fatal(err)
	}
	s, err := problems.ParseSpec([]byte(text), dir+"/problem.yaml")
	if err != nil {
		return problems.Data{}, err
	}
	return s.Load(problems.SpecFiles{FS: problems.Disk})
}

// jacobian is D mu_hat at y by probes at all unit vectors, and by central differences.
func jacobian(t *testing.T, dev array.Device, p *problems.Problem, y []float64) (implicit, differences []float64) {
	t.Helper()
	d := len(y)
	s, err := vjp.NewSolver(context.Background(), p.DefaultSolver, p.Solve(), vjp.Options{Tol: 1e-13, MaxIter: 100000})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	at := dev.Alloc(1, d)
	defer at.Free()
	fit := func(y []float64) []float64 {
		dev.Upload(at, y)
		sol, err := s.Solve(context.Background(), at)
		if err != nil {
			t.Fatal(err)
		}
		defer sol.Release()
		return sol.MuHat.ToHost()
	}
	const h = 1e-5
	for j := range d {
		plus, minus := append([]float64(nil), y...), append([]float64(nil), y...)
		plus[j] += h
		minus[j] -= h
		a, b := fit(plus), fit(minus)
		for i := range a {
			differences = append(differences, (a[i]-b[i])/(2*h))
		}
	}
	dev.Upload(at, y)
	sol, err := s.Solve(context.Background(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer sol.Release()
	probes, images := dev.Alloc(d, d), dev.Alloc(d, d)
	defer probes.Free()
	defer images.Free()
	dev.Fill(probes, 0)
	dev.Fill(probes.Diagonal(), 1)
	if err := sol.Linearization.VJP(context.Background(), images, probes); err != nil {
		t.Fatal(err)
	}
	return images.ToHost(), differences
}

func normals(n int, seed uint64) []float64 {
	rng := rand.New(rand.NewPCG(seed, 9))
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// scans are small problems of every scanner.
func scans() map[string]struct {
	text   string
	arrays []dataio.Array
} {
	mask := dataio.Array{Name: "mask", Shape: []int{4, 4}, Data: []float64{1, 1, 1, 1, 0, 1, 0, 0, 1, 1, 0, 1, 0, 0,
		0, 0}}
	few := mask
	few.Data = []float64{1, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0}
	haar := "wavelet: {family: haar, levels: 1}"
	return map[string]struct {
		text   string
		arrays []dataio.Array
	}{
		"parallel beam": {
			"operator: {projection: {angles: 5}}\nsynthesis: {adjoint: {" + haar +
				"}}\nregularizer: {l1: {weight: 0.8, unpenalized: averages}}",
			[]dataio.Array{{Name: "y", Shape: []int{5, 4}, Data: normals(20, 1)}},
		},
		"fan beam": {
			"operator: {projection: {angles: [0, 100, 200], detectors: 6, geometry: fan, source: 9, detector: 4, " +
				"spacing: 1.3, shape: [4, 4]}}\nregularizer: {l1: 0.9}",
			[]dataio.Array{{Name: "y", Shape: []int{3, 6}, Data: normals(18, 2)}},
		},
		"complex image": {
			"operator: {fourier: {mask: mask, centered: true}}\nsynthesis: {adjoint: {complex: {" + haar +
				"}}}\nregularizer: {complex-l1: {weight: 0.3, unpenalized: averages}}",
			[]dataio.Array{mask, {Name: "y", Shape: []int{8, 2}, Data: normals(16, 3), Complex: true}},
		},
		"real image": {
			"operator: {fourier: {mask: mask, image: real}}\nsynthesis: {adjoint: {" + haar +
				"}}\nregularizer: {l1: 0.2}",
			[]dataio.Array{mask, {Name: "y", Shape: []int{8, 2}, Data: normals(16, 4), Complex: true}},
		},
		"coils": {
			"operator: {product: [{fourier: {mask: mask}}, {coils: S}]}\nregularizer: {complex-l1: 0.4}",
			[]dataio.Array{
				few, {Name: "S", Shape: []int{2, 4, 4, 2}, Data: normals(64, 5), Complex: true},
				{Name: "y", Shape: []int{2, 5, 2}, Data: normals(20, 6), Complex: true},
			},
		},
	}
}

func TestScannersHaveTheDerivativeOfTheirSolution(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	for name, c := range scans() {
		data, err := scanned(t, "data: d.npz\n"+c.text, c.arrays...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p, err := problems.New("", dev, data, problems.Hyper{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, want := jacobian(t, dev, p, data.Y)
		worst, trace := 0.0, 0.0
		for i, v := range got {
			worst = max(worst, math.Abs(v-want[i]))
			if i%(p.D+1) == 0 {
				trace += v
			}
		}
		if !(worst < 1e-6) || trace < 1 {
			t.Errorf("%s: the derivative differs by %.2g from central differences, its trace is %.3g", name, worst,
				trace)
		}
		if p.MuComplex != strings.Contains(c.text, "fourier") {
			t.Errorf("%s: mu_hat is complex: %t", name, p.MuComplex)
		}
		p.Release()
	}
}

// A mask picks complex samples from whole images as coils have them.
func TestComplexSamplesAreWhereTheMaskIs(t *testing.T) {
	whole := dataio.Array{Name: "k", Shape: []int{2, 2, 2, 2}, Complex: true}
	for i := range 16 {
		whole.Data = append(whole.Data, float64(i))
	}
	mask := dataio.Array{Name: "mask", Shape: []int{2, 2}, Data: []float64{0, 1, 1, 0}}
	data, err := scanned(t, "data: {file: d.npz, y: {file: d.npz, array: k, where: mask}}\noperator: {fourier: "+
		"{mask: mask}}\nregularizer: {complex-l1: 1}", whole, mask)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(data.YShape, data.Y, data.Complex); got != "[2 2 2] [2 3 4 5 10 11 12 13] true" {
		t.Error(got)
	}
}

func TestScannersRefuseWhatDoesNotFit(t *testing.T) {
	mask := dataio.Array{Name: "mask", Shape: []int{2, 2}, Data: []float64{0, 1, 1, 0}}
	y := dataio.Array{Name: "y", Shape: []int{2, 2}, Data: make([]float64, 4), Complex: true}
	sinogram := dataio.Array{Name: "y", Shape: []int{3, 4}, Data: make([]float64, 12)}
	for _, c := range []struct {
		text, want string
		arrays     []dataio.Array
	}{
		{"operator: identity\nregularizer: {l1: 1}", "operator's output is real", []dataio.Array{y}},
		{"operator: {fourier: {mask: y}}\nregularizer: {l1: 1}", "mask is y", []dataio.Array{y}},
		{"operator: {fourier: {mask: mask}}\nregularizer: {complex-l1: 1}", "2 complex samples",
			[]dataio.Array{mask, sinogram, {Name: "y2", Shape: []int{1}, Data: []float64{1}}}},
		{"operator: {projection: {angles: 4}}\nregularizer: {l1: 1}",
			"4 angles with 4 detectors has 16 values, expected 12", []dataio.Array{sinogram}},
		{"operator: {projection: {angles: 3, source: 1, detector: 1}}\nregularizer: {l1: 1}",
			"belong to geometry: fan", []dataio.Array{sinogram}},
		{"operator: {projection: {angles: 3, geometry: fan, source: 1, detector: 1}}\nregularizer: {l1: 1}",
			"the source is at a distance of 1", []dataio.Array{sinogram}},
		{"operator: {projection: {angles: 3}}\nregularizer: {complex-l1: 1}", "complex-l1 of b of shape (4, 4)",
			[]dataio.Array{sinogram}},
		{"operator: {each-channel: identity}\nregularizer: {l1: 1}", "each-channel acts on an array of shape (9,)",
			[]dataio.Array{{Name: "y", Shape: []int{9}, Data: make([]float64, 9)}}},
		{"operator: {convolution: {gaussian: 1, boundary: circular}}\nregularizer: {l1: 1}",
			"each-channel: {convolution: ...}", []dataio.Array{{Name: "y", Shape: []int{3, 4, 3},
				Data: make([]float64, 36)}}},
		{"operator: {complex: identity}\nregularizer: {l1: 1}", "complex acts on an array of shape (3, 4)",
			[]dataio.Array{sinogram}},
		{"operator: {product: [{fourier: {mask: mask}}, {coils: mask}]}\nregularizer: {l1: 1}",
			"expected complex sensitivities (c, m, n)", []dataio.Array{mask, y}},
	} {
		if strings.Contains(c.text, "fourier: {mask: mask}") && c.arrays[1].Name == "y" && !c.arrays[1].Complex {
			c.arrays[1].Shape, c.arrays[1].Data = []int{3}, make([]float64, 3)
		}
		dev := array.NewHost()
		data, err := scanned(t, "data: d.npz\n"+c.text, c.arrays...)
		if err == nil {
			_, err = problems.New("", dev, data, problems.Hyper{})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n%v, want %q", c.text, err, c.want)
		}
		dev.Close()
	}
}

func TestPhantomsFitTheirSpecifications(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	for _, g := range problems.Generators() {
		if !g.Scanner {
			continue
		}
		arrays, err := g.Draw([]int{16, 16}[:len(g.Sizes)], 3)
		if err != nil {
			t.Fatal(err)
		}
		text, err := problems.SpecExample(g.Name)
		if err != nil {
			t.Fatal(err)
		}
		text = strings.NewReplacer("angles: 90", "angles: 16", g.Name+".npz", "d.npz").Replace(text)
		data, err := scanned(t, text, arrays...)
		if err != nil {
			t.Fatal(err)
		}
		p, err := problems.New("", dev, data, problems.Hyper{})
		if err != nil {
			t.Fatal(err)
		}
		// mu is the operator of the specification, of the image.
		image := arrays[len(arrays)-1]
		b, mu := dev.Alloc(1, len(image.Data)), dev.Alloc(1, p.D)
		dev.Upload(b, image.Data)
		w := p.Signal
		coefficients := dev.Alloc(1, p.P)
		w.Adjoint(coefficients, b)
		p.Operator.Forward(mu, coefficients)
		for i, v := range mu.ToHost() {
			if math.Abs(v-data.Mu[i]) > 1e-10 {
				t.Fatalf("%s: mu[%d] is %g, the operator gives %g", g.Name, i, data.Mu[i], v)
			}
		}
		if p.SignalComplex != (g.Name == "mri") || !linops.StructureOf(w).Columns.Known {
			t.Errorf("%s: the signal is complex: %t", g.Name, p.SignalComplex)
		}
		b.Free()
		mu.Free()
		coefficients.Free()
		p.Release()
	}
	if _, err := problems.GenerateCT(3, 4, 0); err == nil || !strings.Contains(err.Error(), "at least 8 x 8") {
		t.Error(err)
	}
}
