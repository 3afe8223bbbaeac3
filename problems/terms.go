package problems

import (
	"context"
	"fmt"
	"math"

	"go.yaml.in/yaml/v3"

	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve"
)

// term is one r_k(K_k b) of a specification's terms.
type term struct {
	operator    *operatorNode // nil for the identity
	regularizer *regularizerNode
	line        int
}

// parsePenalties reads the key regularizer or the key terms.
func (s *Spec) parsePenalties(f section) (err error) {
	switch r, terms := f.nodes["regularizer"], f.nodes["terms"]; {
	case r != nil && terms != nil:
		return s.errorf(terms.Line, "there are both regularizer and terms, expected one of them: a term without "+
			"an operator is a regularizer of b")
	case terms != nil:
		return s.parseTerms(terms)
	default:
		s.regularizer, err = s.parseRegularizer(r)
		return err
	}
}

// parseTerms reads the key terms. Its regularizers are those of one node, whose blocks are the images
// of the operators.
func (s *Spec) parseTerms(n *yaml.Node) error {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return s.errorf(n.Line, "terms is %s, expected a list of terms such as - {operator: gradient, "+
			"regularizer: {l1: lambda}}", describe(n))
	}
	all := &regularizerNode{node: node{"terms", n.Line}}
	for _, c := range n.Content {
		f, err := s.fields(c, "a term", "operator", "regularizer")
		if err != nil {
			return err
		}
		t := term{line: c.Line}
		if f.nodes["regularizer"] == nil {
			return s.errorf(c.Line, "a term has no regularizer, expected - {operator: gradient, regularizer: "+
				"{l1: lambda}}")
		}
		if v := f.nodes["operator"]; v != nil {
			if t.operator, err = s.parseOperator(v); err != nil {
				return err
			}
		}
		if t.regularizer, err = s.parseRegularizer(f.nodes["regularizer"]); err != nil {
			return err
		}
		s.terms = append(s.terms, t)
		all.children = append(all.children, t.regularizer)
	}
	s.regularizer = all
	return nil
}

// behind builds the terms: the operator K behind which the sum of the penalties stands.
func (b *specBuilder) behind(cols []int, averages []int) ([]*penalty, error) {
	var all []*penalty
	var ops []linops.Operator
	for _, t := range b.terms {
		in, op := part{cols, averages}, linops.Identity(length(cols))
		var parts []part
		if t.operator != nil {
			k, err := b.operator(t.operator, nil, cols)
			if err != nil {
				return nil, err
			}
			in, parts, op = part{k.rows, k.rowAverages}, k.parts, k.op
		}
		ps, err := b.regularizer(t.regularizer, in, parts)
		if err != nil {
			return nil, err
		}
		total := 0
		for _, p := range ps {
			total += p.n
		}
		if d, _ := op.Dims(); d != total {
			return nil, b.errorf(t.line, "the regularizer of a term has %d entries, and its operator %d rows", total, d)
		}
		for _, p := range ps {
			p.direct = t.operator == nil
		}
		all, ops = append(all, ps...), append(ops, op)
	}
	b.p.Behind = linops.VStack(ops...)
	return all, nil
}

// signal says what is looked for, and returns A: the observations a of what a synthesis makes of b, or
// of b itself, where a penalty behind an operator takes its place and a is not a regression.
func (b *specBuilder) signal(a built) (built, error) {
	_, isComplex := b.Spec.operator.complexSides()
	switch {
	case b.Spec.synthesis != nil:
		w, err := b.operator(b.Spec.synthesis, a.cols, nil)
		if err != nil {
			return built{}, err
		}
		b.p.Signal, b.p.SignalShape, b.p.SignalComplex = w.op, a.cols, isComplex
		return multiply([]built{a, w}), nil
	case b.Spec.terms != nil && b.Spec.operator.matrix == nil && !linops.StructureOf(a.op).Identity:
		b.p.Signal, b.p.SignalShape, b.p.SignalComplex = linops.Identity(length(a.cols)), a.cols, isComplex
	}
	return a, nil
}

// checkTerms rejects what a specification with terms cannot have.
func (b *specBuilder) checkTerms(data Data) error {
	if len(b.terms) == 0 {
		return nil
	}
	line := b.terms[0].line
	switch {
	case !b.p.Loss.Squared():
		return b.errorf(line, "terms need the squared loss, weighted or not, and the loss is %s", b.p.Loss.Name)
	case data.Effects.Some():
		return b.errorf(line, "effects of rows and columns are asked for, which are not supported with terms")
	case data.Standardize:
		return b.errorf(line, "standardized columns are asked for, and terms are in the units of b: scale the "+
			"columns of the matrix in the data")
	}
	return nil
}

