// Package native finds a BLAS and LAPACK library on the machine at run time,
// opens it without cgo, and registers it under gonum's own interfaces.
//
// # Layout
//
// gonum's matrices are row-major and Fortran's column-major, so the same memory is the transposed
// matrix to the library. Every routine here is called for the transposed problem: a product has its
// factors swapped, an upper triangle is a lower one, and the singular vectors U and V change
// places. Only the eigenvectors of a symmetric matrix are copied to transpose them.
//
// # Arguments
//
// Fortran takes every argument by reference. Integers are passed as int64. A library with 32-bit
// integers (LP64) reads the low half and one with 64-bit integers (ILP64) all of it: on the
// little-endian machines that this package is built for, both work.
//
// # Safety
//
// A call reaches the library only if its arguments describe memory within the slices. Any other
// call, erroneous or of empty matrices, goes to gonum's own implementation, which panics or does
// nothing as gonum's users expect. So do problems that are too small for a call to be worth its
// cost, by their shapes alone: on one machine a shape is always computed by the same code.
//
// # Kernels
//
// OpenBLAS has kernels for many processors and chooses when it is loaded. Where it does not know
// the processor and chooses slow ones, it is loaded again with faster ones, unless the user has
// chosen (see loadFast); [Report] says so.
//
// # Static programs
//
// Opening a library takes the system's dynamic loader, which a program of this package therefore
// names, with and without cgo. The build tag static leaves this out: such a program runs where there
// is no loader, on gonum alone.
//
// # Threads
//
// The library is set to one thread: package array spreads the work itself, in
// pieces that do not depend on the number of processors.
package native
