package space_test

import "surepipe/array"

// Tests compute with the BLAS that the command would use.
func init() { array.UseNative() }
