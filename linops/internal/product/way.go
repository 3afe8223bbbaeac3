package product

// Way is one of the two directions of an operator.
type Way bool

const (
	// Forward is A, and Adjointly A*.
	Forward   Way = false
	Adjointly Way = true
)
