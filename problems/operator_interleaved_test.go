package problems_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/internal/dataio"
	"surepipe/problems"
	"surepipe/vjp"
)

// solved is the estimate and the divergence of a specification of data.
func solved(t *testing.T, text string, y dataio.Array) (mu []float64, divergence float64) {
	t.Helper()
	data, err := scanned(t, text, y)
	if err != nil {
		t.Fatal(err)
	}
	dev := array.NewHost()
	defer dev.Close()
	p, err := problems.New("", dev, data, problems.Hyper{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	if p.Signal == nil || !slices.Equal(p.SignalShape, y.Shape) {
		t.Errorf("%s: the signal has shape %v, expected that of y, %v", text, p.SignalShape, y.Shape)
	}
	s, err := vjp.NewSolver(context.Background(), p.DefaultSolver, p.Solve(), vjp.Options{Tol: 1e-11, MaxIter: 100000})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	d := len(data.Y)
	at, eye, images := dev.Alloc(1, d), dev.Alloc(d, d), dev.Alloc(d, d)
	dev.Upload(at, data.Y)
	sol, err := s.Solve(context.Background(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer sol.Release()
	dev.Fill(eye, 0)
	dev.Fill(eye.Diagonal(), 1)
	if err := sol.Linearization.Apply(context.Background(), images, eye, hutch.Accuracy{}, nil); err != nil {
		t.Fatal(err)
	}
	for i, v := range images.ToHost() {
		if i%(d+1) == 0 {
			divergence += v
		}
	}
	return sol.MuHat.ToHost(), divergence
}

// An image in colours is deblurred in one estimate as its channels are one by one: by wavelets, and by
// total variation.
func TestEachChannelIsAnImage(t *testing.T) {
	const m, n, k = 4, 6, 3
	y := dataio.Array{Name: "y", Shape: []int{m, n, k}, Data: normals(m*n*k, 5)}
	blur, haar := "convolution: {gaussian: 0.6, boundary: circular}", "adjoint: {wavelet: {family: haar, levels: 1}}"
	tv := "\nterms: [{operator: gradient, regularizer: {joint-l2: 0.1}}]"
	for _, c := range []struct{ together, apart string }{
		{"operator: {each-channel: {" + blur + "}}\nsynthesis: {each-channel: {" + haar +
			"}}\nregularizer: {l1: {weight: 0.2, unpenalized: averages}}",
			"operator: {" + blur + "}\nsynthesis: {" + haar +
				"}\nregularizer: {l1: {weight: 0.2, unpenalized: averages}}"},
		{"operator: {each-channel: {" + blur + "}}" + tv, "operator: {" + blur + "}" + tv},
	} {
		got, divergence := solved(t, "data: d.npz\n"+c.together, y)
		sum := 0.0
		for channel := range k {
			one := dataio.Array{Name: "y", Shape: []int{m, n}}
			for i := channel; i < len(y.Data); i += k {
				one.Data = append(one.Data, y.Data[i])
			}
			want, div := solved(t, "data: d.npz\n"+c.apart, one)
			sum += div
			for i, v := range want {
				if math.Abs(got[i*k+channel]-v) > 1e-6 {
					t.Fatalf("%s: channel %d has %g at %d, alone %g", c.together, channel, got[i*k+channel], i, v)
				}
			}
		}
		if math.Abs(divergence-sum) > 1e-5 {
			t.Errorf("%s: the divergence is %g, those of the channels sum to %g", c.together, divergence, sum)
		}
		if slices.Max(got) == slices.Min(got) || sum < 4 || sum > m*n*k-4 {
			t.Errorf("%s: the divergence is %g of %d: nothing to see", c.together, sum, m*n*k)
		}
	}
}
