package spec

import (
	"fmt"
	"math"
	"slices"
)

// Line is that of a key of the specification, such as operator; 0 where the key is missing.
func (s *Spec) Line(key string) int { return s.lines[key] }

// AtLine names a line for the middle of an error; an embedded specification has none.
func (s *Spec) AtLine(line int) string {
	if s.embedded {
		return ""
	}
	return fmt.Sprintf(" at line %d", line)
}

// LossOf is the loss of the data, or else of the specification.
func (s *Spec) LossOf(data Data) Loss {
	if data.Loss.Name != "" {
		return data.Loss
	}
	return s.Loss
}

// Weight is the value that the specification gives a weight of that name, and its line, 0 where it gives none.
func (s *Spec) Weight(name string) (Weight, int) {
	if w := s.weights[name]; w != nil {
		return w.weight, w.line
	}
	return Weight{}, 0
}

// Use is where a weight of that name is used first, and whether it may be 0, and must be finite, in all uses;
// used is false where nothing uses it.
func (s *Spec) Use(name string) (all Use, used bool) {
	for _, u := range s.regularizer.uses() {
		switch {
		case u.Name != name:
		case !used:
			all, used = u, true
		default:
			all.Zero, all.Finite = all.Zero && u.Zero, all.Finite || u.Finite
		}
	}
	return all, used
}

// CheckUses rejects weights whose multiples are not positive, or infinite where they must not be: a multiple
// may overflow or underflow where the weight does not.
func (s *Spec) CheckUses(weights Weights) error {
	for _, u := range s.regularizer.uses() {
		if v := u.Value(weights); !(v > 0 || u.Zero && v == 0) || u.Finite && math.IsInf(v, 0) {
			return s.Errorf(u.Line, "a weight is %g, expected a positive number", v)
		}
	}
	return nil
}

// Regression reports whether the operator is a matrix of the data.
func (s *Spec) Regression() bool { return s.operator.matrix != nil }

// Plain reports whether the operator is the identity.
func (s *Spec) Plain() bool { return s.operator.row.identity }

// Terms is how many terms the penalty has behind operators, 0 where it is of b itself.
func (s *Spec) Terms() int { return len(s.terms) }

// Design is the matrix of the operator, where A is a matrix that has been read; the zero Matrix elsewhere.
func (s *Spec) Design() Matrix {
	if s.operator.matrix == nil || s.synthesis != nil || s.loaded[s.operator.matrix] == nil {
		return Matrix{}
	}
	m, _ := s.loaded[s.operator.matrix].matrix()
	return m
}

// Selects reports whether the operator picks entries: of a sequence with gaps, the values that are there.
func (s *Spec) Selects() bool { return s.operator.selects() }

// Sampled are the places that A picks from the signal, and its shape; ok is false where A is no selection.
func (s *Spec) Sampled() (places, shape []int, ok bool, err error) {
	if s.operator.sampled == nil {
		return nil, nil, false, nil
	}
	places, shape, err = s.operator.sampled(s)
	return places, shape, true, s.At(s.operator.line, err)
}

// Unordered says why neighbours in y need not be alike, as the operator's kind does; "" where they are.
func (s *Spec) Unordered() string {
	reason := ""
	s.operator.each(func(n *operatorNode) {
		if n.row.unordered != "" {
			reason = n.row.unordered
		}
	})
	return reason
}

// Curved reports whether y is a sinogram: in its smoothest parts a few pixels are far from the mean of their neighbours
// without noise.
func (s *Spec) Curved() bool {
	curved := false
	s.operator.each(func(n *operatorNode) { curved = curved || n.row.curved })
	return curved
}

// Placed reports whether there are differences, which depend on the distances of Data.At.
func (s *Spec) Placed() bool {
	placed := false
	for _, t := range s.terms {
		if t.operator != nil {
			t.operator.each(func(n *operatorNode) { placed = placed || n.row.placed })
		}
	}
	return placed
}

// LowRank reports whether a penalty makes b a matrix of low rank, and BesideSparse whether it does so for one
// block and another penalty makes another block sparse.
func (s *Spec) LowRank() bool { return s.regularizer.has(lowRank) }

// BesideSparse is said with LowRank.
func (s *Spec) BesideSparse() bool {
	r := s.regularizer
	return s.terms == nil && len(r.children) > 1 && r.has(lowRank) &&
		slices.ContainsFunc(r.children, func(c *regularizerNode) bool { return c.row.Sparse })
}

// Sequences reports whether a matrix y is one of sequences side by side, its rows.
func (s *Spec) Sequences() bool { return s.terms == nil && s.regularizer.row.Sequences && !s.images }

// Unpenalized reports whether nothing is penalized.
func (s *Spec) Unpenalized() bool { return s.regularizer.row.None }

// Images reports whether y is an image by its file.
func (s *Spec) Images() bool { return s.images }

func lowRank(k RegularizerKind) bool { return k.LowRank }
