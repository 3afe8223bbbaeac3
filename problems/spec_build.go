package problems

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/solve"
)

// specBuilder builds one problem of a specification.
type specBuilder struct {
	*Spec
	dev array.Device
	p   *Problem
	// data are those the problem is built for.
	data Data
	// sources are the operators made of arrays.
	sources []source
	// roots are the square roots of the weights of the loss, nil where there are none.
	roots []float64
}

func (b *specBuilder) array(ref *arrayRef) dataio.Array { return b.loaded[ref].Array }

// build makes the problem that the specification describes.
func (s *Spec) build(p *Problem, data Data, hyper Hyper) error {
	if err := s.check(data); err != nil {
		return s.at(s.data.line, err)
	}
	b := &specBuilder{Spec: s, dev: p.dev, p: p, data: data}
	shape := data.YShape
	if s.noise != nil {
		shape = s.observedShape
	}
	a, err := b.operator(s.operator, shape, nil)
	if err != nil {
		return err
	}
	p.Targets = s.targets(length(a.rows), length(a.cols)).of(s.lossOf(data)).ofNoise(s.Noise())
	measured := a
	if a, err = b.signal(a); err != nil {
		return err
	}
	if a, measured, err = b.whitened(a, measured); err != nil {
		return err
	}
	p.Measurement = measured.op
	p.Operator, p.MuShape, p.BShape, p.Frames = a.op, data.YShape, a.cols, data.Frames
	p.MuComplex = data.Complex
	p.D, p.P = a.op.Dims()
	from := b.source(a.op)
	p.rows = s.operator.matrix != nil && s.synthesis == nil
	if from != nil && len(a.cols) == 2 {
		p.observed = from.places
	}
	p.redundant, p.levels = data.redundant(), data.levels()
	if err := b.loss(data); err != nil {
		return err
	}
	if data.Intercept || data.Standardize {
		if err := b.checkColumns(data); err != nil {
			return err
		}
		if err := p.prepare(from, data.Intercept, data.Standardize); err != nil {
			return err
		}
		if p.Loss.Squared() {
			data.Y = data.fitted()
		} else if data.Intercept {
			p.unpenalize()
		}
	}
	if data.Effects.Some() {
		if data.Y, err = b.withoutEffects(data, from, a.cols); err != nil {
			return err
		}
	}
	if low := b.Spec.regularizer; low == nil || !low.nuclear() { // a low rank needs no vector of length p
		if err := fits(a.cols, "b of shape"); err != nil {
			return err
		}
	}
	penalties, err := b.penalties(data, a)
	if err != nil {
		return err
	}
	if err := b.weights(&maximizer{b: b, penalties: penalties, y: data.Y, from: from}, data, hyper); err != nil {
		return err
	}
	p.reweigh = func(lambda, lambda2, gamma float64) (prox.Prox, error) {
		return b.combine(penalties, map[string]float64{"lambda": lambda, "lambda2": lambda2, "gamma": gamma})
	}
	if p.Regularizer, err = p.reweigh(p.Lambda, p.Lambda2, p.Gamma); err != nil {
		return err
	}
	p.DefaultSolver, p.DefaultTol = solve.Default(p.Solve()), s.Solver.Tol
	return nil
}

// penalties are those of the regularizer or of the terms, and that of an intercept in b.
func (b *specBuilder) penalties(data Data, a built) (penalties []*penalty, err error) {
	if err := b.checkTerms(data); err != nil {
		return nil, err
	}
	if b.terms != nil {
		penalties, err = b.behind(a.cols, a.colAverages)
	} else {
		penalties, err = b.regularizer(b.Spec.regularizer, part{a.cols, a.colAverages}, a.parts)
	}
	if b.p.constant > 0 {
		penalties = append(penalties, intercept())
	}
	return penalties, err
}

// check rejects data from which the specification cannot be built.
func (s *Spec) check(data Data) error {
	if s.named != nil {
		return s.named.check(data)
	}
	if err := checkVector("y", data.Y, data.YShape, len(data.YShape), "an array"); err != nil {
		return err
	}
	return checkMu(data)
}

