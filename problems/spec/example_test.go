package spec_test

import (
	"fmt"

	"surepipe/array"
	"surepipe/problems/spec"
)

// A specification is parsed, reads its arrays, and makes an operator and penalties.
func Example() {
	s, err := spec.Parse([]byte(`
data: {y: [4, 5, 4, 5]}
operator: identity
synthesis: {adjoint: dct}
regularizer:
  l1: {weight: 2*lambda, unpenalized: averages}
`), "cosines.yaml")
	if err != nil {
		panic(err)
	}
	data, err := s.Load(spec.Files{})
	if err != nil {
		panic(err)
	}
	parts, err := s.Build(array.NewHost(), data)
	if err != nil {
		panic(err)
	}
	defer parts.Release()
	d, p := parts.Operator.Dims()
	norm := parts.Penalties[0]
	fmt.Println(d, "x", p, "- unpenalized", norm.Unpenalized, "- weight at lambda = 3:", norm.Norm.Value(spec.Weights{"lambda": 3}))
	// Output: 4 x 4 - unpenalized [0] - weight at lambda = 3: 6
}
