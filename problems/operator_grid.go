package problems

import (
	"fmt"
	"math"

	"go.yaml.in/yaml/v3"
	"gonum.org/v1/gonum/mat"

	"surepipe/internal/dataio"
	"surepipe/linops/imaging"
)

var differenceOperator = operatorKind{
	name:  "difference",
	forms: []form{{"difference: {shape: [m, n]}", "b_{i+1} - b_i, of a sequence or of an image in both directions"}},
	parse: func(s *Spec, n *operatorNode, args *yaml.Node) (operatorBuild, error) {
		own, err := s.optionalShape(n, args)
		return func(b *specBuilder, rows, cols []int) (built, error) {
			shape := own
			switch {
			case shape != nil:
			case cols != nil:
				shape = cols
			case len(rows) == 1:
				shape = []int{rows[0] + 1}
			default:
				return built{}, fmt.Errorf("the size of difference does not follow from its position, expected " +
					"difference: {shape: [m, n]} or {shape: n}")
			}
			m, k, image, err := grid(n, shape)
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
					formatShape(shape))
			}
			b.load(op)
			return built{op: op, rows: []int{d}, cols: shape}, nil
		}, err
	},
}

var convolutionOperator = operatorKind{
	name: "convolution",
	forms: []form{
		{"convolution: {kernel: h, boundary: circular}", "a convolution with the array h"},
		{"convolution: {gaussian: 1.5, boundary: zero-padded}", "with a Gaussian of that standard deviation in pixels"},
	},
	parse: func(s *Spec, n *operatorNode, args *yaml.Node) (operatorBuild, error) {
		complete := func(f section) bool { return f.has("kernel") != f.has("gaussian") && f.has("boundary") }
		f, err := s.keys(n.node, args, "{kernel: h, boundary: circular} or {gaussian: 1.5, boundary: zero-padded}",
			complete, "kernel", "gaussian", "boundary", "shape")
		if err != nil {
			return nil, err
		}
		name, err := s.choice(f.nodes["boundary"], "boundary",
			[]string{imaging.Circular.String(), imaging.ZeroPadded.String()})
		if err != nil {
			return nil, err
		}
		boundary := imaging.Circular
		if name != boundary.String() {
			boundary = imaging.ZeroPadded
		}
		own, err := s.ownShape(f)
		if err != nil {
			return nil, err
		}
		kernel, err := s.parseKernel(f)
		if err != nil {
			return nil, err
		}
		return func(b *specBuilder, rows, cols []int) (built, error) {
			shape, m, k, image, err := squareGrid(n, own, rows, cols)
			if err != nil {
				return built{}, err
			}
			h, err := kernel(b, max(m, k), image)
			if err != nil {
				return built{}, err
			}
			if len(h.Shape) != len(shape) {
				return built{}, fmt.Errorf("array %q has shape %s, expected a kernel with %d axes for an array "+
					"of shape %s", h.Name, formatShape(h.Shape), len(shape), formatShape(shape))
			}
			var op *imaging.Convolution
			if image {
				op, err = imaging.NewConvolution2D(m, k, mat.NewDense(h.Shape[0], h.Shape[1], h.Data), boundary)
			} else {
				op, err = imaging.NewConvolution1D(k, h.Data, boundary)
			}
			if err != nil {
				return built{}, trim(err)
			}
			b.load(op)
			return built{op: op, rows: shape, cols: shape}, nil
		}, nil
	},
}

