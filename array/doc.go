// Package array is the only access to memory and arithmetic: batches of vectors that live on a
// device, and the small set of operations that an algorithm may ask of the device. Everything above
// this package is written once, against [Device], and does not know where its numbers are.
//
// # Batches
//
// A [Batch] is k vectors of length n on one device. Each vector is contiguous, and consecutive
// vectors are a fixed stride apart: a row-major k x n matrix. A vector that stands for an m x n
// matrix is its row-major flattening, so the same memory is a batch of k vectors to an operator and
// k matrices to [Device.GemmEach]. Rows and column ranges of a batch are views that share its
// memory.
//
// # Errors
//
// A shape mismatch is a programmer's error and panics with both shapes, as in gonum. A device fault
// (no memory, a failed launch) is a run-time error: it sticks, later operations do nothing, and
// [Device.Err] returns it when the caller next checks.
//
// # Requests
//
// A fault sticks to the work that met it. A program that does several things at once on one device
// gives each a view, [Device.Request], and allocates on it all that belongs to that work:
//
//	view := dev.Request()
//	y := view.Alloc(1, d)
//	...                        // scratch and results on y.Device()
//	if err := view.Err(); err != nil {
//		return err         // this request has failed; others go on
//	}
//
// What all requests share, such as the matrix of an operator, stays on the device itself. Batches
// of the device and of its views may appear in one operation. A fault of the device, unlike that of
// a view, shows in all its views. The host has no faults, and its views are itself.
//
// # Memory
//
// Freed memory is pooled, so that the iterations of a solver allocate nothing. A device may have a
// bound, which [Device.Available] reports; an algorithm that can work in parts sets memory aside
// with [Device.Reserve] first.
//
// # Reproducibility
//
// On one device the bits of vector i of a result depend on vector i of the operands alone: not on
// the number of vectors beside it, on its position among them, on GOMAXPROCS, or on other
// goroutines. This makes a risk estimate bit-identical for any batch size and any parallelism. The
// one exception is a batch of a single vector in [Device.Gemm], which may use a matrix-vector
// product; callers for whom this matters use two vectors.
//
// # The host device
//
// [NewHost] computes with gonum, and changes nothing in the process. [UseNative] finds a native
// BLAS and LAPACK (OpenBLAS, MKL, Accelerate) and registers it under gonum's own interfaces for the
// whole process, so that gonum's mat package uses it too:
//
//	func main() {
//		if err := array.UseNative(); err != nil {
//			log.Fatal(err) // SUREPIPE_BLAS names a library that cannot be used
//		}
//		dev := array.NewHost()
//
// [BLAS] and [BLASInfo] say which is in use. No build tag, C compiler or configuration is needed.
//
// The library works with one thread a call. The host shares large operations among as many
// goroutines as there are idle processors, so that concurrent callers do not compete; these
// goroutines, once started, live as long as the process.
//
// # Other devices
//
// A device is an implementation of [Device] that passes the conformance suite in package arraytest.
package array
