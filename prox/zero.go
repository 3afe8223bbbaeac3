package prox

// Zero returns the regularizer r(b) = 0, whose proximal operator is the
// identity. It is [Quadratic] with curvature 0.
func Zero() Prox { return squaredL2{} }
