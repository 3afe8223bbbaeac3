package series

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// The patch of the default is one of the candidates, and its error is no more than 5% above the least of theirs: where
// courses change from voxel to voxel that is a small patch, where a few make up all of the image a large one.
func TestThePatchIsThatOfLeastError(t *testing.T) {
	shape := Shape{Extent{16, 14, 8}, 40, false}
	sizes := map[Extent]bool{}
	for _, turns := range []float64{0.05, 30} {
		rng := rand.New(rand.NewPCG(3, 9))
		truth, sigma := make([]float64, shape.slice()*8), make([]float64, shape.Image.voxels())
		y := make([]float64, len(truth))
		for i := range sigma {
			x, yy, z := float64(i%16)/16, float64(i/16%14)/14, float64(i/224)/8
			sigma[i] = 1 + x
			for k := range 40 {
				at := i*40 + k
				truth[at] = 20 * math.Cos(turns*(x+yy-z)*(0.2+float64(k)/40)+float64(k))
				y[at] = truth[at] + sigma[i]*rng.NormFloat64()
			}
		}
		s, all := run(t, shape, y, sigma, Options{})
		sizes[s.Patch] = true
		chosen, least := distance(clean(all), truth), math.Inf(1)
		for _, e := range candidates(shape.Image, 40) {
			_, all := run(t, shape, y, sigma, Options{Patch: e})
			least = min(least, distance(clean(all), truth))
		}
		t.Logf("turns %g: %v, squared error %.5g, the least %.5g", turns, s.Patch, chosen, least)
		if chosen > 1.05*least {
			t.Errorf("turns %g: %v has the squared error %g, the best patch %g", turns, s.Patch, chosen, least)
		}
	}
	if len(sizes) < 2 {
		t.Errorf("the same patch for both: %v", sizes)
	}
	for _, c := range []struct {
		image   Extent
		volumes int
		want    string
	}{{Extent{96, 96, 19}, 67, "[[3 3 3] [4 4 4] [5 5 5]]"}, {Extent{64, 64, 1}, 60, "[[4 4 1] [6 6 1] [9 9 1]]"},
		{Extent{64, 64, 30}, 300, "[[4 4 4] [5 5 5] [7 7 7]]"}, {Extent{2, 1, 1}, 5, "[]"}} {
		if got := fmt.Sprint(candidates(c.image, c.volumes)); got != c.want {
			t.Errorf("candidates for %v and %d volumes: %s, expected %s", c.image, c.volumes, got, c.want)
		}
	}
}

// Where the middle of the mask is empty the patch is the default one.
func TestAMaskWithoutItsMiddle(t *testing.T) {
	shape := Shape{Extent{40, 12, 12}, 20, false}
	_, y, sigma := simulate(shape, 1, 4)
	mask := make([]bool, len(sigma))
	for i := range mask {
		mask[i] = i%40 < 4 || i%40 >= 36
	}
	s, _ := run(t, shape, y, sigma, Options{Mask: mask})
	if s.Patch != DefaultPatch(shape.Image, 20) || math.IsNaN(s.SURE) {
		t.Errorf("%+v", s)
	}
}

// Of a large image the part has an inner box whose voxels have all their patches; it is read as the image is.
func TestAPartOfASeries(t *testing.T) {
	shape := Shape{Extent{40, 30, 20}, 2, false}
	_, y, sigma := simulate(shape, 1, 4)
	mask := make([]bool, len(sigma))
	for i := range mask {
		mask[i] = i%40 >= 8
	}
	p := middle(Memory{shape, y}, mask, Extent{3, 3, 3})
	if p.at != (Extent{10, 1, 6}) || p.size != (Extent{28, 28, 8}) || p.low != (Extent{2, 2, 2}) || p.high != (Extent{26, 26, 6}) {
		t.Errorf("at %v, size %v, inner box %v to %v", p.at, p.size, p.low, p.high)
	}
	dst := make([]float64, p.Shape().slice())
	if err := p.Slice(dst, 1); err != nil {
		t.Fatal(err)
	}
	inside, level := p.cut(mask, sigma)
	at := (7*30+1+2)*40 + 10 + 5 // voxel (5, 2, 1) of the part
	if k := 2*28 + 5; dst[2*k] != y[2*at] || level[28*28+k] != sigma[at] || !inside[28*28+k] {
		t.Errorf("%g, %g, %v", dst[2*k], level[28*28+k], inside[28*28+k])
	}
}
