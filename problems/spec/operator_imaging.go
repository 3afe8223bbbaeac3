package spec

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/lists"
	"surepipe/internal/stored"
	"surepipe/linops"
	"surepipe/linops/imaging"
)

// held is an operator of the given sides, unless there is an error. What it holds is on the device until the problem
// is released.
func (b *builder) held(op linops.Loadable, err error, rows, cols []int) (built, error) {
	if err != nil {
		return built{}, Trim(err)
	}
	op.Load(b.dev)
	b.parts.Own(op.Release)
	return built{op: op, rows: rows, cols: cols}, nil
}

const (
	scikitImage = "scikit-image"
	foundCenter = "auto"
)

// The geometry of rays that are not parallel.
const fanBeam = "fan"

var projectionOperator = operatorKind{
	name: "projection",
	forms: []Form{
		{"projection: {angles: 180, detectors: 256, geometry: parallel, shape: [256, 256]}",
			"line integrals of an image (tomography): so many angles in 180 degrees, or an array of degrees;\n" +
				"y has a row for each angle. The image has as many pixels a side as there are detectors " +
				"unless\nshape says otherwise; spacing: 1 is that of the detectors, in pixels"},
		{"projection: {angles: 180, center: 127.5}",
			"with the axis of rotation at that detector, counted from 0, and in the middle of the image (default:\n" +
				"in the middle of both); center: scikit-image has it in detector n // 2 and pixel (m // 2, n // 2),\n" +
				"as its radon and iradon do; center: auto finds it from y"},
		{"projection: {angles: 360, geometry: fan, source: 500, detector: 500, spacing: 2}",
			"from a point at a distance of source pixels from the centre, to a line at that of detector"},
	},
	parameters: []Parameter{
		{Name: "angles", Read: countOrNumbers}, {Name: "detectors", Read: Count, Optional: true},
		{Name: "geometry", Read: Choice("parallel", fanBeam), Optional: true},
		{Name: "spacing", Read: Number, Optional: true}, {Name: "source", Read: Number, Optional: true},
		{Name: "detector", Read: Number, Optional: true}, ownShape,
		{Name: "center", Read: NumberOr(readAxis), Optional: true},
	},
	target: Targets{
		SURE:       "the squared error of mu_hat, the projections: that of the image may be far larger",
		Prediction: "the squared error of predicting an entry of y, the projections, noise included",
	},
	curved: true,
	check: func(n *operatorNode) error {
		fan := n.Text("geometry", "") == fanBeam
		switch {
		case fan != n.Given("source") || fan != n.Given("detector"):
			return n.Errorf("", "projection: source and detector, the distances from the centre, belong to "+
				"geometry: fan")
		case fan && n.Text("center", "") == foundCenter:
			return n.Errorf("", "center: auto is for parallel rays: expected the detector that the ray through "+
				"the axis of rotation meets")
		}
		return nil
	},
	build: buildProjection,
}

func countOrNumbers(c *Call, v *yaml.Node, what string) (any, error) {
	if _, number := asNumber(v); number {
		return c.spec.positive(v, what)
	}
	return c.spec.ref(v, what)
}

func readAxis(c *Call, v *yaml.Node, what string) (any, error) {
	name, err := c.spec.choice(v, what, []string{foundCenter, scikitImage})
	if err != nil {
		err = fmt.Errorf("%w, or a detector such as 127.5", err)
	}
	return name, err
}

func buildProjection(a *operatorArguments, rows, cols []int) (built, error) {
	fan := a.Text("geometry", "") == fanBeam
	given, listed := a.Array("angles")
	angles := given.Data
	count := len(angles)
	if !listed {
		count = a.Count("angles", 0)
	}
	detectors := a.Count("detectors", 0)
	if detectors == 0 {
		if rows == nil {
			return built{}, fmt.Errorf("the number of detectors does not follow from the position of projection, " +
				"expected projection: {angles: ..., detectors: 256}")
		}
		detectors = rows[len(rows)-1]
	}
	if n := count * detectors; rows != nil && lists.Product(rows) != n {
		return built{}, fmt.Errorf("projection at %d angles with %d detectors has %d values, expected %d as in "+
			"shape %s: a row for each angle; transpose y that has a column for each", count, detectors, n,
			lists.Product(rows), ndarray.ShapeString(rows))
	}
	const ray = 5 * 8 // bytes
	if err := stored.Fits(fmt.Sprintf("a projection at %d angles with %d detectors", count, detectors),
		ray*float64(count)*float64(detectors)); err != nil {
		return built{}, err
	}
	if !listed {
		angles = Degrees(count, fan)
	}
	shape := a.Shape("shape")
	switch {
	case shape == nil && len(cols) == 2:
		shape = cols
	case shape == nil:
		shape = []int{detectors, detectors}
	case len(shape) != 2:
		return built{}, fmt.Errorf("projection of an array of shape %s, expected an image, shape: [m, n]",
			ndarray.ShapeString(shape))
	}
	axis, err := a.axis(shape, rows, angles, detectors)
	if err != nil {
		return built{}, err
	}
	spacing := a.Number("spacing", 1)
	var op *imaging.Projection
	if fan {
		op, err = imaging.NewFanBeam(shape[0], shape[1], angles, detectors, spacing, a.Number("source", 0),
			a.Number("detector", 0), axis)
	} else {
		op, err = imaging.NewParallelBeam(shape[0], shape[1], angles, detectors, spacing, axis)
	}
	return a.held(op, err, []int{len(angles), detectors}, shape)
}

