package page

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/dataio"
	"surepipe/internal/lists"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/study"
	"surepipe/study/draw"
)

const (
	// mostPixels is the number of pixels of a picture, and allPixels of the pictures of all points together, of which
	// each has leastPixels all the same.
	mostPixels, leastPixels, allPixels = 1 << 16, 1 << 12, 8 << 20
	// mostPlaces is the number of values of a sequence, or of rows of a table, that are shown.
	mostPlaces       = 1000
	mostCoefficients = 200
	// lagsAround and lagsAlong are the lags of correlations of images, in each direction, and of sequences.
	lagsAround, lagsAlong = 5, 24
	// spare is the share of values at either end that the scale of a picture need not cover.
	spare = 0.001
)

// Looker makes the looks of an estimator's fits to one y.
type Looker struct {
	p      *problems.Problem
	data   problems.Data
	names  []string
	box    bool
	pixels int // of a picture
}

// NewLooker makes the looks of so many fits.
func NewLooker(j *study.Estimator, data problems.Data, fits int) *Looker {
	return &Looker{p: j.Problem, data: data, names: study.CoefficientNames(data, j.Problem), box: j.BlackBox != nil,
		pixels: max(leastPixels, min(mostPixels, allPixels/max(fits, 1)))}
}

// NeedsB says that looks show b, or what is made of it.
func (l *Looker) NeedsB() bool {
	return !l.box && (l.p.Rows() || l.p.Observed() != nil || l.p.Signal != nil)
}

// Look is what a page shows of a fit.
func (l *Looker) Look(r pipeline.Risk) *study.Look {
	p, look := l.p, &study.Look{}
	fitted := r.MuHat
	if r.LossTerms != nil {
		fitted = r.LossTerms.Fitted
	}
	if fitted == nil {
		return nil
	}
	if l.NeedsB() && r.HasB() {
		switch {
		case p.Rows():
			l.coefficients(look, p.Coefficients(r.DenseB()))
		case p.Signal != nil:
			if signal, err := study.Synthesize(p, r.DenseB()); err == nil {
				look.Signal = l.array(signal.Shape, signal.Complex, signal.Data)
			}
		}
	}
	switch {
	case p.Observed() != nil && r.HasB() && !l.box:
		l.completion(look, r, fitted)
	case p.Rows():
		look.Fit, look.Data = places("rows", fitted), places("rows", l.data.Y)
	case !p.MuComplex:
		l.measured(look, fitted)
	}
	return look
}

func (l *Looker) measured(look *study.Look, fitted []float64) {
	p := l.p
	shape := study.ShapeOut(p, p.MuShape)
	of := func(x []float64) []float64 {
		x = slices.Clone(x)
		if p.Original != nil && p.Signal == nil {
			p.Original(x)
		}
		return study.Presented(p, dataio.Array{Shape: p.MuShape, Data: x}).Data
	}
	y, fit := of(l.data.Y), of(fitted)
	look.Fit, look.Data = l.array(shape, false, fit), l.array(shape, false, y)
	residual := floats.SubTo(make([]float64, len(y)), y, fit)
	if rows, cols, channels, pixels, ok := draw.Middle(shape, false, residual); ok {
		look.Correlation = around(draw.MeanOfChannels(pixels, channels), rows, cols)
	} else if len(shape) == 1 {
		look.Correlation = along(residual)
	}
}

// array is the picture of an array: an image, the one in the middle of a series, or a sequence; nil for none.
func (l *Looker) array(shape []int, isComplex bool, x []float64) *study.Picture {
	if isComplex && len(shape) == 2 || len(shape) == 0 {
		return nil
	}
	height, width, channels, pixels, ok := draw.Middle(shape, isComplex, x)
	if !ok {
		return places("sequence", x)
	}
	side := 1
	for (height/side)*(width/side)*channels > l.pixels && side < min(height, width) {
		side++
	}
	// Rows and columns beyond the last whole block are left out.
	rows, cols := height/side, width/side
	small := make([]float64, rows*cols*channels)
	for i := range rows * side {
		for j := range cols * side {
			for c := range channels {
				small[((i/side)*cols+j/side)*channels+c] += pixels[(i*width+j)*channels+c] / float64(side*side)
			}
		}
	}
	p := &study.Picture{Kind: "image", Shape: []int{rows, cols}, Means: side}
	if channels > 1 {
		p.Shape = append(p.Shape, channels)
	}
	return coded(p, small, 255)
}

