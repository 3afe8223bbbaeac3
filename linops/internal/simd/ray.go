package simd

import "fmt"

// Lanes is the number of vectors that GatherLanes and SpreadLanes take together.
const Lanes = 8

// Ray is a ray through the lines From to To-1 of an image. It meets a line at the place x = At + Slope
// line, between the pixels i and i + 1 with i the integer part of x, and has the part x - i of the way
// behind it. A line has Width pixels, and for several vectors the values of one pixel side by side.
type Ray struct {
	At, Slope       float64
	From, To, Width int
}

// place is where the ray meets a line. The conversion keeps a compiler from fusing product and sum.
func (r Ray) place(line int) (pixel int, part float64) {
	x := r.At + float64(r.Slope*float64(line))
	pixel = int(x)
	return pixel, x - float64(pixel)
}

// check panics unless all places lie within the lines of plane: they do where the first and the last
// do. Places beyond 2^31 are no pixels.
func (r Ray) check(plane []float64, lanes int) {
	for _, line := range [2]int{r.From, r.To - 1} {
		x := r.At + float64(r.Slope*float64(line))
		if !(x >= 0 && x < float64(r.Width-1)) || r.From < 0 || r.Width > 1<<30 || r.To*r.Width*lanes > len(plane) {
			panic(fmt.Sprintf("simd: a ray at %v in line %d of %d with %d pixels", x, line, r.To, r.Width))
		}
	}
}

// sumsOf are the positions of the two sums to which line r.From + u adds, by u mod 4: of the pixels
// before the places, and of those after.
var sumsOf = [4]int{0, 4, 2, 6}

// gather adds what the ray meets in the lines from from on to the sums.
func (r Ray) gather(sums *[8]float64, plane []float64, from int) {
	for line := from; line < r.To; line++ {
		pixel, part := r.place(line)
		at := plane[line*r.Width+pixel:][:2]
		s := sums[sumsOf[(line-r.From)%4]:][:2]
		s[0] += float64((1 - part) * at[0])
		s[1] += float64(part * at[1])
	}
}

func total(s *[8]float64) float64 {
	return (((s[0] + s[1]) + (s[4] + s[5])) + (s[2] + s[3])) + (s[6] + s[7])
}

func (r Ray) spread(plane []float64, value float64, from int) {
	for line := from; line < r.To; line++ {
		pixel, part := r.place(line)
		at := plane[line*r.Width+pixel:][:2]
		at[0] += float64((1 - part) * value)
		at[1] += float64(part * value)
	}
}

func (r Ray) gatherLanes(sums *[Lanes]float64, plane []float64) {
	s := *sums
	for line := r.From; line < r.To; line++ {
		pixel, part := r.place(line)
		at := (*[2 * Lanes]float64)(plane[(line*r.Width+pixel)*Lanes:])
		q := 1 - part
		for j := range Lanes {
			s[j] += float64(q*at[j]) + float64(part*at[j+Lanes])
		}
	}
	*sums = s
}

func (r Ray) spreadLanes(values *[Lanes]float64, plane []float64) {
	s := *values
	for line := r.From; line < r.To; line++ {
		pixel, part := r.place(line)
		at := (*[2 * Lanes]float64)(plane[(line*r.Width+pixel)*Lanes:])
		q := 1 - part
		for j := range Lanes {
			at[j] += float64(q * s[j])
			at[j+Lanes] += float64(part * s[j])
		}
	}
}
