// Package verify checks one result, mu_hat(y) with its divergence, by other means than
// those that computed it:
//
//   - products with A alone: mu_hat = A b, and the residual of the optimality conditions at b;
//   - solves at y + h z and y - h z, whose differences the derivative must match, and whose
//     sum over probes the divergence must match;
//   - another solver, started at 0, where the problem is small.
//
// Each check gives a difference and the error bar of that difference: what the check's own
// numbers leave open. Where no statistical error is involved the bar is a share of
// SURE's own error bar, [surePart], so that four bars are a tenth of that: what moves SURE by
// less is nobody's concern.
//
// The derivative is compared with
//
//	(z* mu_hat(y + h z) - z* mu_hat(y - h z)) / 2h   at h and h/2,
//
// by solves that start at b and go far below the solver's own tolerance. The difference between the two
// steps tells the error of the step. A solve at y that starts from the solution at
// y + h z ends where the one from b does, but for the error of such solves. Where the one-sided
// differences disagree there is a kink, a change of the support say, within h of y along z:
// h is made smaller a few times, and if that does not help the probe is at a boundary, where
// the derivative is not unique and nothing is to be compared.
package verify