// completion is the matrix, with its effects, at some rows and columns, and y where it was observed there.
func (l *Looker) completion(look *study.Look, r pipeline.Risk, fitted []float64) {
	shape, every := l.p.BShape, 1
	if len(shape) != 2 {
		return
	}
	for (shape[0]+every-1)/every*((shape[1]+every-1)/every) > l.pixels {
		every++
	}
	rows, cols := (shape[0]+every-1)/every, (shape[1]+every-1)/every
	at := lists.Make(rows*cols, func(k int) int { return k/cols*every*shape[1] + k%cols*every })
	y := slices.Repeat([]float64{math.NaN()}, len(at))
	for k, place := range l.p.Observed() {
		if i, j := place/shape[1], place%shape[1]; i%every == 0 && j%every == 0 {
			y[i/every*cols+j/every] = l.data.Y[k]
		}
	}
	matrix := func(x []float64) *study.Picture {
		return coded(&study.Picture{Kind: "matrix", Shape: []int{rows, cols}, Every: every}, x, 255)
	}
	fit := r.BAt(at)
	if effects := l.p.FitEffectsAt(fitted, r.BAt(l.p.Observed())); effects != nil {
		for k, place := range at {
			fit[k] += effects.At(place/shape[1], place%shape[1])
		}
	}
	look.Fit, look.Data = matrix(fit), matrix(y)
}

// places are values of a sequence, or of the rows of a table, at even distances.
func places(kind string, x []float64) *study.Picture {
	every := (len(x) + mostPlaces - 1) / mostPlaces
	if every == 0 {
		return nil
	}
	var some []float64
	for i := 0; i < len(x); i += every {
		some = append(some, x[i])
	}
	return coded(&study.Picture{Kind: kind, Shape: []int{len(some)}, Every: every}, some, math.MaxUint16)
}

// coefficients are the largest of those that are not 0, in their order.
func (l *Looker) coefficients(look *study.Look, b []float64) {
	at, drawn, scales := lists.Places(len(b), func(j int) bool { return b[j] != 0 }), b, l.p.Scales()
	if scales != nil { // each column has a coefficient for each response
		drawn = lists.Make(len(b), func(j int) float64 { return b[j] * scales[j*len(scales)/len(b)] })
	}
	if more := len(at) - mostCoefficients; more > 0 {
		slices.SortStableFunc(at, func(i, j int) int { return cmp.Compare(math.Abs(drawn[j]), math.Abs(drawn[i])) })
		at, look.CoefficientsLeftOut = slices.Sorted(slices.Values(at[:mostCoefficients])), more
	}
	look.Coefficients = lists.Map(at, func(j int) study.Coefficient {
		c := study.Coefficient{Name: l.names[j], Estimate: rounded(b[j], 6)}
		if scales != nil {
			c.Standardized = new(rounded(drawn[j], 6))
		}
		return c
	})
}

// around is the correlation of an image with itself: that at the lag (s, t) is
//
//	sum_ij e_ij e_{i+s, j+t} / sum_ij e_ij^2,   e = x - mean(x)
func around(x []float64, rows, cols int) *study.Correlation {
	e, square := centered(x)
	const side = 2*lagsAround + 1
	if !(square > 0) || min(rows, cols) <= lagsAround {
		return nil
	}
	c := &study.Correlation{Shape: []int{side, side}, Values: make([]float64, side*side), Of: len(x)}
	for s := range lagsAround + 1 {
		for t := -lagsAround; t <= lagsAround; t++ {
			sum := 0.0
			for i := range rows - s {
				from, to := max(0, -t), min(cols, cols-t)
				sum += floats.Dot(e[i*cols+from:i*cols+to], e[(i+s)*cols+from+t:(i+s)*cols+to+t])
			}
			v := rounded(sum/square, 3)
			c.Values[(lagsAround+s)*side+lagsAround+t], c.Values[(lagsAround-s)*side+lagsAround-t] = v, v
		}
	}
	return c
}

func along(x []float64) *study.Correlation {
	e, square := centered(x)
	if !(square > 0) {
		return nil
	}
	lags := min(lagsAlong, len(x)-1)
	c := &study.Correlation{Shape: []int{lags + 1}, Of: len(x)}
	for t := range lags + 1 {
		c.Values = append(c.Values, rounded(floats.Dot(e[:len(e)-t], e[t:])/square, 3))
	}
	return c
}

// centered is x without its mean, where a value is missing 0, and the sum of its squares.
func centered(x []float64) (e []float64, square float64) {
	sum, n := 0.0, 0.0
	for _, v := range x {
		if !math.IsNaN(v) {
			sum, n = sum+v, n+1
		}
	}
	e = make([]float64, len(x))
	for i, v := range x {
		if !math.IsNaN(v) {
			e[i] = v - sum/n
			square += e[i] * e[i]
		}
	}
	return e, square
}

func rounded(v float64, digits int) float64 {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	return v
}
