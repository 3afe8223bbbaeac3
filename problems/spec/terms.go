package spec

import (
	"go.yaml.in/yaml/v3"

	"surepipe/internal/lists"
	"surepipe/linops"
)

// term is one r_k(K_k b) of a specification's terms.
type term struct {
	operator    *operatorNode // nil for the identity
	regularizer *regularizerNode
	line        int
}

// parseTerms reads the key terms. Its regularizers are those of one node, whose blocks are the images
// of the operators.
func (s *Spec) parseTerms(n *yaml.Node) error {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return s.Errorf(n.Line, "terms is %s, expected a list of terms such as - {operator: gradient, "+
			"regularizer: {l1: lambda}}", describe(n))
	}
	all := &regularizerNode{Call: Call{spec: s, name: "terms", line: n.Line}}
	for _, c := range n.Content {
		f, err := s.fields(c, "a term", "operator", "regularizer")
		if err != nil {
			return err
		}
		t := term{line: c.Line}
		if f["regularizer"] == nil {
			return s.Errorf(c.Line, "a term has no regularizer, expected - {operator: gradient, regularizer: "+
				"{l1: lambda}}")
		}
		if v := f["operator"]; v != nil {
			if t.operator, err = s.parseOperator(v); err != nil {
				return err
			}
		}
		if t.regularizer, err = s.parseRegularizer(f["regularizer"]); err != nil {
			return err
		}
		s.terms = append(s.terms, t)
		all.children = append(all.children, t.regularizer)
	}
	s.regularizer = all
	return nil
}

// behind builds the terms: the operator K behind which the sum of the penalties stands.
func (b *builder) behind(cols, averages []int) ([]*Penalty, error) {
	var all []*Penalty
	var ops []linops.Operator
	for _, t := range b.terms {
		in, op := Block{cols, averages}, linops.Identity(lists.Product(cols))
		var parts []Block
		if t.operator != nil {
			k, err := b.operator(t.operator, nil, cols)
			if err != nil {
				return nil, err
			}
			in, parts, op = Block{k.rows, k.rowAverages}, k.parts, k.op
		}
		ps, err := b.regularizer(t.regularizer, in, parts)
		if err != nil {
			return nil, err
		}
		total := 0
		for _, p := range ps {
			total += p.N
		}
		if d, _ := op.Dims(); d != total {
			return nil, b.Errorf(t.line, "the regularizer of a term has %d entries, and its operator %d rows", total, d)
		}
		for _, p := range ps {
			p.Direct = t.operator == nil
		}
		all, ops = append(all, ps...), append(ops, op)
	}
	b.parts.Behind = linops.VStack(ops...)
	return all, nil
}

// signal says what is looked for, and returns A: the observations a of what a synthesis makes of b, or
// of b itself, where a penalty behind an operator takes its place and a is not a regression.
func (b *builder) signal(a built) (built, error) {
	_, isComplex := b.Spec.operator.complexSides()
	p := b.parts
	switch {
	case b.Spec.synthesis != nil:
		w, err := b.operator(b.Spec.synthesis, a.cols, nil)
		if err != nil {
			return built{}, err
		}
		p.Signal, p.SignalShape, p.SignalComplex = w.op, a.cols, isComplex
		return multiply([]built{a, w}), nil
	case b.Spec.terms != nil && b.Spec.operator.matrix == nil && !linops.StructureOf(a.op).Identity:
		p.Signal, p.SignalShape, p.SignalComplex = linops.Identity(lists.Product(a.cols)), a.cols, isComplex
	}
	return a, nil
}
