// Package banded factors the saddle point matrices of sequences,
//
//	[ c I   K* ]
//	[ K    -D  ],
//
// where K is a sparse matrix whose rows have their entries near each other, such as differences, and D
// is diagonal. With every row of K beside the coordinates that it reads the matrix has a small band,
// and its LU factorization with partial pivoting (Golub, Van Loan, Matrix Computations, section 4.3.5)
// takes time and memory in proportion to its size. Unlike c I + K* D^{-1} K it is not ill-conditioned where D
// is small, and unlike K K* + c D not where K's rows nearly depend on each other.
package banded
