// Package study is a piece of work with a file behind it: results as JSON, sweeps and Monte Carlo runs
// whose lines are kept and continued, and runs that are divided among machines. The command stands on
// it; it knows no flags, prints nothing, and takes contexts, options, readers and writers.
//
// # Estimators and results
//
// [Open] makes an [Estimator] from data, weights and [Options]; package surepipe/study/load makes the
// data from files, surepipe/study/request does both from one value with all options, as a command or a service has
// them, surepipe/study/predict predicts from the file of a fit ([Fit]), and surepipe/study/draw draws. What is
// estimated is a [pipeline.Risk]; [Result] is that risk as the JSON object that scripts read. Its keys
// are a contract: keys may join, and none changes its meaning.
// A number that is not defined is absent; infinite weights are the strings "inf" and "-inf" ([Number]).
//
// # Run logs
//
// A run log is a file of lines of JSON. The first is a header with everything on which the lines depend,
// settings and a hash of the data ([DataHash]) among them; the others follow in order, each written in
// one call. A process that is killed leaves at most one incomplete line, at the end. A [File] with
// Resume compares the header, passes the lines to the run, cuts off the incomplete one, and the run
// computes what is missing: the file is then, times aside, that of a run that was not interrupted. One
// process writes to a file at a time ([Lock]).
//
//	sweep        {"sweep": true, "criterion", "grid", ..., "data_sha256"}: SweepHeader;
//	             {"index", "stage", keys of a result, "digest"} a point: SweepLine;
//	             {"summary": true, "minimizer", "chosen", ...} at the end: SweepSummary
//	Monte Carlo  {"montecarlo": 1, "settings", "data", "version", "device"}: MonteCarloHeader;
//	             {"sample", keys of a result} a sample, and {"repeat", "sample", ...} for the same
//	             sample with the probes of another seed: SampleLine. Tally sums them up, from the lines alone
//
// [MonteCarlo] computes samples first to first+count-1 and then the repetitions; sample i and its probes
// are functions of the seed and i, so that any part of a run can be computed anywhere.
//
// # Shards
//
// A run is divided into units: the samples and repetitions of a Monte Carlo run, the chains of warm
// starts of a sweep. Shard i of n has the units from i N/n to (i+1) N/n, in a file of its own, whose first
// line, [ShardHeader], has
//
//	shard    {index count unit first n total}
//	machine  {blas kernels simd device version}: on machines with equal values results agree to the bit
//	whole    the header of the whole run
//	flags, files, samples_sha256                where they apply
//
// [ReadShards] checks the files of a run against each other; [Shards.Missing] are those to be computed
// again, and the lines are merged in the order of the run, which makes the merged file equal in every byte, times
// aside, to that of one machine.
//
// # Errors
//
// Bad input is an [Error]. Its text names options, which a command has as flags and a service as fields:
// [Text] writes it with the caller's names for them.
package study
