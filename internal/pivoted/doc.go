// Package pivoted decides numerical ranks: which directions are in the row space of a matrix, and
// which are there only through rounding errors.
//
// [Factorize] computes the column-pivoted QR factorization of a matrix M stacked on a penalty W.
// Neither M*M nor W*W is formed, and no inverse, so that D = M (M*M + W*W)^+ M* = Q1 Q1* has its
// spectrum in [0, 1] whatever M and W are. Rows are sorted by size and columns pivoted, which keeps
// the errors of each row small against that row (Powell and Reid 1969; Cox and Higham 1998).
package pivoted
