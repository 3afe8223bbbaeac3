// Package cones has constraints that tie coordinates together, as regularizers that are 0 on a convex set and +Inf
// elsewhere: simplex, l1 and l2 balls, second-order cones, positive semidefinite matrices. Their proximal operator is
// the projection. Bounds of each coordinate alone are package prox's.
//
//	                      T, the tangent space of the face of the result
//	NewSimplex, NewL1Ball on the coordinates that are not 0, what is orthogonal to their signs
//	NewL2Ball             R^p, or what is orthogonal to b
//	NewSecondOrderCones   on the coordinates that are not 0, what is orthogonal to the cones' normals
//	NewSemidefinite       symmetric matrices whose part on the null space of B vanishes
package cones
