package problems

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
func (s *Spec) targets(d, n int) Targets {
	switch {
	case s.operator.selects() && d < n:
		return Targets{
			SURE:       "the squared error at the observed entries: at missing ones it may be far larger",
			Prediction: "the squared error of predicting an entry that is not observed, noise included",
		}
	case s.operator.contains("projection"):
		return Targets{
			SURE:       "the squared error of mu_hat, the projections: that of the image may be far larger",
			Prediction: "the squared error of predicting an entry of y, the projections, noise included",
		}
	case s.operator.contains("fourier"):
		return Targets{
			SURE:       "the squared error of mu_hat, the sampled frequencies: that of the image may be far larger",
			Prediction: "the squared error of predicting a sample of a frequency, noise included",
		}
	case s.operator.contains("convolution"):
		return Targets{
			SURE:       "the squared error of mu_hat, the blurred signal: that of the signal may be far larger",
			Prediction: "the squared error of predicting an entry of y, the blurred signal, noise included",
		}
	case s.operator.adds():
		return Targets{
			SURE:       "the squared error of the sum of the parts, such as L + S, not of the split into parts",
			Prediction: "the squared error of predicting an entry of the sum of the parts, noise included",
		}
	}
	return Targets{}
}

// adds reports whether the operator adds several blocks of b that are signals themselves.
func (n *operatorNode) adds() bool {
	for _, child := range n.children {
		if child.kind != "identity" {
			return false
		}
	}
	return n.kind == "hstack"
}
