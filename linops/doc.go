// Package linops holds linear operators A : R^p -> R^d that are known by what
// they do to vectors, the algebra that builds large ones from small ones, and
// the two computations that every solver needs of them: the norm and the
// solution of (eta A*A + I) x = rhs.
//
// # Operators
//
// An [Operator] applies itself (Forward) and its adjoint (Adjoint) to batches of
// vectors on an [array.Device]. The basic ones hold data on a device:
//
//	NewDense      a matrix                          b -> X b
//	NewCSR        a sparse matrix                   b -> X b   (NewCSRFromCoords)
//	NewSelection  some coordinates, in any order    b -> (b[i0], b[i1], ...)
//	NewDiagonal   entrywise weights                 b -> w ∘ b
//	NewFunc       two closures on host slices
//	Identity, Zero
//
// Those of signal and image processing know their formulas (an image is a row-major
// vector of rows x cols pixels):
//
//	NewDifference1D     b_{i+1} - b_i
//	NewDifference2D     both differences of neighbouring pixels, stacked
//	NewConvolution1D,   sum_t h_t b_{i-(t-m)}, m = ⌊k/2⌋ of k taps, the size of b,
//	NewConvolution2D    circular or zero-padded
//	NewDCT, NewDCT2D    s_k sum_j b_j cos(pi k (2 j + 1) / (2 n)), orthonormal
//	NewWavelet1D,       a_i = sum_t h_t b_{2i+t}, d_i = sum_t g_t b_{2i+t}, over levels,
//	NewWavelet2D        periodic and orthonormal
//
// DCT and Wavelet analyze: Adjoint of one is its inverse, which takes coefficients to
// signals. Convolution, DCT, Wavelet and the Difference's SolveNormal compute on the
// host, on all of its processors, and carry the vectors of another device there and
// back; the others run where the vectors are.
//
// Combinations hold other operators:
//
//	Scale(t, A) = t A              HStack(A, B)    = [A B]
//	Sum(A, B)   = A + B            VStack(A, B)    = [A; B]
//	Compose(A, B) = A B            BlockDiag(A, B) = [A 0; 0 B]
//	Adjoint(A)  = A*
//
// Combinations own nothing: what New... made is released by whoever made it.
// Constructors panic on sizes that do not fit together and return an error where
// the data itself can be wrong.
//
// # Structure
//
// What an operator can do better than its two directions it announces by an
// optional interface: [RowGram] (A A* = c I), [Normer] (a known norm),
// [NormalSolver] (a closed form of (eta A*A + I)^{-1}), [ColumnNormer] (a
// diagonal preconditioner), [Densifier] (a matrix), [Restrictor] (the operator on
// a few coordinates), [TangentRestrictor] (on the tangent space of low-rank matrices). The first four have the right to say no at run time, so
// that combinations can answer from their parts: HStack(Identity(n),
// Identity(n)) knows that A A* = 2 I. Code that wants the best available asks
// [NewNormal], [Norm2] and [ToDense], which choose between what the operator
// offers and an iteration.
//
// # Writing an operator
//
// Any Go value with Dims, Forward and Adjoint will do; [NewFunc] makes one of two
// closures. Batches may be views with gaps between their vectors (HStack passes
// column ranges of its own operands), temporary memory comes from
// dst.Device().Alloc and is freed before the method returns, and vector i of
// the result depends bit for bit on vector i of the source alone. Package
// linopstest checks all of it.
package linops
