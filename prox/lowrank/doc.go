// Package lowrank has the regularizer of low-rank matrices, the nuclear norm lambda ||B||_*, and the derivative of
// its proximal operator, singular value soft-thresholding.
//
// Along matrices of one rank r the nuclear norm is smooth. The tangent space at B = U S V* are the matrices
// Q V* + U P*, and the curvature is known by products, O((m + n) r^2) of them ([NuclearCurvature]). A solver's
// iterates are followed by a partial SVD (package subspace), which computes a few more singular values than
// exceed the threshold.
package lowrank