// checkColumns rejects an intercept or standardized columns in a specification that cannot have
// them.
func (b *specBuilder) checkColumns(data Data) error {
	switch {
	case data.Standardize && b.Spec.operator.matrix == nil:
		return b.errorf(b.Spec.operator.line, "standardized columns are asked for, but the operator is not a "+
			"matrix, whose columns have units: expected operator: {matrix: X}")
	case data.Standardize && b.synthesis != nil:
		return b.errorf(b.synthesis.line, "standardized columns are asked for, but a specification with a "+
			"synthesis cannot have them")
	case data.Standardize && b.lossWeights != nil:
		return b.errorf(b.lossWeights.line, "standardized columns are asked for, which is not supported with "+
			"weights of the observations: scale the columns of the matrix in the data")
	case !data.Intercept:
		return nil
	case b.synthesis != nil:
		return b.errorf(b.synthesis.line, "an intercept is asked for, but a specification with a synthesis "+
			"cannot have one")
	case b.lossWeights != nil && b.p.Loss.Squared():
		return b.errorf(b.lossWeights.line, "an intercept is asked for, but with weights the mean of y does not "+
			"estimate it: expected an unpenalized column of ones in the operator, or no weights")
	}
	return nil
}

// loss makes the loss, and puts the weights of the squared loss on the device.
func (b *specBuilder) loss(data Data) error {
	if b.p.Loss = b.lossOf(data); !b.p.Loss.Squared() {
		return b.otherLoss(data)
	}
	weights, line, err := b.observationWeights(data)
	if err != nil {
		return err
	}
	if weights == nil {
		return b.p.Loss.Check()
	}
	l, err := loss.WeightedSquared(b.dev, weights)
	if err != nil {
		return b.at(line, trim(err))
	}
	b.p.own(l.Release)
	b.p.loss = l
	b.roots = make([]float64, len(weights))
	for i, w := range weights {
		b.roots[i] = math.Sqrt(w)
	}
	return nil
}

// observationWeights are those of the loss, of the specification or of the data, and the line that
// they come from; nil for ones.
func (b *specBuilder) observationWeights(data Data) (weights []float64, line int, err error) {
	a := dataio.Array{Name: "weights", Shape: []int{len(data.Weights)}, Data: data.Weights}
	switch ref := b.lossWeights; {
	case ref != nil && data.Weights != nil:
		return nil, 0, b.errorf(ref.line, "the data have weights of the observations, and the specification has "+
			"its own: expected one of them")
	case ref != nil:
		a, line = b.array(ref), ref.line
	case data.Weights == nil:
		return nil, 0, nil
	}
	if err := checkLossWeights(a, b.p.D); err != nil {
		return nil, 0, b.at(line, err)
	}
	return a.Data, line, nil
}

// otherLoss makes a loss that is not squared.
func (b *specBuilder) otherLoss(data Data) error {
	if err := b.p.Loss.Check(); err != nil {
		return err
	}
	weights, _, err := b.observationWeights(data)
	if err != nil {
		return err
	}
	l, err := b.p.Loss.make(weights)
	if err != nil {
		return trim(err)
	}
	b.p.loss = l
	return b.p.Loss.checkY(l, data)
}

// checkLossWeights rejects weights of the loss unless they are d numbers >= 0, some of them
// positive.
func checkLossWeights(a dataio.Array, d int) error {
	if len(a.Data) != d {
		return fmt.Errorf("array %q has %d values, expected %d, a weight for each entry of y", a.Name, len(a.Data), d)
	}
	if err := checkFinite(a.Name, a.Data, a.Shape); err != nil {
		return err
	}
	for i, w := range a.Data {
		if w < 0 {
			return fmt.Errorf("array %q holds %g at %s, expected weights of at least 0", a.Name, w,
				formatPlace(i, a.Shape))
		}
	}
	if maxAbs(a.Data) == 0 {
		return fmt.Errorf("array %q is 0 everywhere, expected some positive weights", a.Name)
	}
	return checkScale(a.Name, maxAbs(a.Data))
}

