package vjp_test

import "surepipe/array"

// Tests and benchmarks compute with the BLAS that the command would use.
func init() { array.UseNative() }
