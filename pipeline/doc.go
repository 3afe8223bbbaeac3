// Package pipeline estimates the risk of an estimator at one sample y, at a stream of them, or over
// a grid of hyperparameters. It connects the goroutine stages of package stages by channels; an
// errgroup bounds the concurrency. This is the package that services embed.
//
// A pipeline is made of a solver, which fixes the estimator, and [Options], which
// fix the noise variance, where it is known, and the trace estimator:
//
//	dev := array.NewHost()
//	problem := vjp.Problem{A: operator, R: regularizer, Device: dev}
//	solver, err := vjp.NewSolver(ctx, "fista", problem, vjp.Options{})
//	defer solver.Release()
//	p, err := pipeline.New(solver, pipeline.Options{Sigma2: 2})
//	risk, err := p.Estimate(ctx, y)           // one sample
//	for risk, err := range p.Stream(ctx, ys)  // many, in order
//	fmt.Println(risk)                         // a report in a few lines
//
// The length of y, the device and the rewriting that the problem comes from, such as a fitted
// intercept (vjp.Problem.Origin), are those of the solver's problem. The named
// problems of package problems come with their operator, regularizer and choice of solver.
//
// # Results
//
// A [Risk] holds SURE, its error bar, the terms of both, and how they were computed.
// [Risk.Warnings] lists the reasons to doubt them, and [Risk.Trusted] reports whether none of these
// makes the numbers worthless. Where Sigma2 is 0, not known, SURE and its error are NaN, and GCV, leave-one-out and
// other criteria remain: package risk says which number answers which question.
//
// The error bar does not include the error of the trace, 2 Sigma2 Trace.Error(); the error of
// Sigma2, if that is an estimate; or the choice of hyperparameters that depend on y.
//
// # Sweeps
//
// [Sweep] estimates the risk at one y on a grid of regularization weights, with the
// same operator and the same probes at every point, and refines the minimizer of SURE or of another
// criterion (SweepOptions.Criterion; by default that of [SweepCriterion]):
//
//	family := pipeline.Family{Problem: vjp.Problem{A: operator, Device: dev}, Solver: "fista",
//		Regularizer: func(w []float64) (prox.Prox, error) { return prox.NewL1(w[0]), nil }}
//	for point, err := range pipeline.Sweep(ctx, y, family, grid, options) // the minimizer last
//
// The minimizer comes with a [Choice]: the difference of every point to it with that difference's own error,
// which points cannot be told from it, and the optimism of a minimum that was looked for.
//
// # Without sigma2
//
// [EstimateSigma2] takes sigma2 from fits along a path, RSS/(d - df) at the least GCV.
//
// # Black boxes
//
// A [BlackBox] is an estimator of which only the values are known, a Go function or a program
// ([Command]). Its risk follows from differences along random probes, or without any derivative from
// antithetic draws, the coupled bootstrap or, for counts, thinning ([BlackBoxRows]). It goes
// through sweeps like any other (Family.BlackBox).
//
// # Determinism
//
// Results are bit-identical for any Options.Parallel and Options.Batch: probe j of sample i under
// seed s is a function of (s, i, j) alone, and no result depends on what else is computed at the
// same time.
//
// # Many devices and machines
//
// A [Pool] spreads samples over pipelines on several devices, and Family.Others a sweep. [SweepPart] computes
// some points of a sweep, [Pipeline.StreamFrom] some samples and [Pipeline.Repeat] some seeds of one sample, for
// processes that do not know of each other; what they find gives the bits of one process.
//
// # Errors
//
// Options that cannot be used are an [OptionError], or a hutch.PlanError for the trace estimator. A
// failure that belongs to one sample is a [SampleError], and one that belongs to a point of a sweep
// a [PointError]. A panic of a user's operator, regularizer or solver is a stages.PanicError that
// ends the call; no other goroutines are affected. However a call ends, no goroutine and no device memory is left
// behind.
//
// # Your own operator and regularizer
//
// Closures on slices are enough: linops.NewFunc makes A of b -> A b and z -> A* z, and prox.NewFunc r of
// prox_{t r}(v), its derivative J z and r(b). The conformance suites linopstest and proxtest check that the adjoint is
// an adjoint, the proximal operator that of a convex function, and the Jacobian its derivative. The example Custom has
// a result known in closed form, the example CustomType a Go type that computes on any device, and the example Service
// a handler of net/http.
package pipeline
