package spec

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/lists"
	"surepipe/linops/imaging"
)

var differenceOperator = operatorKind{
	name: "difference",
	forms: []Form{{"difference: {shape: [m, n]}",
		"b_{i+1} - b_i, of a sequence or of an image in both directions"}},
	parameters: []Parameter{ownShape},
	build: func(a *operatorArguments, rows, cols []int) (built, error) {
		if cols == nil && len(rows) == 1 {
			cols = []int{rows[0] + 1}
		}
		shape, err := a.input(cols)
		if err != nil {
			return built{}, err
		}
		m, k, image, err := a.grid(shape)
		if err != nil {
			return built{}, err
		}
		op := imaging.NewDifference1D(k)
		if image {
			op = imaging.NewDifference2D(m, k)
		}
		d, _ := op.Dims()
		if d == 0 {
			return built{}, fmt.Errorf("difference of an array of shape %s, which has no neighbours",
				ndarray.ShapeString(shape))
		}
		return a.held(op, nil, []int{d}, shape)
	},
}

var edges = []imaging.Edge{imaging.Reflecting, imaging.Periodic, imaging.Grounded}

var gradientOperator = operatorKind{
	name: "gradient",
	forms: []Form{{"gradient: {shape: [m, n], axes: [0, 1], edge: reflecting}",
		"b_{i+1} - b_i along each axis, of the shape of b and one after the other;\n" +
			"the last difference of an axis is 0, or with edge: periodic or grounded\n" +
			"that to the first entry or to 0; of an image in colours, (m, n, 3),\nalong the first two axes"}},
	parameters: []Parameter{ownShape, {Name: "axes", Read: Numbers, Optional: true},
		{Name: "edge", Read: Choice(names(edges)...), Optional: true}},
	build: func(a *operatorArguments, _, cols []int) (built, error) {
		shape, err := a.input(cols)
		if err != nil {
			return built{}, err
		}
		along := gradientAxes(shape)
		if a.Given("axes") {
			if along, err = a.Integers("axes"); err != nil {
				return built{}, err
			}
			for i, axis := range along {
				if axis < 0 || axis >= len(shape) || i > 0 && axis <= along[i-1] {
					return built{}, a.Errorf("axes", "axes are %v, expected increasing numbers from 0 to %d, the axes "+
						"of shape %s", along, len(shape)-1, ndarray.ShapeString(shape))
				}
			}
		}
		op := imaging.NewGradient(shape, along, chosen(edges, a.Text("edge", "")))
		return a.held(op, nil, append([]int{len(along)}, shape...), shape)
	},
}

// names are the texts of values, and chosen is the value of a text, the first where it has none.
func names[T fmt.Stringer](values []T) []string {
	return lists.Map(values, T.String)
}

func chosen[T fmt.Stringer](values []T, text string) T {
	return values[max(slices.Index(names(values), text), 0)]
}

func gradientAxes(shape []int) []int {
	var axes []int
	for a, n := range shape {
		if len(shape) == 3 && a == 2 && n <= MostChannels {
			break
		}
		axes = append(axes, a)
	}
	return axes
}

var boundaries = []imaging.Boundary{imaging.Circular, imaging.ZeroPadded}

var blurWidth = NumberThat(func(x float64) bool { return x > 0 }, "a standard deviation in pixels, a positive number")

