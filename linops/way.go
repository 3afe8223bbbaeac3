package linops

// way is one of the two directions of an operator.
type way bool

const (
	forward   way = false
	adjointly way = true
)