// combine is the sum of the penalties at the given weights.
func (b *specBuilder) combine(penalties []*penalty, weights map[string]float64) (prox.Prox, error) {
	for _, u := range b.Spec.regularizer.uses() {
		// A multiple of a weight may overflow or underflow where the weight does not.
		if v := u.expr.value(weights); !(v > 0 || u.zero && v == 0) || u.finite && math.IsInf(v, 0) {
			return nil, b.errorf(u.line, "a weight is %g, expected a positive number", v)
		}
	}
	blocks := make([]prox.Prox, len(penalties))
	for i, p := range penalties {
		r, err := p.make(weights)
		if err != nil {
			return nil, err
		}
		if p.factor != 1 {
			r = prox.NewScaled(p.factor, r)
		}
		if len(penalties) == 1 {
			return r, nil
		}
		blocks[i] = prox.Block{Prox: r, N: p.n}
	}
	return prox.NewSeparable(blocks...), nil
}

// weights sets the values of lambda, lambda2 and gamma.
func (b *specBuilder) weights(m *maximizer, data Data, hyper Hyper) error {
	p := b.p
	uses := b.Spec.regularizer.uses()
	for _, w := range []struct {
		name string
		flag Weight
		file *float64
		to   *float64
	}{{"lambda", hyper.Lambda, data.Lambda, &p.Lambda}, {"lambda2", hyper.Lambda2, data.Lambda2, &p.Lambda2},
		{"gamma", hyper.Gamma, data.Gamma, &p.Gamma}} {
		i := slices.IndexFunc(uses, func(u weightUse) bool { return u.expr.name == w.name })
		if i < 0 {
			continue
		}
		line, zero, finite := uses[i].line, true, false
		for _, u := range uses {
			if u.expr.name == w.name {
				zero, finite = zero && u.zero, finite || u.finite
			}
		}
		weight := w.flag
		if own := b.Spec.weights[w.name]; own != nil && !weight.given {
			line, weight = own.line, own.weight
		}
		weight = weight.or(w.file)
		var err error
		switch {
		case !weight.given && b.named == nil:
			err = fmt.Errorf("%s has no value: expected %s: NUMBER in the specification, the flag --%s, or %s in "+
				"the data file", w.name, w.name, w.name, w.name)
		case weight == Absolute(0) && zero:
			*w.to = 0
		default:
			*w.to, err = p.weight(w.name, weight, m.of(w.name))
			if err == nil && finite && math.IsInf(*w.to, 0) {
				err = weightErrorf(w.name, "is infinite, expected a finite number")
			}
		}
		if w.flag.given && err != nil {
			return err
		}
		if err != nil {
			return b.at(line, err)
		}
	}
	return nil
}

// To find a maximum, z is projected on at most this many columns of A, with at most this many
// entries in all. They take some seconds, and 128 MiB.
const (
	maxUnpenalized       = 256
	maxUnpenalizedValues = 1 << 24
)

// maximizer computes the maxima of weights at one y.
type maximizer struct {
	b         *specBuilder
	penalties []*penalty
	y         []float64
	// from is the array of which the operator was made, nil where there is none.
	from *source
	// z is w (y - P y), as residual returns it, and g is A* z; nil before they are needed.
	z, g []float64
}

// of returns a function that computes the smallest weight of that name at which the blocks of b
// that use it are 0; nil where no penalty on them is a norm.
func (m *maximizer) of(name string) func() (float64, error) {
	if m.b.terms != nil {
		return m.behindMaximum(name)
	}
	bears := func(p *penalty) bool { return p.dual != nil && p.norm.name == name }
	if !slices.ContainsFunc(m.penalties, bears) {
		return nil
	}
	return func() (float64, error) {
		if m.z == nil {
			free, err := m.unpenalized(name)
			if err != nil {
				return 0, err
			}
			if m.b.p.Loss.Squared() {
				m.z = m.residual(free)
			} else if m.z, err = m.slope(free); err != nil {
				return 0, weightErrorf(name, "is given as a multiple of its maximum, which is not known: %v", err)
			}
		}
		if p := m.penalties[0]; len(m.penalties) == 1 && p.dualAt != nil && m.from != nil && m.from.places != nil {
			v, err := p.dualAt(m.b.dev, m.z, m.from.places)
			return v / (p.factor * p.norm.scale), err
		}
		if m.g == nil {
			m.g = m.gradient(m.z)
		}
		top, at := 0.0, 0
		for _, p := range m.penalties {
			block := m.g[at:][:p.n]
			if at += p.n; !bears(p) {
				continue
			}
			v, err := p.dual(block)
			if err != nil {
				return 0, err
			}
			top = max(top, v/(p.factor*p.norm.scale))
		}
		return top, nil
	}
}

