// Package pipeline estimates the risk of an estimator at one sample y or at a
// stream of them. It strings the goroutine stages of package stages together
// over channels; an errgroup bounds the concurrency. This is the package that
// services embed.
//
// A pipeline is made of a solver, which fixes the estimator, and options, which
// fix the noise variance and the trace estimator:
//
//	dev := array.NewHost()
//	problem := vjp.Problem{A: operator, R: regularizer, Device: dev}
//	solver, err := vjp.NewSolver(ctx, "fista", problem, vjp.Options{})
//	p, err := pipeline.New(dev, solver, d, pipeline.Options{Sigma2: 2})
//	risk, err := p.Estimate(ctx, y)           // one sample
//	for risk, err := range p.Stream(ctx, ys)  // many, in order
//
// The named problems of package problems come with their operator, regularizer
// and choice of solver.
//
// Results are bit-identical for any Options.Parallel and Options.Batch: probe j
// of sample i under seed s is a function of (s, i, j) alone, and no number
// depends on what it was computed beside.
package pipeline
