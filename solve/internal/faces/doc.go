// Package faces minimizes a small convex quadratic with a separable penalty by active sets:
//
//	F(b) = 1/2 b*G b - c*b + sum_j w_j |b_j| + q_j/2 b_j^2,   b_j >= 0 where positive_j.
//
// Given the coordinates S that are not 0 and their signs s, the penalty is linear but for its
// squares, and the minimum over that face solves
//
//	(G_SS + Q_SS) b_S = c_S - w_S s.
//
// A [Program] goes from face to face, by Newton steps from the current point, so that each
// corrects the rounding errors of those before it (feature-sign search: Lee, Battle, Raina and Ng,
// 2006). F falls in every step and there are finitely many faces, so that it ends. Coordinates are
// scaled so that G + Q has ones on its diagonal: nothing depends on their units.
//
// A coordinate whose column depends on those of S to rounding does not join them. F is then linear
// along the direction that changes no fit, and the coordinate takes the place of the first one in S
// whose sign would change.
//
// [Groups] is the same with the norms of groups of coordinates as the penalty, where Newton's method
// takes the place of steps from face to face.
package faces
