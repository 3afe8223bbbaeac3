// Package pipeline estimates the risk of an estimator at one sample y, at a stream of them, or
// over a grid of hyperparameters. It strings the goroutine stages of package stages together over
// channels; an errgroup bounds the concurrency. This is the package that services embed.
//
// A pipeline is made of a solver, which fixes the estimator, and options, which
// fix the noise variance and the trace estimator:
//
//	dev := array.NewHost()
//	problem := vjp.Problem{A: operator, R: regularizer, Device: dev}
//	solver, err := vjp.NewSolver(ctx, "fista", problem, vjp.Options{})
//	p, err := pipeline.New(solver, pipeline.Options{Sigma2: 2})
//	risk, err := p.Estimate(ctx, y)           // one sample
//	for risk, err := range p.Stream(ctx, ys)  // many, in order
//
// The named problems of package problems come with their operator, regularizer
// and choice of solver.
//
// # Sweeps
//
// [Sweep] estimates the risk at one y on a grid of regularization weights, with the
// same operator and the same probes at every point, and refines the minimizer:
//
//	family := pipeline.Family{A: operator, Device: dev, Solver: "fista",
//		Regularizer: func(w []float64) (prox.Prox, error) { return prox.NewL1(w[0]), nil }}
//	for point, err := range pipeline.Sweep(ctx, y, family, grid, options) // in order; last the minimizer
//
// Solves start at the solution of the point before, in chains of [DefaultChain]
// points that begin at 0: chains run side by side, and an interrupted sweep solves
// again at most the chains it was in, without the divergence. Chains of 10 take 2% to 4%
// more iterations than one chain through 40 points, and a quarter to a third fewer than none:
//
//	go test ./pipeline -run '^$' -bench SweepChains -benchtime 1x
//
// # Determinism
//
// Results are bit-identical for any Options.Parallel and Options.Batch: probe j
// of sample i under seed s is a function of (s, i, j) alone, and no number
// depends on what it was computed beside.
//
// # An operator and a regularizer of one's own
//
// Closures on slices will do. The conformance suites tell whether they are what
// they should be: an adjoint that is one, a proximal operator of a convex function,
// its Jacobian. With forward(dst, b) and adjoint(dst, z) for A, evaluate(dst, v, t) and
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
// CustomType with a Go type that computes on any device and announces what it
// knows of itself.
//
// # In a service
//
// One Pipeline serves all requests at once. Stream takes samples no faster than its
// results are consumed and stops when its context does. Options.KeepGoing gives
// a bad sample's error its place between the results; Options.Observe and
// [Pipeline.InFlight] are for metrics, and Options.Logger is told the context of each
// call. The example Service is a handler of net/http with all of these: JSON lines
// in and out, metrics in expvar, nothing left running when a client leaves.
package pipeline