// behindMaximum returns a function that computes a weight at which K b = 0: with b the solution there
// and u of least norm among those with K* u = A* (y - A b), the dual norm of u. Where the rows of K
// depend on each other, as those of an image's differences do, another u may have a smaller dual norm,
// and the result is an upper bound of the smallest such weight. It is known where a single weight
// multiplies all terms, and, as that at which b = 0 without the other terms, where a norm of b itself
// has it and the other terms are norms: they are least at 0 too.
func (m *maximizer) behindMaximum(name string) func() (float64, error) {
	single := true
	for _, p := range m.penalties {
		if p.dual == nil || p.free && p.unpenalized != nil {
			return nil
		}
		single = single && p.norm.name == name
	}
	if !single {
		return m.directMaximum(name)
	}
	return func() (float64, error) {
		b := m.b
		y := b.dev.Alloc(1, len(m.y))
		defer y.Free()
		b.dev.Upload(y, m.y)
		u, err := solve.Multiplier(context.Background(), solve.Problem{A: b.p.Operator, Loss: b.p.loss, K: b.p.Behind,
			R: prox.Zero(), Device: b.dev}, y)
		if err != nil {
			return 0, weightErrorf(name, "is given as a multiple of its maximum, which could not be computed: %v", err)
		}
		defer u.Free()
		host, at, top := u.ToHost(), 0, 0.0
		for _, p := range m.penalties {
			v, err := p.dual(host[at:][:p.n])
			if err != nil {
				return 0, err
			}
			at += p.n
			top = math.Max(top, v/(p.factor*p.norm.scale))
		}
		return top, nil
	}
}

// directMaximum is the weight at which norms of b itself, without an operator, hold b at 0.
func (m *maximizer) directMaximum(name string) func() (float64, error) {
	covered, all := 0, m.b.p.P
	for _, p := range m.penalties {
		if p.direct && p.norm.name == name {
			covered += p.n
		}
	}
	if covered != all {
		return nil
	}
	return func() (float64, error) {
		g, at, top := m.gradient(m.residual(nil)), 0, 0.0
		for _, p := range m.penalties {
			if !p.direct || p.norm.name != name {
				continue
			}
			v, err := p.dual(g[at:][:p.n])
			if err != nil {
				return 0, err
			}
			at += p.n
			top = math.Max(top, v/(p.factor*p.norm.scale))
		}
		return top, nil
	}
}

var jointL2Regularizer = regularizerKind{
	name: "joint-l2",
	forms: []form{{"joint-l2: {weight: W, planes: k, vectorial: true}",
		"W sum_i ||(b_i, b_{n+i}, b_{2n+i}, ...)||_2 across k arrays of n numbers,\none after the other; " +
			"of a gradient isotropic total variation (default: the first axis).\nvectorial: the channels of a " +
			"pixel, or the parts of a complex number, in\none norm too: vectorial total variation (Bresson " +
			"and Chan 2008)"}},
	parse: func(s *Spec, n *regularizerNode, args *yaml.Node) (regularizerBuild, error) {
		f, err := s.arguments(n, args, "weight", "planes", "vectorial")
		if err != nil {
			return nil, err
		}
		w, err := s.weight(n, f.nodes["weight"], "weight", false, false)
		if err != nil {
			return nil, err
		}
		own := 0
		if v := f.nodes["planes"]; v != nil {
			if own, err = s.positive(v, "planes"); err != nil {
				return nil, err
			}
		}
		vectorial := false
		if v := f.nodes["vectorial"]; v != nil {
			if vectorial, err = s.truth(v, "vectorial"); err != nil {
				return nil, err
			}
		}
		return func(b *specBuilder, in part, _ []part) ([]*penalty, error) {
			planes := own
			if planes == 0 {
				planes = in.shape[0]
			}
			all := length(in.shape)
			if all%planes != 0 {
				return nil, fmt.Errorf("joint-l2 across %d arrays, expected a divisor of the number of entries, %d",
					planes, all)
			}
			size := all / planes
			if b.data.Anisotropic {
				return n.single(penalty{n: all, norm: w, dual: dualOfL1, make: w.at(prox.NewL1)}), nil
			}
			channels := 1
			if last := len(in.shape) - 1; last >= 3 && in.shape[last] <= mostChannels {
				channels = in.shape[last]
			} else if vectorial {
				return nil, fmt.Errorf("vectorial is for an image in colours or of complex numbers, whose last "+
					"axis are channels, but the shape is %s", formatShape(in.shape))
			}
			if !vectorial && !b.data.Vectorial {
				channels = 1
			}
			size /= channels
			return n.single(penalty{
				n: all, norm: w,
				dual: func(g []float64) (float64, error) { return dualOfJoint(g, size, channels), nil },
				make: w.at(func(w float64) prox.Prox { return prox.NewVectorialL2(size, planes, channels, w) }),
			}), nil
		}, nil
	},
}

// dualOfJoint is the largest norm across arrays of n pixels with some channels.
func dualOfJoint(g []float64, n, channels int) float64 {
	most := 0.0
	for i := range n {
		sum := 0.0
		for at := i * channels; at < len(g); at += n * channels {
			for _, v := range g[at : at+channels] {
				sum += v * v
			}
		}
		most = math.Max(most, sum)
	}
	return math.Sqrt(most)
}
