package product

// Direction is one of the two products of an operator A, that with A or that with A*.
type Direction bool

const (
	Forward Direction = false
	Adjoint Direction = true
)
