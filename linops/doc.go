// Package linops provides linear operators A : R^p -> R^d given by their products with vectors, the
// algebra that builds large operators from small ones, and what is known of an operator beside its
// products.
//
// # Operators
//
// An [Operator] applies itself (Forward) and its adjoint (Adjoint) to batches of vectors on an
// [array.Device]. The basic ones hold data on a device:
//
//	NewDense      a matrix                          b -> X b
//	NewCSR        a sparse matrix                   b -> X b
//	NewSelection  some coordinates, in any order    b -> (b[i0], b[i1], ...)
//	NewDiagonal   entrywise weights                 b -> w ∘ b
//	NewFunc       two closures on host slices
//	Identity, Zero
//
// Operators of a field have packages of their own:
//
//	linops/imaging     differences, convolutions, cosine, wavelet and Fourier transforms, scanners, coils
//	linops/outofcore   a matrix in a store slower than memory
//	linops/additive    an operator without a constant, or without effects of rows and columns
//
// and so have computations with any operator: linops/krylov solves systems, estimates norms and makes
// preconditioners by products alone.
//
// Combinations hold other operators:
//
//	Scale(t, A) = t A              HStack(A, B)    = [A B]
//	Sum(A, B)   = A + B            VStack(A, B)    = [A; B]
//	Compose(A, B) = A B            BlockDiag(A, B) = [A 0; 0 B]
//	Adjoint(A)  = A*               ScaleColumns(dev, A, s) = A diag(s)
//
// Combinations do not own the operators that they hold: the caller of New... releases the result.
// Constructors panic on sizes that do not fit together and return an error where the data itself
// can be wrong.
//
// # Structure
//
// What is known about an operator beyond its two products is a value, its [Structure], which [StructureOf] returns:
// numbers, each with a flag that says whether it is known, such as c with A A* = c I, and functions, nil where the
// operator has none, such as (eta A*A + I)^{-1} without an iteration. The zero value says nothing and is true of every
// operator. Combinations compute theirs from those of their parts, by the rules in the file algebra.go: HStack of two
// identities has A A* = 2 I, and with it the norm and a closed form.
//
// Code that wants the best available way calls [ToDense], [On], [Complete] and, of package krylov,
// Norm2, which use the structure where it helps, and otherwise unit vectors, the space's embedding or an
// iteration. No algorithm requires a field to be set.
//
// # Spaces
//
// The derivative of a regularized solution lies in the tangent space T of the regularizer, and
// needs A only there. [On] returns A E for any operator and any space:
//
//	Dense                     any space                          the d x n matrix X E
//	CSR                       coordinates, clusters              the sparse matrix X E
//	Selection                 tangent space of low rank          reads only the selected places
//	Identity                  tangent space of low rank          A*A in O((m+n) r^2)
//	HStack(I, I)              low rank beside coordinates,       A*A in O((m+n) r^2 + |set| r)
//	                          in either order
//	HStack, BlockDiag         products and coordinates           every block on its factor
//	VStack, Sum, Scale,       as their parts
//	Compose
//	all others                                                   E followed by A
//
// # Writing an operator
//
// Any Go value with Dims, Forward and Adjoint is an operator; [NewFunc] makes one of two closures.
// Batches may be views with gaps between their vectors (HStack passes column ranges of its own
// operands), temporary memory comes from dst.Device().Alloc and is freed before the method returns,
// and vector i of the result depends bit for bit on vector i of the source alone.
//
// A type that knows more implements [Structured] with a method Structure. It makes the functions
// once, when it is built, because Structure is called often. A wrapper passes on the structure of
// what it wraps: all of it where its products are the same, else the part that is still true,
//
//	func (w logged) Structure() linops.Structure { return linops.StructureOf(w.Operator) }
//
// Package linopstest checks the products and every field of the structure.
package linops