// unpenalized lists the coordinates of b that remain free at the maximum of a weight and on whose
// columns of A z must be projected. It rejects other kinds of free coordinates.
func (m *maximizer) unpenalized(name string) (free []int, err error) {
	b := m.b
	if linops.StructureOf(b.p.Operator).Columns.Known && b.roots == nil && b.p.Loss.Squared() {
		return nil, nil
	}
	at := 0
	for _, p := range m.penalties {
		if p.free && p.unpenalized == nil || p.norm.name == "" && len(p.unpenalized) < p.n {
			return nil, weightErrorf(name, "is given as a multiple of its maximum, which is not known: the "+
				"penalty%s leaves coordinates of b free at %s's maximum, and the operator's columns are not "+
				"orthogonal; expected a number", b.atLine(p.line), name)
		}
		for _, j := range p.unpenalized {
			free = append(free, at+j)
		}
		at += p.n
	}
	if n := len(free); n > maxUnpenalized || n*b.p.D > maxUnpenalizedValues {
		return nil, weightErrorf(name, "is given as a multiple of its maximum, which is not known for %d "+
			"coordinates of b without a penalty and %d values in y: expected a number, or at most "+
			"%d such coordinates", n, b.p.D, min(maxUnpenalized, maxUnpenalizedValues/b.p.D))
	}
	return free, nil
}

// atLine names a line of the specification's file, for errors.
func (s *Spec) atLine(line int) string {
	if s.named != nil {
		return ""
	}
	return fmt.Sprintf(" at line %d", line)
}

// residual is w (y - P y), where w are the weights of the loss, if any, and P projects on the span
// of some columns of A in their inner product: the residual of the fit by these columns, with all
// other coordinates 0. The columns are made orthonormal one by one, by Gram-Schmidt twice. A column
// that depends on those before it adds nothing.
func (m *maximizer) residual(columns []int) []float64 {
	b := m.b
	if b.roots == nil && len(columns) == 0 {
		return m.y
	}
	y := b.rooted(slices.Clone(m.y))
	if len(columns) == 0 {
		return b.rooted(y)
	}
	const eps = 1e-13
	d, p := b.p.D, b.p.P
	left, norm := slices.Clone(y), norm2(y)
	remove := func(x, q []float64) {
		c := floats.Dot(q, x)
		floats.AddScaled(x, -c, q)
	}
	var basis [][]float64
	unit, image := b.dev.Alloc(1, p), b.dev.Alloc(1, d)
	defer unit.Free()
	defer image.Free()
	e := make([]float64, p)
	for _, j := range columns {
		e[j] = 1
		b.dev.Upload(unit, e)
		e[j] = 0
		b.p.Operator.Forward(image, unit)
		x := b.rooted(image.ToHost())
		size := norm2(x)
		for range 2 {
			for _, q := range basis {
				remove(x, q)
			}
		}
		if rest := norm2(x); rest > eps*size {
			floats.Scale(1/rest, x)
			basis = append(basis, x)
			remove(left, x)
		}
	}
	// Where y lies in the span, the remaining rounding errors do not count as a maximum.
	if norm2(left) <= eps*norm {
		clear(left)
	}
	return b.rooted(left)
}

// rooted multiplies x by the square roots of the weights of the loss, if any, in place.
func (b *specBuilder) rooted(x []float64) []float64 {
	if b.roots != nil {
		floats.Mul(x, b.roots)
	}
	return x
}

// gradient is A* z.
func (m *maximizer) gradient(z []float64) []float64 {
	b := m.b
	if linops.StructureOf(b.p.Operator).Identity {
		return z
	}
	from, to := b.dev.Alloc(1, len(z)), b.dev.Alloc(1, b.p.P+b.p.extra())
	defer from.Free()
	defer to.Free()
	b.dev.Upload(from, z)
	b.p.Operator.Adjoint(to, from)
	return to.ToHost()
}
