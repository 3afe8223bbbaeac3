package figure

import (
	"image/color"
	"math"
)

// paletteKnots are colours in OKLab (lightness, green-red, blue-yellow), from dark
// violet over blue and green to yellow. Lightness rises evenly.
var paletteKnots = [][3]float64{
	{0.26, 0.055, -0.105},
	{0.40, 0.010, -0.105},
	{0.54, -0.055, -0.060},
	{0.68, -0.110, 0.035},
	{0.82, -0.105, 0.125},
	{0.95, -0.050, 0.160},
}

// paletteSteps is the number of colours of the palette.
const paletteSteps = 256

// palette has equal steps in OKLab along the polygon of the knots, smoothed at
// its corners.
var palette = func() (colors [paletteSteps]color.RGBA) {
	// Points of a Catmull-Rom spline through the knots, and the length up to each.
	const fine = 4000
	knot := func(i int) [3]float64 { return paletteKnots[max(0, min(len(paletteKnots)-1, i))] }
	var points [fine + 1][3]float64
	var length [fine + 1]float64
	for i := range points {
		u := float64(i) / fine * float64(len(paletteKnots)-1)
		k := min(int(u), len(paletteKnots)-2)
		t := u - float64(k)
		for j := range 3 {
			a, b, c, d := knot(k - 1)[j], knot(k)[j], knot(k + 1)[j], knot(k + 2)[j]
			points[i][j] = b + t*((c-a)/2+t*(a-2.5*b+2*c-d/2+t*(1.5*(b-c)+(d-a)/2)))
		}
		if i > 0 {
			length[i] = length[i-1] + distance(points[i], points[i-1])
		}
	}
	i := 0
	for k := range colors {
		for want := length[fine] * float64(k) / (paletteSteps - 1); i < fine && length[i] < want; {
			i++
		}
		colors[k] = fromOKLab(points[i])
	}
	return colors
}()

func distance(a, b [3]float64) float64 {
	return math.Hypot(a[0]-b[0], math.Hypot(a[1]-b[1], a[2]-b[2]))
}

// paletteAt is the colour for u in [0, 1].
func paletteAt(u float64) color.RGBA {
	return palette[int(math.Round(max(0, min(1, u))*(paletteSteps-1)))]
}

// divergingAt is the colour for u in [-1, 1]: blue, white at 0, red, as light on either side.
func divergingAt(u float64) color.RGBA {
	t := min(math.Abs(u), 1)
	end := [3]float64{0.42, -0.03, -0.17} // blue
	if u > 0 {
		end = [3]float64{0.42, 0.16, 0.08} // red
	}
	// Hue comes in faster than darkness, so that small values are seen.
	hue := math.Sin(t * math.Pi / 2)
	return fromOKLab([3]float64{0.985 + t*(end[0]-0.985), hue * end[1], hue * end[2]})
}

// fromOKLab converts to sRGB (Ottosson, "A perceptual color space for image
// processing", 2020).
func fromOKLab(c [3]float64) color.RGBA {
	cube := func(a, b float64) float64 { v := c[0] + a*c[1] + b*c[2]; return v * v * v }
	l, m, s := cube(0.3963377774, 0.2158037573), cube(-0.1055613458, -0.0638541728), cube(-0.0894841775, -1.2914855480)
	return color.RGBA{
		gamma(4.0767416621*l - 3.3077115913*m + 0.2309699292*s),
		gamma(-1.2684380046*l + 2.6097574011*m - 0.3413193965*s),
		gamma(-0.0041960863*l - 0.7034186147*m + 1.7076147010*s),
		0xFF,
	}
}

// gamma encodes a linear intensity as sRGB does.
func gamma(v float64) uint8 {
	v = max(0, min(1, v))
	if v <= 0.0031308 {
		v *= 12.92
	} else {
		v = 1.055*math.Pow(v, 1/2.4) - 0.055
	}
	return uint8(math.Round(255 * v))
}