// parseKernel reads the kernel of a convolution: an array, or the width of a Gaussian. most is the
// larger side of the convolved array.
func (s *Spec) parseKernel(f section) (func(b *specBuilder, most int, image bool) (dataio.Array, error), error) {
	if v := f.nodes["kernel"]; v != nil {
		kernel, err := s.ref(v, "kernel")
		return func(b *specBuilder, _ int, _ bool) (dataio.Array, error) { return b.array(kernel), nil }, err
	}
	width, err := s.number(f.nodes["gaussian"], "gaussian")
	if err != nil {
		return nil, err
	}
	if !(width > 0) {
		return nil, s.errorf(f.nodes["gaussian"].Line,
			"gaussian is %g, expected a standard deviation in pixels, a positive number", width)
	}
	return func(_ *specBuilder, most int, image bool) (dataio.Array, error) {
		if width > float64(most) {
			return dataio.Array{}, fmt.Errorf("gaussian is %g, expected a standard deviation in pixels of at most "+
				"%d, the larger side of the blurred array", width, most)
		}
		h := dataio.Array{Name: "kernel", Data: gaussian(width)}
		h.Shape = []int{len(h.Data)}
		if image {
			h = outer(h)
		}
		return h, nil
	}, nil
}

// gaussian is a Gaussian kernel with sum 1, cut off at three standard deviations.
func gaussian(width float64) []float64 {
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
	return h
}

// outer is h h*.
func outer(h dataio.Array) dataio.Array {
	k := len(h.Data)
	a := dataio.Array{Name: h.Name, Shape: []int{k, k}}
	for _, x := range h.Data {
		for _, y := range h.Data {
			a.Data = append(a.Data, x*y)
		}
	}
	return a
}

var dctOperator = operatorKind{
	name:  "dct",
	forms: []form{{"dct", "the orthonormal cosine transform, from a signal to its coefficients"}},
	parse: func(s *Spec, n *operatorNode, args *yaml.Node) (operatorBuild, error) {
		own, err := s.optionalShape(n, args)
		return func(b *specBuilder, rows, cols []int) (built, error) {
			shape, m, k, image, err := squareGrid(n, own, rows, cols)
			if err != nil {
				return built{}, err
			}
			op := imaging.NewDCT(k)
			if image {
				op = imaging.NewDCT2D(m, k)
			}
			b.load(op)
			return built{op: op, rows: shape, cols: shape, rowAverages: []int{0}}, nil
		}, err
	},
}

// wavelet reads the keys family and levels.
func (s *Spec) wavelet(f section) (family string, levels int, err error) {
	if family, err = s.text(f.nodes["family"], "family"); err != nil {
		return "", 0, err
	}
	levels, err = s.positive(f.nodes["levels"], "levels")
	return family, levels, err
}

var waveletOperator = operatorKind{
	name: "wavelet",
	forms: []form{{"wavelet: {family: db4, levels: 4}",
		"the orthonormal wavelet transform, from a signal to its coefficients; haar, db2 to db10, sym4 to sym8"}},
	parse: func(s *Spec, n *operatorNode, args *yaml.Node) (operatorBuild, error) {
		complete := func(f section) bool { return f.has("family") && f.has("levels") }
		f, err := s.keys(n.node, args, "{family: db4, levels: 4}", complete, "family", "levels", "shape")
		if err != nil {
			return nil, err
		}
		family, levels, err := s.wavelet(f)
		if err != nil {
			return nil, err
		}
		own, err := s.ownShape(f)
		return func(b *specBuilder, rows, cols []int) (built, error) {
			// The input is the signal: the output may be larger.
			if cols != nil {
				rows = nil
			}
			shape, m, k, image, err := squareGrid(n, own, rows, cols)
			if err != nil {
				return built{}, err
			}
			var op *imaging.Wavelet
			if image {
				op, err = imaging.NewWavelet2D(m, k, family, levels)
			} else {
				op, err = imaging.NewWavelet1D(k, family, levels)
			}
			if err != nil {
				return built{}, trim(err)
			}
			b.load(op)
			coefficients := []int{length(shape)}
			if r, c := op.Coefficients(); image {
				coefficients = []int{r, c}
			} else {
				coefficients[0] = c
			}
			return built{op: op, rows: coefficients, cols: shape, rowAverages: op.Averages()}, nil
		}, err
	},
}
