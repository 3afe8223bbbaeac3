package linops

import "surepipe/array"

// Operator is a linear map A : R^p -> R^d, given by its products with vectors. Both directions act
// on every vector of a batch. dst must not overlap the source. An Operator is immutable after
// construction and safe for concurrent use. A shape mismatch panics.
type Operator interface {
	// Dims is the size of A: d rows, p columns.
	Dims() (d, p int)
	// Forward sets dst = A b; dst is k x d, b is k x p.
	Forward(dst, b array.Batch)
	// Adjoint sets dst = A* z; dst is k x p, z is k x d.
	Adjoint(dst, z array.Batch)
}

// Restricted is an operator that owns what it holds, as the results of [On] and [ScaleColumns] do.
type Restricted interface {
	Operator
	// Bytes is the device memory that it holds.
	Bytes() int64
	// Release frees that memory. The operator is dead afterwards.
	Release()
}

// Loadable is an operator that computes on the host until it is loaded.
type Loadable interface {
	Operator
	// Load puts what the operator holds on a device.
	Load(dev array.Device)
	// Release frees that memory. The operator computes on the host again.
	Release()
}

func checkSome(name string, ops []Operator) {
	if len(ops) == 0 {
		panic("linops: " + name + " of no operators")
	}
}
