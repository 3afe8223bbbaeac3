// Package verify checks one result, mu_hat(y) with its divergence, by means that are independent of
// those that computed it:
//
//   - products with A alone: mu_hat = A b, and the residual of the optimality conditions at b;
//   - solves at y + h z and y - h z, whose differences the derivative must match, and whose
//     sum over probes the divergence must match;
//   - leave-one-out by leverages from images, and by refits without a few of the observations;
//   - another solver, started at 0, where the problem is small.
//
// [Check] does all of them for a [Result] and returns a [Verification]. Each [Comparison] is a
// difference with its error bar: the difference that the errors of the check itself would explain.
// Where no statistical error is involved the bar is a fixed share, 1/40, of SURE's own error bar,
// so that [Limit] = 4 bars are a tenth of it: smaller changes of SURE do not matter.
//
// # Differences
//
// The derivative along a probe z is compared with
//
//	(z* mu_hat(y + h z) - z* mu_hat(y - h z)) / 2h   at h and h/2,
//
// by warm-started solves from b to a tolerance far below the solver's own. The difference between
// the two steps gives the error of the step. The error of the solves is measured by a solve at y
// that starts at the solution at y + h z: without error it would end at the same point as the one
// from b. Where the one-sided differences disagree there is a kink, such as a change of the
// support, within h of y along z. Then h is made smaller a few times. If that does not help, the
// probe is at a boundary: the derivative is not unique there, and nothing is compared.
//
// The diagonal of D mu_hat ([vjp.Closed]) comes from the same factors as the divergence. Where it is known it is
// compared with differences of the same kind, which checks these factors: along unit vectors, all of them up to
// [MaxUnits] observations, else those of the largest entry, of the smallest and of two random ones; and its sum
// with the divergence.
//
// # Use
//
// Package pipeline checks every result with its option Verify. To check a result of your own:
//
//	images := func(ctx context.Context, dst, v array.Batch, left []float64) error {
//		return sol.Linearization.Apply(ctx, dst, v, hutch.Accuracy{}, left)
//	}
//	v, err := verify.Check(ctx, verify.Result{Solver: solver, Y: y, B: sol.B, MuHat: sol.MuHat,
//		Convergence: sol.Convergence, Images: images,
//		Closed: sol.Linearization.Closed(), Trace: trace,
//		Sigma2: sigma2, StdErr: bar}, verify.Options{})
//	if err == nil && !v.Passed() { fmt.Println(v.Describe()) }
package verify
