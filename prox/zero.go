package prox

// Zero returns the regularizer r(b) = 0, whose proximal operator is the identity: a quadratic one
// with curvature 0.
func Zero() Prox { return newSquaredL2(0, 0) }
