package spec

import (
	"slices"
	"strings"
)

// Targets are what the estimates of risk are about, in words, where a user may take them for
// estimates of something else; empty elsewhere.
type Targets struct {
	// SURE is what SURE estimates the squared error of, and Prediction what leave-one-out, and GCV
	// as its approximation, estimates the error of.
	SURE, Prediction string
	// Noise says how the noise is not white: risks are then those of the whitened y.
	Noise Noise
}

// targets is what risks of the specification are about, when the operator has been built: n is the
// number of entries of what it selects from or transforms.
func (s *Spec) targets(d, n int) (t Targets) {
	if s.operator.selects() && d < n {
		return Targets{
			SURE:       "the squared error at the observed entries: at missing ones it may be far larger",
			Prediction: "the squared error of predicting an entry that is not observed, noise included",
		}
	}
	s.operator.each(func(o *operatorNode) {
		if t == (Targets{}) {
			t = o.row.target
		}
	})
	if t == (Targets{}) && s.operator.adds() {
		return Targets{
			SURE:       "the squared error of the sum of the parts, such as L + S, not of the split into parts",
			Prediction: "the squared error of predicting an entry of the sum of the parts, noise included",
		}
	}
	return t
}

// adds reports whether the operator adds several blocks of b that are signals themselves.
func (n *operatorNode) adds() bool {
	return n.row.adds && !slices.ContainsFunc(n.children, func(c *operatorNode) bool { return !c.row.identity })
}

// Of are the targets with the loss: SURE is not defined for other losses than the squared one.
func (t Targets) Of(l Loss) Targets {
	if l.Squared() {
		return t
	}
	about := strings.Replace(t.Prediction, "the squared error", "the "+l.Name+" loss", 1)
	return Targets{Prediction: strings.TrimSuffix(about, ", noise included")}
}
