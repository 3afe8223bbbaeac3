// Package surepipe estimates the risk of convex-regularized estimators at data, without the truth and without held-out
// data, and chooses their weights by it. It is what the command surepipe stands on: the same numbers, to the bit.
//
// # From data to predictions
//
//	table, err := surepipe.Read(ctx, "prices.csv", reader)              // or File, In, Arrays.Data
//	e, err := surepipe.Open(ctx, table, surepipe.Options{
//		Problem: surepipe.Lasso, Table: surepipe.Table{Response: "price"}})
//	defer e.Close()
//	path, err := e.Sweep(ctx, surepipe.Grid{Lambda: "0.01max:max:40"})  // the minimum of GCV, or of SURE
//	coefficients, err := path.Fit.Coefficients(ctx)                     // by name, with errors
//	prediction, err := path.Fit.Predict(ctx, surepipe.File("new.csv"))
//	_, err = path.Fit.WriteTo(file)                                     // what surepipe predict and ReadFit read
//
// [Open] settles what the options leave open, as the command does: the solver and its tolerance, sigma2, the coding
// of a table's columns, an intercept. An estimator is at one y; it is safe for concurrent use.
//
//	Fit         one estimate, at the weights of the options
//	Sweep       a path of weights, the minimum of a criterion, and how sure that is
//	Stream      the risk at many y, no faster than the results are taken
//	MonteCarlo  the same around a mean, summed up
//	Merge       what shards of a sweep have computed on many machines ([ReadShards])
//
// Folds, groups and blocks of [Options] are what a sweep by cross-validation leaves out together ([Grid].Criterion
// "cv").
//
// [Data.Denoise] removes noise from a series of images by local low rank.
//
// # Results
//
// A [Fit] has a [Result], a [Path] its [Point] values and [Summary], a Monte Carlo run a [Spread]. Their JSON is
// that of the command, and can be read back. Numbers that are not defined are nil, and absent or null in JSON.
// Warnings say what to doubt, and what to know.
//
// # Errors and ends
//
// Bad input is an [InputError], for which errors.As looks; a panic of a function of the caller's is a [PanicError].
// A call ends within a second of its context, with the context's error and its cause. What a native library
// computes then ends later, on its own.
//
// # Your own
//
// [Options].Spec is a specification in YAML; [Own] takes an operator, a regularizer and a loss in Go, [BlackBox] a
// function of which only values are known. The packages below have what these are made of: linops, prox, loss,
// pipeline.
//
// A native BLAS makes everything several times faster: [Open] looks for one, once for the process.
package surepipe
