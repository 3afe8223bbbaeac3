package noise

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"surepipe/internal/dataio/images"
	"surepipe/internal/lists"
)

// A sigma2 that is four times too small or too large is contradicted by most data, and the right one by none.
func TestSigma2IsContradicted(t *testing.T) {
	f, err := os.Open("../../testdata/camera.png")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	clean, err := images.ReadPNG(f)
	if err != nil {
		t.Fatal(err)
	}
	const side, sigma, draws = 128, 0.04, 20
	r := rand.New(rand.NewPCG(41, 2))
	for name, c := range map[string]struct {
		of    func() Range
		least int // of the draws, that tell
	}{
		"a photograph": {func() Range {
			row, col := r.IntN(clean.Shape[0]-side), r.IntN(clean.Shape[1]-side)
			return NewImage(lists.Make(side*side, func(i int) float64 {
				return clean.Data[(row+i/side)*clean.Shape[1]+col+i%side] + sigma*r.NormFloat64()
			}), side, side, 1).Range()
		}, 10},
		"grass": {func() Range { // fine texture that is everywhere, of four times the variance of the noise
			grain := normals(r, (side+1)*(side+1), 1)
			return NewImage(lists.Make(side*side, func(i int) float64 {
				at := i/side*(side+1) + i%side
				return sigma * (grain[at] + grain[at+1] + grain[at+side+1] + grain[at+side+2] + r.NormFloat64())
			}), side, side, 1).Range()
		}, 0},
		"a sequence with steps": {func() Range {
			return RangeOfSequence(lists.Make(400, func(i int) float64 { return float64(i/100%2) + sigma*r.NormFloat64() }))
		}, draws - 2},
		"residuals with heavy tails": {func() Range {
			return RangeOfSquares(lists.Make(600, func(int) float64 { // Student's t with 5 degrees of freedom
				squares := 0.0
				for range 5 {
					v := r.NormFloat64()
					squares += v * v
				}
				v := sigma * r.NormFloat64() * math.Sqrt(3/squares)
				return 0.9 * v * v
			}), 0.9)
		}, draws - 4},
		"few residuals": {func() Range {
			return RangeOfSquares(lists.Make(8, func(int) float64 {
				v := sigma * r.NormFloat64()
				return v * v
			}), 1)
		}, 0},
	} {
		told := map[string]int{}
		for range draws {
			known := c.of()
			for _, times := range []float64{0.25, 1, 4} {
				if known.TooSmall(times*sigma*sigma, 0) {
					told[fmt.Sprintf("%g small", times)]++
				}
				if known.TooLarge(times*sigma*sigma, 0) {
					told[fmt.Sprintf("%g large", times)]++
				}
			}
		}
		wrong := told["1 small"] + told["1 large"] + told["0.25 large"] + told["4 small"]
		if wrong > 0 || told["0.25 small"] < c.least || told["4 large"] < c.least {
			t.Errorf("%s: of %d draws %v are told", name, draws, told)
		}
	}
}

// The right sigma2 is hardly contradicted also where residuals have few degrees of freedom.
func TestFewDegreesOfFreedomContradictNoSigma2(t *testing.T) {
	const rows, draws = 30, 4000
	r := rand.New(rand.NewPCG(5, 30))
	for _, free := range []int{1, 2, 3, 5, 10, 20} {
		wrong := 0
		for range draws {
			chi := 0.0
			for range free {
				v := r.NormFloat64()
				chi += v * v
			}
			// Squares of residuals, of which the spread does not matter beside that of so few degrees of freedom.
			known := RangeOfSquares(lists.Make(rows, func(int) float64 { return chi / rows }), float64(free)/rows)
			if known.TooSmall(1, 0) || known.TooLarge(1, 0) {
				wrong++
			}
		}
		if wrong > draws/250 {
			t.Errorf("%d degrees of freedom: %d of %d draws", free, wrong, draws)
		}
	}
}
