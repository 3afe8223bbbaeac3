package problems_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/linops/imaging"
	"surepipe/problems"
	"surepipe/problems/spec"
)

// sinogram is that of two blobs, with its angles in degrees, over a turn of so many degrees.
func sinogram(t *testing.T, turn float64, angles, detectors int, axis imaging.Axis) (y, degrees []float64) {
	t.Helper()
	const n = 48
	dev := array.NewHost()
	image := dev.Alloc(1, n*n)
	x := make([]float64, n*n)
	for i := range x {
		r, c := float64(i/n), float64(i%n)
		x[i] = math.Exp(-(r-18)*(r-18)/20-(c-27)*(c-27)/60) + 0.6*math.Exp(-(r-30)*(r-30)/12-(c-17)*(c-17)/9)
	}
	dev.Upload(image, x)
	for i := range angles {
		degrees = append(degrees, turn*float64(i)/float64(angles))
	}
	a, err := imaging.NewParallelBeam(n, n, degrees, detectors, 1, axis)
	if err != nil {
		t.Fatal(err)
	}
	z := dev.Alloc(1, angles*detectors)
	a.Forward(z, image)
	return z.ToHost(), degrees
}

// The axis of rotation is found within its error bar: by the centers of mass over half a turn, by opposite
// projections over a whole one, also where the axis is near an end of the detectors and half of the object is seen.
func TestFindCenter(t *testing.T) {
	for _, c := range []struct {
		name                    string
		turn, after             float64
		angles, detectors, draw int
	}{
		{"half a turn", 180, 0.37, 60, 70, 60},
		{"half a turn, far from the middle", 180, -7.8, 60, 81, 60},
		{"a whole turn", 360, 0.37, 80, 70, 60},
		{"half of the object", 360, 14.2, 80, 42, 60},
	} {
		mu, degrees := sinogram(t, c.turn, c.angles, c.detectors, imaging.Axis{Detector: c.after})
		const sigma = 0.1
		sum, square, bars := 0.0, 0.0, 0.0
		for k := range c.draw {
			rng := rand.New(rand.NewPCG(uint64(k), 3))
			y := make([]float64, len(mu))
			for i := range y {
				y[i] = mu[i] + sigma*rng.NormFloat64()
			}
			found, err := spec.FindCenter(y, degrees, c.detectors)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			off := found.Value - (float64(c.detectors-1)/2 + c.after)
			sum, square, bars = sum+off, square+off*off, bars+found.StdErr*found.StdErr
		}
		n := float64(c.draw)
		rms, bar := math.Sqrt(square/n), math.Sqrt(bars/n)
		if rms > 0.1 || math.Abs(sum/n) > 4*bar/math.Sqrt(n)+0.005 || rms > 1.4*bar+0.003 || bar > 1.6*rms {
			t.Errorf("%s: off by %.4f on average, root mean square %.4f, error bar %.4f", c.name, sum/n, rms, bar)
		}
	}
	cut, degrees := sinogram(t, 180, 40, 24, imaging.Axis{})
	if found, err := spec.FindCenter(cut, degrees, 24); err == nil ||
		!strings.Contains(err.Error(), "do not end within the detectors") {
		t.Errorf("projections that are cut off over half a turn: %+v, %v", found, err)
	}
}

// Projections by the radon function of scikit-image 0.19 are those of its convention, within what its
// interpolation differs; taken around the middle they are not. The axis is also found from them.
func TestProjectionsOfScikitImage(t *testing.T) {
	set, err := dataio.OpenNPZ("testdata/radon.npz")
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	read := func(name string) dataio.Array {
		a, err := set.Floats(name)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	image, theta := read("image"), read("theta")
	dev := array.NewHost()
	for name, detector := range map[string]float64{"circle": 12, "square": 17} {
		y := read(name)
		off := func(center string) (relative float64, p *problems.Problem) {
			t.Helper()
			data, err := scanned(t, "data: d.npz\noperator: {projection: {angles: theta, shape: [24, 24]"+center+"}}\nregularizer: {squared-l2: 1}\nsigma2: 1\n",
				dataio.Array{Name: "y", Shape: y.Shape, Data: y.Data}, theta)
			if err != nil {
				t.Fatal(err)
			}
			if p, err = problems.New("", dev, data, problems.Hyper{}); err != nil {
				t.Fatal(err)
			}
			b, z := dev.Put(image.Data, 1, 24*24), dev.Alloc(1, len(y.Data))
			p.Operator.Forward(z, b)
			sum, all := 0.0, 0.0
			for i, v := range z.ToHost() {
				sum, all = sum+(v-y.Data[i])*(v-y.Data[i]), all+y.Data[i]*y.Data[i]
			}
			return math.Sqrt(sum / all), p
		}
		right, _ := off(", center: scikit-image")
		wrong, _ := off("")
		if right > 0.015 || wrong < 4*right {
			t.Errorf("%s: projections differ by %.3f, and around the middle by %.3f", name, right, wrong)
		}
		_, p := off(", center: auto")
		if c := p.Center; c == nil || math.Abs(c.Value-detector) > 0.02+3*c.StdErr {
			t.Errorf("%s: the axis is found at %+v, expected %g", name, c, detector)
		}
	}
}

// Axes that do not exist, or cannot be found, are refused.
func TestBadCenters(t *testing.T) {
	y := dataio.Array{Name: "y", Shape: []int{6, 8}, Data: make([]float64, 48)}
	for args, want := range map[string]string{
		"center: middle": `center is "middle", expected one of auto, scikit-image, or a detector such as 127.5`,
		"center: auto":   "do not end within the detectors",
		"center: 1e9":    "center is 1e+09, expected a detector from 0 to 7",
		"center: .inf":   "center is +Inf, expected a detector from 0 to 7",
		"center: auto, geometry: fan, source: 90, detector: 90": "center: auto is for parallel rays",
	} {
		data, err := scanned(t, "data: d.npz\noperator: {projection: {angles: 6, "+args+"}}\nregularizer: "+
			"{squared-l2: 1}\nsigma2: 1\n", y)
		if err == nil {
			_, err = problems.New("", array.NewHost(), data, problems.Hyper{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", args, err, want)
		}
	}
}
