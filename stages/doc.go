// Package stages holds the goroutine stages that a sample y flows through on its
// way to a risk estimate. Each is a typed function between channels; package
// pipeline strings them together.
//
//	Sample → Solve → Probes → Sketch → Probes → QR → Probes
//	       → ProjectedTrace → Probes → ResidualTrace → Probes → Assemble → Risk
//
// Solve runs the solver and leaves the solution and its linearization in the
// device-resident solver cache, the Job. From there on batches of probes flow,
// each naming its job: Sketch computes M S for M = D mu_hat, QR an orthonormal
// basis Q of it, ProjectedTrace tr(Q* M Q), ResidualTrace the Hutchinson
// estimate on (I - QQ*) M (I - QQ*), and Assemble adds it all up
// (Meyer, Musco, Musco and Woodruff 2021). The exact trace is the same chain with
// the unit vectors for Q, and Hutchinson's estimator the one with an empty Q. XTrace
// has no residual phase, XNysTrace and NA-Hutch++ stop at the sketch: they keep the
// images and Assemble combines them.
//
// Where the number of probes is to follow from the accuracy, Refine stands before
// Assemble and adds residual probes until the trace is good enough.
//
// On a device whose memory is bounded ([array.Device]) a batch of probes is swept in as
// many parts as it takes, down to two probes a sweep, and sweeps wait for each other's
// memory. No result depends on it.
//
// Stages differ in speed and several samples are in flight, so that the
// solver works on one sample while probes of another are swept. Channels hold one
// value a worker: a slow stage holds up those before it.
package stages
