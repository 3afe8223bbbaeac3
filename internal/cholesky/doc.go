// Package cholesky factors large sparse symmetric positive definite matrices.
//
// A matrix is S = L L* after its rows and columns are reordered by nested dissection (George 1973),
// with separators from the levels of a breadth-first search (George and Liu 1978). The factor is
// computed row by row (Davis, Direct Methods for Sparse Linear Systems, 2006, chapter 4).
package cholesky
