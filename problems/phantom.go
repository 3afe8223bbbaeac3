package problems

import (
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/internal/lists"
	"surepipe/linops/imaging"
	"surepipe/problems/spec"
)

// sheppLogan is the phantom of Shepp and Logan (1974) with the contrasts of Toft (1996), n x n: the
// density, half axes, centre and angle in degrees of ellipses in [-1, 1] x [-1, 1].
func sheppLogan(n int) []float64 {
	ellipses := [][6]float64{
		{1, 0.69, 0.92, 0, 0, 0},
		{-0.8, 0.6624, 0.8740, 0, -0.0184, 0},
		{-0.2, 0.11, 0.31, 0.22, 0, -18},
		{-0.2, 0.16, 0.41, -0.22, 0, 18},
		{0.1, 0.21, 0.25, 0, 0.35, 0},
		{0.1, 0.046, 0.046, 0, 0.1, 0},
		{0.1, 0.046, 0.046, 0, -0.1, 0},
		{0.1, 0.046, 0.023, -0.08, -0.605, 0},
		{0.1, 0.023, 0.023, 0, -0.606, 0},
		{0.1, 0.023, 0.046, 0.06, -0.605, 0},
	}
	image := make([]float64, n*n)
	for i := range image {
		x := (2*float64(i%n) + 1 - float64(n)) / float64(n)
		y := (float64(n) - 1 - 2*float64(i/n)) / float64(n)
		for _, e := range ellipses {
			s, c := math.Sincos(e[5] * math.Pi / 180)
			u, v := c*(x-e[3])+s*(y-e[4]), c*(y-e[4])-s*(x-e[3])
			if u*u/(e[1]*e[1])+v*v/(e[2]*e[2]) <= 1 {
				image[i] += e[0]
			}
		}
	}
	return image
}

func checkPhantom(n, least int) error {
	if n < least {
		return fmt.Errorf("a phantom of %d x %d pixels, expected at least %d x %d", n, n, least, least)
	}
	return nil
}

// GenerateCT draws a sinogram of the Shepp-Logan phantom, n x n pixels, with n detectors at the given
// number of angles in 180 degrees. The variance of the noise is (max mu / 100)^2. The arrays are y,
// mu, sigma2 and image.
func GenerateCT(angles, n int, seed uint64) ([]dataio.Array, error) {
	if err := checkPhantom(n, 8); err != nil {
		return nil, err
	}
	degrees := spec.Degrees(angles, false)
	a, err := imaging.NewParallelBeam(n, n, degrees, n, 1, imaging.Axis{})
	if err != nil {
		return nil, trim(err)
	}
	image := sheppLogan(n)
	dev := array.NewHost()
	defer dev.Close()
	mu := spec.ImageOf(dev, a, image)
	sigma := lists.MaxAbs(mu) / 100
	sigma2 := sigma * sigma
	shape := []int{angles, n}
	return []dataio.Array{
		{Name: "y", Shape: shape, Data: noisy(mu, sigma2, stream(seed, streamNoise))},
		{Name: "mu", Shape: shape, Data: mu},
		{Name: "sigma2", Data: []float64{sigma2}},
		{Name: spec.TrueSignal, Shape: []int{n, n}, Data: image},
	}, nil
}

// GenerateMRI draws samples of the Fourier transform of the Shepp-Logan phantom, n x n pixels, with a
// smooth phase. Whole lines are sampled: the middle eighth, and others at random, 40% in all. The
// variance of the noise of either part is 0.0025. The arrays are y, mu, mask, sigma2 and image.
func GenerateMRI(n int, seed uint64) ([]dataio.Array, error) {
	if err := checkPhantom(n, 8); err != nil {
		return nil, err
	}
	const sigma2 = 0.0025
	image := make([]float64, 2*n*n)
	for i, v := range sheppLogan(n) {
		x, y := float64(i%n)/float64(n)-0.5, float64(i/n)/float64(n)-0.5
		s, c := math.Sincos(0.5 + x - 2*y*y)
		image[2*i], image[2*i+1] = v*c, v*s
	}
	lines := make([]bool, n)
	middle := max(n/8, 1)
	for i := range middle {
		lines[(n-middle)/2+i] = true
	}
	want := max(2*n/5, middle)
	for _, i := range choose(n, n, seed) {
		if middle < want && !lines[i] {
			lines[i] = true
			middle++
		}
	}
	mask := dataio.Array{Name: "mask", Shape: []int{n, n}, Data: make([]float64, n*n)}
	var places []int
	for i := range mask.Data {
		if lines[i/n] {
			mask.Data[i], places = 1, append(places, i)
		}
	}
	a, err := imaging.NewFourier(n, n, places, imaging.FourierLayout{Complex: true, Centered: true})
	if err != nil {
		return nil, trim(err)
	}
	dev := array.NewHost()
	defer dev.Close()
	mu := spec.ImageOf(dev, a, image)
	shape := []int{len(places), 2}
	return []dataio.Array{
		{Name: "y", Shape: shape, Data: noisy(mu, sigma2, stream(seed, streamNoise)), Complex: true},
		{Name: "mu", Shape: shape, Data: mu, Complex: true},
		mask,
		{Name: "sigma2", Data: []float64{sigma2}},
		{Name: spec.TrueSignal, Shape: []int{n, n, 2}, Data: image, Complex: true},
	}, nil
}
