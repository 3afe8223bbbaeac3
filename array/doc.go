// Package array is the one door to memory and arithmetic: batches of vectors
// that live on a device, and the small set of operations an algorithm may ask
// of that device. Everything above this package is written once, against
// [Device], and knows nothing of where its numbers live.
//
// # Batches
//
// A [Batch] is k vectors of length n on one device, each vector contiguous,
// consecutive vectors a fixed stride apart: a row-major k x n matrix. A vector
// that stands for an m x n matrix is that matrix's row-major flattening, so the
// same memory is a batch of k vectors to an operator and k matrices to
// [Device.GemmEach]. Rows and column ranges of a batch are views that share its
// memory.
//
// # Errors
//
// A shape mismatch is a programmer's error and panics with both shapes, as
// gonum does. A device fault (no memory, a failed launch) is a run-time error:
// it sticks to the device, later operations do nothing, and [Device.Err]
// reports it at the next place where the caller looks.
//
// # Reproducibility
//
// On one device the bits of vector i of a result depend on vector i of the
// operands alone: not on how many vectors stand beside it, on its place among
// them, on GOMAXPROCS, nor on what other goroutines do. This is what makes a
// risk estimate bit-identical for any batch size and any parallelism. The one
// exception is a batch of a single vector in [Device.Gemm], which may use a
// matrix-vector product; callers to whom this matters work with two vectors.
//
// # The host device
//
// [NewHost] computes with gonum. At start it looks for a native BLAS and LAPACK
// (OpenBLAS, MKL, Accelerate) and, when it finds one, registers it under
// gonum's own interfaces, so that gonum's mat package gains too. The
// environment variable SUREPIPE_BLAS forces a choice: "gonum" for pure Go, or
// the path of a shared library. [BLAS] says which is in use, [BLASInfo] all
// about it, and [BLASError] why the one asked for is not. No build tag, C
// compiler or configuration is involved.
//
// The library works with one thread a call; the host shares large operations
// among as many goroutines as there are idle processors, so callers that run at
// once do not crowd each other.
//
// # Other devices
//
// A device is an implementation of [Device] that passes the conformance suite
// in package arraytest.
package array