// axis is where the axis of rotation is, for a y of the shape rows: at a detector, counted from 0, or as a name says;
// in the middle where nothing does.
func (a *operatorArguments) axis(shape, rows []int, angles []float64, detectors int) (imaging.Axis, error) {
	middle := float64(detectors-1) / 2
	data := a.builder.data
	switch named := a.Text("center", ""); {
	case !a.Given("center"):
		return imaging.Axis{}, nil
	case named == scikitImage:
		return imaging.ScikitImage(shape[0], shape[1], detectors), nil
	case named == "":
		c, most := a.Number("center", 0), float64(detectors)
		if !(c > -most && c < 2*most) {
			return imaging.Axis{}, fmt.Errorf("center is %g, expected a detector from 0 to %d, or a place next to "+
				"them that is nearer than their number", c, detectors-1)
		}
		return imaging.Axis{Detector: c - middle}, nil
	case rows == nil || a.noise != nil || data.Complex || !slices.Equal(data.YShape, rows):
		return imaging.Axis{}, fmt.Errorf("center: auto takes the sinogram from y, expected an operator whose " +
			"first factor is the projection, and no key noise; or center: 127.5")
	}
	c, err := FindCenter(data.Y, angles, detectors)
	if err != nil {
		return imaging.Axis{}, fmt.Errorf("center: auto: %w; expected a number, as center: %g", err, middle)
	}
	a.parts.Center = &c
	return imaging.Axis{Detector: c.Value - middle}, nil
}

// Degrees are equally spaced angles: over half a turn, or the whole one for a fan.
func Degrees(count int, fan bool) []float64 {
	turn := 180.0
	if fan {
		turn = 360
	}
	return lists.Make(count, func(i int) float64 { return turn * float64(i) / float64(count) })
}

var fourierOperator = operatorKind{
	name: "fourier",
	forms: []Form{
		{"fourier: {mask: M, image: complex, centered: true}",
			"the two-dimensional orthonormal Fourier transform, at the frequencies where M is not 0, of an\n" +
				"image: complex (the default) or real. centered: true puts frequency 0 and the origin of the\n" +
				"image in the middle (default: false, at [0, 0]). Of several images, as coils have them, each"},
	},
	parameters: []Parameter{{Name: "mask", Read: Numbers},
		{Name: "image", Read: Choice("complex", "real"), Optional: true},
		{Name: "centered", Read: Truth, Optional: true}},
	complex: true,
	target: Targets{
		SURE:       "the squared error of mu_hat, the sampled frequencies: that of the image may be far larger",
		Prediction: "the squared error of predicting a sample of a frequency, noise included",
	},
	unordered: "y are samples of a Fourier transform, whose neighbours are not alike",
	check: func(n *operatorNode) error {
		n.realIn = n.Text("image", "") == "real"
		return nil
	},
	build: func(a *operatorArguments, rows, cols []int) (built, error) {
		mask, _ := a.Array("mask")
		layout := imaging.FourierLayout{Complex: !a.node.realIn, Centered: a.Truth("centered")}
		if len(mask.Shape) != 2 {
			return built{}, fmt.Errorf("array %q has shape %s, expected (m, n), a mask of the frequencies of an image",
				mask.Name, ndarray.ShapeString(mask.Shape))
		}
		places, err := maskPlaces(mask)
		if err != nil {
			return built{}, err
		}
		in, out := slices.Clone(mask.Shape), []int{len(places), 2}
		if layout.Complex {
			in = append(in, 2)
		}
		op, err := imaging.NewFourier(mask.Shape[0], mask.Shape[1], places, layout)
		one, err := a.held(op, err, out, in)
		if err != nil {
			return built{}, err
		}
		d, p := op.Dims()
		images := 1
		switch {
		case rows != nil && lists.Product(rows)%d != 0:
			return built{}, fmt.Errorf("fourier has %d complex samples, because array %q is not 0 at so many places; "+
				"expected a divisor of the %d real numbers in shape %s", len(places), mask.Name, lists.Product(rows),
				ndarray.ShapeString(rows))
		case rows != nil:
			images = lists.Product(rows) / d
		case cols != nil && lists.Product(cols)%p != 0:
			return built{}, fmt.Errorf("fourier transforms images of shape %s, expected a divisor of the %d real "+
				"numbers in shape %s", ndarray.ShapeString(in), lists.Product(cols), ndarray.ShapeString(cols))
		case cols != nil:
			images = lists.Product(cols) / p
		}
		if images <= 1 {
			return one, nil
		}
		all := slices.Repeat([]linops.Operator{op}, images)
		return built{op: linops.BlockDiag(all...), rows: append([]int{images}, out...),
			cols: append([]int{images}, in...)}, nil
	},
}

var coilsOperator = operatorKind{
	name: "coils",
	forms: []Form{{"coils: S", "a complex image as several coils see it (parallel MRI), s_c b for the " +
		"sensitivities S (c, m, n)"}},
	parameters: []Parameter{{Read: complexNumbers}},
	complex:    true,
	build: func(a *operatorArguments, _, _ []int) (built, error) {
		maps, _ := a.Array("")
		if !maps.Complex {
			maps = maps.WithImaginary()
		}
		if len(maps.Shape) != 4 {
			return built{}, fmt.Errorf("array %q has shape %s, expected complex sensitivities (c, m, "+
				"n) of c coils", maps.Name, ndarray.ShapeString(maps.Shape[:len(maps.Shape)-1]))
		}
		op, err := imaging.NewCoils(maps.Shape[0], maps.Shape[1]*maps.Shape[2], maps.Data)
		return a.held(op, err, maps.Shape, maps.Shape[1:])
	},
}

func complexNumbers(c *Call, v *yaml.Node, what string) (any, error) {
	ref, err := c.spec.ref(v, what)
	if err == nil {
		ref.complex = true
	}
	return ref, err
}