var convolutionOperator = operatorKind{
	name: "convolution",
	forms: []Form{
		{"convolution: {kernel: h, boundary: circular}", "a convolution with the array h"},
		{"convolution: {gaussian: 1.5, boundary: zero-padded}", "with a Gaussian of that standard deviation in pixels"},
	},
	parameters: []Parameter{{Name: "kernel", Read: Numbers, Optional: true},
		{Name: "gaussian", Read: blurWidth, Optional: true}, {Name: "boundary", Read: Choice(names(boundaries)...)},
		ownShape},
	target: Targets{
		SURE:       "the squared error of mu_hat, the blurred signal: that of the signal may be far larger",
		Prediction: "the squared error of predicting an entry of y, the blurred signal, noise included",
	},
	check: func(n *operatorNode) error {
		if n.Given("kernel") == n.Given("gaussian") {
			return n.Errorf("", "convolution has kernel and gaussian, or none of them, expected {kernel: h, boundary: "+
				"circular} or {gaussian: 1.5, boundary: zero-padded}")
		}
		return nil
	},
	build: func(a *operatorArguments, rows, cols []int) (built, error) {
		shape, m, k, image, err := a.squareGrid(rows, cols)
		if err != nil {
			return built{}, err
		}
		h, given := a.Array("kernel")
		if !given {
			width := a.Number("gaussian", 1)
			if most := max(m, k); width > float64(most) {
				return built{}, fmt.Errorf("gaussian is %g, expected a standard deviation in pixels of at most "+
					"%d, the larger side of the blurred array", width, most)
			}
			h = gaussian(width, image)
		}
		if len(h.Shape) != len(shape) {
			return built{}, fmt.Errorf("array %q has shape %s, expected a kernel with %d axes for an array "+
				"of shape %s", h.Name, ndarray.ShapeString(h.Shape), len(shape), ndarray.ShapeString(shape))
		}
		boundary := chosen(boundaries, a.Text("boundary", ""))
		var op *imaging.Convolution
		if image {
			op, err = imaging.NewConvolution2D(m, k, mat.NewDense(h.Shape[0], h.Shape[1], h.Data), boundary)
		} else {
			op, err = imaging.NewConvolution1D(k, h.Data, boundary)
		}
		return a.held(op, err, shape, shape)
	},
}

// gaussian is a Gaussian kernel with sum 1, cut off at three standard deviations: h, or h h* for an image.
func gaussian(width float64, image bool) dataio.Array {
	m := int(math.Ceil(3 * width))
	h := make([]float64, 2*m+1)
	sum := 0.0
	for i := range h {
		x := float64(i-m) / width
		h[i] = math.Exp(-x * x / 2)
		sum += h[i]
	}
	for i := range h {
		h[i] /= sum
	}
	if !image {
		return dataio.Array{Name: "kernel", Shape: []int{len(h)}, Data: h}
	}
	a := dataio.Array{Name: "kernel", Shape: []int{len(h), len(h)}}
	for _, x := range h {
		for _, y := range h {
			a.Data = append(a.Data, x*y)
		}
	}
	return a
}

var dctOperator = operatorKind{
	name:       "dct",
	forms:      []Form{{"dct", "the orthonormal cosine transform, from a signal to its coefficients"}},
	parameters: []Parameter{ownShape},
	build: func(a *operatorArguments, rows, cols []int) (built, error) {
		shape, m, k, image, err := a.squareGrid(rows, cols)
		if err != nil {
			return built{}, err
		}
		op := imaging.NewDCT(k)
		if image {
			op = imaging.NewDCT2D(m, k)
		}
		made, err := a.held(op, nil, shape, shape)
		made.rowAverages = []int{0}
		return made, err
	},
}

var waveletOperator = operatorKind{
	name: "wavelet",
	forms: []Form{{"wavelet: {family: db4, levels: 4}",
		"the orthonormal wavelet transform, from a signal to its coefficients; haar, db2 to db10, sym4 to sym8"}},
	parameters: []Parameter{{Name: "family", Read: Text}, {Name: "levels", Read: Count}, ownShape},
	build: func(a *operatorArguments, rows, cols []int) (built, error) {
		// The input is the signal: the output may be larger.
		if cols != nil {
			rows = nil
		}
		shape, m, k, image, err := a.squareGrid(rows, cols)
		if err != nil {
			return built{}, err
		}
		family, levels := a.Text("family", ""), a.Count("levels", 0)
		var op *imaging.Wavelet
		if image {
			op, err = imaging.NewWavelet2D(m, k, family, levels)
		} else {
			op, err = imaging.NewWavelet1D(k, family, levels)
		}
		made, err := a.held(op, err, nil, shape)
		if err != nil {
			return built{}, err
		}
		r, c := op.Coefficients()
		if made.rows = []int{r, c}; !image {
			made.rows = []int{c}
		}
		made.rowAverages = op.Averages()
		return made, nil
	},
}
