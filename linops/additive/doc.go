// Package additive takes unpenalized additive terms out of a least squares problem: a constant, and effects
// of the rows and columns of a matrix.
//
// With terms Z g that carry no penalty, least squares in b and g is least squares in b alone for (I - Pi) A at
// (I - Pi) y, where Pi projects onto the range of Z (Frisch and Waugh, 1933; Lovell, 1963):
//
//	NewCentered      A - 1 m*, m the means of A's columns: Z is a column of ones
//	NewEffects       Pi for entries of a matrix: Z is a constant, rows, columns, or both
//	WithoutEffects   (I - Pi) S of the selection S of these entries
//
// [Effects.Of] gives g back.
package additive
