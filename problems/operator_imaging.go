package problems

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/internal/stored"
	"surepipe/linops"
	"surepipe/linops/imaging"
)

var projectionOperator = operatorKind{
	name: "projection",
	forms: []form{
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
	parse: func(s *Spec, n *operatorNode, args *yaml.Node) (operatorBuild, error) {
		const expected = "{angles: 180, detectors: 256, geometry: parallel}"
		complete := func(f section) bool {
			return f.has("angles") && (f.has("source") == f.has("detector"))
		}
		f, err := s.keys(n.node, args, expected, complete, "angles", "detectors", "geometry", "spacing", "source",
			"detector", "shape", "center")
		if err != nil {
			return nil, err
		}
		g, err := s.parseScanner(n, f)
		if err != nil {
			return nil, err
		}
		return func(b *specBuilder, rows, cols []int) (built, error) { return g.build(b, rows, cols) }, nil
	},
}

// scanner is the geometry of a projection.
type scanner struct {
	fan bool
	// count angles at equal distances, or the array angles.
	count     int
	angles    *arrayRef
	detectors int // 0 where y says how many
	spacing   float64
	// source and detector are their distances from the centre, of a fan beam.
	source, detector float64
	shape            []int // nil where it is not given
	center           axisOf
}

// axisOf is where the axis of rotation is: at a detector, counted from 0, or as a name says; the zero value
// is the middle.
type axisOf struct {
	named    string
	detector *float64
}

// The names of axes.
const (
	scikitImage = "scikit-image"
	foundCenter = "auto"
)

func (s *Spec) parseAxis(n *yaml.Node) (a axisOf, err error) {
	if v, isNumber := parseNumber(n.Value); n.Kind == yaml.ScalarNode && isNumber == nil {
		a.detector = &v
		return a, nil
	}
	if a.named, err = s.choice(n, "center", []string{foundCenter, scikitImage}); err != nil {
		err = fmt.Errorf("%w, or a detector such as 127.5", err)
	}
	return a, err
}

func (s *Spec) parseScanner(n *operatorNode, f section) (g scanner, err error) {
	g.spacing = 1
	if v := f.nodes["geometry"]; v != nil {
		name, err := s.choice(v, "geometry", []string{"parallel", "fan"})
		if err != nil {
			return g, err
		}
		g.fan = name == "fan"
	}
	if g.fan != f.has("source") {
		return g, s.errorf(n.line, "projection: source and detector, the distances from the centre, belong to "+
			"geometry: fan")
	}
	if v := f.nodes["angles"]; v.Kind == yaml.ScalarNode {
		if _, isNumber := parseNumber(v.Value); isNumber == nil {
			g.count, err = s.positive(v, "angles")
		}
	}
	if err == nil && g.count == 0 {
		g.angles, err = s.ref(f.nodes["angles"], "angles")
	}
	if v := f.nodes["detectors"]; v != nil && err == nil {
		g.detectors, err = s.positive(v, "detectors")
	}
	for _, key := range []struct {
		name string
		to   *float64
	}{{"spacing", &g.spacing}, {"source", &g.source}, {"detector", &g.detector}} {
		if v := f.nodes[key.name]; v != nil && err == nil {
			*key.to, err = s.number(v, key.name)
		}
	}
	if v := f.nodes["center"]; v != nil && err == nil {
		g.center, err = s.parseAxis(v)
	}
	if g.fan && g.center.named == foundCenter {
		return g, s.errorf(n.line, "center: auto is for parallel rays: expected the detector that the ray through "+
			"the axis of rotation meets")
	}
	if err == nil {
		g.shape, err = s.ownShape(f)
	}
	return g, err
}

func (g *scanner) build(b *specBuilder, rows, cols []int) (built, error) {
	count := g.count
	if g.angles != nil {
		count = len(b.array(g.angles).Data)
	}
	detectors := g.detectors
	if detectors == 0 {
		if rows == nil {
			return built{}, fmt.Errorf("the number of detectors does not follow from the position of projection, " +
				"expected projection: {angles: ..., detectors: 256}")
		}
		detectors = rows[len(rows)-1]
	}
	if n := count * detectors; rows != nil && length(rows) != n {
		return built{}, fmt.Errorf("projection at %d angles with %d detectors has %d values, expected %d as in "+
			"shape %s: a row for each angle", count, detectors, n, length(rows), formatShape(rows))
	}
	const ray = 5 * 8 // bytes
	if err := stored.Fits(fmt.Sprintf("a projection at %d angles with %d detectors", count, detectors),
		ray*float64(count)*float64(detectors)); err != nil {
		return built{}, err
	}
	angles := g.degrees()
	if g.angles != nil {
		angles = b.array(g.angles).Data
	}
	shape := g.shape
	switch {
	case shape == nil && len(cols) == 2:
		shape = cols
	case shape == nil:
		shape = []int{detectors, detectors}
	case len(shape) != 2:
		return built{}, fmt.Errorf("projection of an array of shape %s, expected an image, shape: [m, n]",
			formatShape(shape))
	}
	axis, err := g.axis(b, shape, rows, angles, detectors)
	if err != nil {
		return built{}, err
	}
	var op *imaging.Projection
	if g.fan {
		op, err = imaging.NewFanBeam(shape[0], shape[1], angles, detectors, g.spacing, g.source, g.detector, axis)
	} else {
		op, err = imaging.NewParallelBeam(shape[0], shape[1], angles, detectors, g.spacing, axis)
	}
	if err != nil {
		return built{}, trim(err)
	}
	b.load(op)
	return built{op: op, rows: []int{len(angles), detectors}, cols: shape}, nil
}

// axis is where the axis of rotation is, for a y of the shape rows.
func (g *scanner) axis(b *specBuilder, shape, rows []int, angles []float64, detectors int) (imaging.Axis, error) {
	middle := float64(detectors-1) / 2
	switch {
	case g.center.detector != nil:
		c, most := *g.center.detector, float64(detectors)
		if !(c > -most && c < 2*most) {
			return imaging.Axis{}, fmt.Errorf("center is %g, expected a detector from 0 to %d, or a place next to "+
				"them that is nearer than their number", c, detectors-1)
		}
		return imaging.Axis{Detector: c - middle}, nil
	case g.center.named == scikitImage:
		return imaging.ScikitImage(shape[0], shape[1], detectors), nil
	case g.center.named == "":
		return imaging.Axis{}, nil
	case rows == nil || b.noise != nil || b.data.Complex || !slices.Equal(b.data.YShape, rows):
		return imaging.Axis{}, fmt.Errorf("center: auto takes the sinogram from y, expected an operator whose " +
			"first factor is the projection, and no key noise; or center: 127.5")
	}
	c, err := FindCenter(b.data.Y, angles, detectors)
	if err != nil {
		return imaging.Axis{}, fmt.Errorf("center: auto: %w; expected a number, as center: %g", err, middle)
	}
	b.p.Center = &c
	return imaging.Axis{Detector: c.Value - middle}, nil
}

// load puts what an operator holds on the device, until the problem is released.
func (b *specBuilder) load(op interface {
	Load(dev array.Device)
	Release()
}) {
	op.Load(b.dev)
	b.p.own(op.Release)
}

// degrees are equally spaced angles: over half a turn, or the whole one for a fan.
func (g *scanner) degrees() []float64 {
	turn := 180.0
	if g.fan {
		turn = 360
	}
	angles := make([]float64, g.count)
	for i := range angles {
		angles[i] = turn * float64(i) / float64(g.count)
	}
	return angles
}

var fourierOperator = operatorKind{
	name: "fourier",
	forms: []form{
		{"fourier: {mask: M, image: complex, centered: true}",
			"the two-dimensional orthonormal Fourier transform, at the frequencies where M is not 0, of an\n" +
				"image: complex (the default) or real. centered: true puts frequency 0 and the origin of the\n" +
				"image in the middle (default: false, at [0, 0]). Of several images, as coils have them, each"},
	},
	parse: func(s *Spec, n *operatorNode, args *yaml.Node) (operatorBuild, error) {
		f, err := s.keys(n.node, args, "{mask: M, image: complex, centered: true}",
			func(f section) bool { return f.has("mask") }, "mask", "image", "centered")
		if err != nil {
			return nil, err
		}
		layout := imaging.FourierLayout{Complex: true}
		if v := f.nodes["image"]; v != nil {
			kind, err := s.choice(v, "image", []string{"complex", "real"})
			if err != nil {
				return nil, err
			}
			layout.Complex = kind == "complex"
		}
		if v := f.nodes["centered"]; v != nil {
			if layout.Centered, err = s.truth(v, "centered"); err != nil {
				return nil, err
			}
		}
		n.complexOut, n.complexIn = true, layout.Complex
		mask, err := s.ref(f.nodes["mask"], "mask")
		return func(b *specBuilder, rows, cols []int) (built, error) {
			return b.buildFourier(b.array(mask), layout, rows, cols)
		}, err
	},
}

func (b *specBuilder) buildFourier(mask dataio.Array, layout imaging.FourierLayout, rows, cols []int) (built, error) {
	if len(mask.Shape) != 2 {
		return built{}, fmt.Errorf("array %q has shape %s, expected (m, n), a mask of the frequencies of an image",
			mask.Name, formatShape(mask.Shape))
	}
	places, err := maskPlaces(mask)
	if err != nil {
		return built{}, err
	}
	op, err := imaging.NewFourier(mask.Shape[0], mask.Shape[1], places, layout)
	if err != nil {
		return built{}, trim(err)
	}
	b.load(op)
	d, p := op.Dims()
	in, out := slices.Clone(mask.Shape), []int{len(places), 2}
	if layout.Complex {
		in = append(in, 2)
	}
	images := 1
	switch {
	case rows != nil && length(rows)%d != 0:
		return built{}, fmt.Errorf("fourier has %d complex samples, because array %q is not 0 at so many places; "+
			"expected a divisor of the %d real numbers in shape %s", len(places), mask.Name, length(rows),
			formatShape(rows))
	case rows != nil:
		images = length(rows) / d
	case cols != nil && length(cols)%p != 0:
		return built{}, fmt.Errorf("fourier transforms images of shape %s, expected a divisor of the %d real "+
			"numbers in shape %s", formatShape(in), length(cols), formatShape(cols))
	case cols != nil:
		images = length(cols) / p
	}
	if images <= 1 {
		return built{op: op, rows: out, cols: in}, nil
	}
	all := slices.Repeat([]linops.Operator{op}, images)
	return built{op: linops.BlockDiag(all...), rows: append([]int{images}, out...),
		cols: append([]int{images}, in...)}, nil
}

var coilsOperator = operatorKind{
	name: "coils",
	forms: []form{{"coils: S", "a complex image as several coils see it (parallel MRI), s_c b for the " +
		"sensitivities S (c, m, n)"}},
	parse: func(s *Spec, n *operatorNode, args *yaml.Node) (operatorBuild, error) {
		err := s.required(n.node, args, "the name of an array of complex sensitivities, as in coils: S")
		if err != nil {
			return nil, err
		}
		n.complexOut, n.complexIn = true, true
		maps, err := s.ref(args, n.kind)
		if err != nil {
			return nil, err
		}
		maps.complex = true
		return func(b *specBuilder, _, _ []int) (built, error) {
			a := b.array(maps)
			if !a.Complex {
				a = a.WithImaginary()
			}
			if len(a.Shape) != 4 {
				return built{}, fmt.Errorf("array %q has shape %s, expected complex sensitivities (c, m, "+
					"n) of c coils", a.Name, formatShape(a.Shape[:len(a.Shape)-1]))
			}
			op, err := imaging.NewCoils(a.Shape[0], a.Shape[1]*a.Shape[2], a.Data)
			if err != nil {
				return built{}, trim(err)
			}
			b.load(op)
			return built{op: op, rows: a.Shape, cols: a.Shape[1:]}, nil
		}, nil
	},
}

// complexSides reports whether the output and the input of the operator are arrays of complex
// numbers.
func (n *operatorNode) complexSides() (out, in bool) {
	if len(n.children) == 0 || n.complexOut {
		return n.complexOut, n.complexIn
	}
	out, in = n.children[0].complexSides()
	if last := n.children[len(n.children)-1]; last != n.children[0] {
		_, in = last.complexSides()
	}
	if n.kind == "adjoint" {
		out, in = in, out
	}
	return out, in
}

// contains reports whether the tree contains an operator of one of the kinds.
func (n *operatorNode) contains(kinds ...string) bool {
	return slices.Contains(kinds, n.kind) || slices.ContainsFunc(n.children,
		func(c *operatorNode) bool { return c.contains(kinds...) })
}
