// Package pipeline estimates the risk of an estimator at one sample y, at a stream of them, or
// over a grid of hyperparameters. It strings the goroutine stages of package stages together over
// channels; an errgroup bounds the concurrency. This is the package that services embed.
//
// A pipeline is made of a solver, which fixes the estimator, and [Options], which
// fix the noise variance and the trace estimator:
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
// The length of y, the device and the intercept are those of the solver's problem. The named
// problems of package problems come with their operator, regularizer and choice of solver.
//
// # Results
//
// A [Risk] holds SURE, its error bar, the terms that both are made of, and how they were
// computed. [Risk.Warnings] lists the reasons to doubt them, and [Risk.Trusted] says in one word
// whether there are any. The estimate mu_hat comes with every result. The solution b may be far
// longer than y: it is downloaded with Options.KeepB only.
//
// What the error bar leaves out is the error of the trace, which 2 Sigma2 Trace.Error() is; the
// error of Sigma2, if that is an estimate; and the choice of hyperparameters by looking at y.
//
// # Sweeps
//
// [Sweep] estimates the risk at one y on a grid of regularization weights, with the
// same operator and the same probes at every point, and refines the minimizer:
//
//	family := pipeline.Family{Problem: vjp.Problem{A: operator, Device: dev}, Solver: "fista",
//		Regularizer: func(w []float64) (prox.Prox, error) { return prox.NewL1(w[0]), nil }}
//	for point, err := range pipeline.Sweep(ctx, y, family, grid, options) // the minimizer last
//
// Solves start at the solution of the point before them, in chains of [DefaultChain]
// points that begin at 0. Chains run side by side, and an interrupted sweep solves
// again at most the chains that it was in, without the divergence. Chains of 10 take 2% to 4%
// more iterations than one chain through 40 points, and a quarter to a third fewer than none:
//
//	go test ./pipeline -run '^$' -bench SweepChains -benchtime 1x
//
// # Determinism
//
// Results are bit-identical for any Options.Parallel and Options.Batch: probe j
// of sample i under seed s is a function of (s, i, j) alone, and no number
// depends on what else is computed at the same time.
//
// # Errors
//
// Options that cannot be used are an [OptionError], or a hutch.PlanError for the trace estimator.
// A failure that belongs to one sample is a [SampleError], and one that belongs to a point of a
// sweep a [PointError]. A panic of a user's operator, regularizer or solver is a
// stages.PanicError that ends the call; nobody else's goroutine is affected. A cancelled context
// ends a call with the context's error. Whatever ends a call, no goroutine and no device memory
// is left behind.
//
// # An operator and a regularizer of one's own
//
// Closures on slices are enough. The conformance suites tell whether they are what they should
// be: the adjoint an adjoint, the proximal operator that of a convex function, the Jacobian its
// derivative. With forward(dst, b) and adjoint(dst, z) for A, evaluate(dst, v, t) and
// jacobian(dst, v, z, t) for r, and value(b) or nil:
//
//	a := linops.NewFunc(d, n, forward, adjoint)          // b -> A b and z -> A* z
//	r := prox.NewFunc(n, evaluate, jacobian, value)      // prox_{t r}(v), J z, r(b)
//	err := linopstest.Check(dev, a)                      // in a test
//	err = proxtest.Check(dev, r, n)
//	solver, err := vjp.NewSolver(ctx, "fista", vjp.Problem{A: a, R: r, Device: dev}, vjp.Options{})
//	defer solver.Release()
//	p, err := pipeline.New(solver, pipeline.Options{Sigma2: sigma2})
//	risk, err := p.Estimate(ctx, y)
//	fmt.Println(risk.SURE, "±", risk.StdErr)
//
// The example Custom does it with a result known in closed form, the example
// CustomType with a Go type that computes on any device and states what it
// knows of itself.
//
// # In a service
//
// One Pipeline serves all requests at once. Stream takes samples no faster than its
// results are consumed, and stops when its context does. Options.KeepGoing gives
// the error of a bad sample its place between the results; Options.Observe and
// [Pipeline.InFlight] are for metrics, and Options.Logger is given the context of each
// call. The example Service is a handler of net/http with all of these: JSON lines
// in and out, metrics in expvar, and nothing left running when a client leaves.
package pipeline
