// Package stages has the steps by which a sample y goes on its way to a risk estimate. Each is a typed
// function, a [Step]. [Loop] makes it a stage between channels, a [Stage], which [Start] runs with any number
// of workers, for streams; [Call] takes a single sample through all steps without channels.
//
//	Sample → Solve → Probes → Query(Sketching) → Probes → QR
//	       → Probes → Query(Projected) → Probes → Query(Residual)
//	       → Probes [→ Refine → Probes] [→ Verify → Probes] → Assemble → Outcome
//
// The first stage receives the [Sample]. [Solve] runs the solver and makes the sample's [Job],
// which holds the solution, its linearization, and a [hutch.Run], the estimate of the trace of M =
// D mu_hat. After that the channels carry batches of [Probes]: each names its job, the phase of the
// estimate, and which probes of that phase it stands for. The vectors themselves are not sent; they
// are drawn on the device by the stage that needs them, and the results go to the run. [Assemble]
// sends an [Outcome] for each sample, its [Risk] or its error, in the order in which they are
// finished.
//
// The phases are those of package hutch, whatever the estimator: [Query] applies M to the probes of
// one phase, and [QR] waits for the sketch and makes the orthonormal basis Q of its span. A phase
// that an estimator does not have has no probes, and one empty batch carries the job past it.
//
//	sketch     M s for random vectors s
//	projected  tr(Q* M Q); the exact trace has the unit vectors for Q
//	residual   tr((I - QQ*) M (I - QQ*)) by random vectors; Hutchinson's estimator has an empty Q
//
// With Settings.Compare a result leaves a [risk.Digest], by which it can be compared with others at
// the same y: its images of common probes are those of the residual phase where the estimate is
// Hutchinson's, and are computed after the solve elsewhere.
//
// Where the number of probes follows from the accuracy, [Refine] adds residual probes until the
// trace is accurate enough. [Verify] checks the result by other means.
//
// # Ownership
//
// A job is shared by all stages, and each of its fields is written by one of them. Its device
// memory is registered in a [Jobs]. Assemble releases it there; when a pipeline ends early, the
// code that started the stages calls [Jobs.ReleaseAll] after all of them have returned. A sample's
// Y belongs to the sender.
//
// # Errors
//
// A failure that belongs to one sample, a [SampleError], travels with its job to the end, and other
// samples are not affected. A fault of the device, a panic ([PanicError]) and the end of the
// context are errors of the stage in which they occur and end all stages.
//
// # Memory and back-pressure
//
// Stages differ in speed and several samples are in flight, so that the solver works on one sample
// while probes of another are swept. A channel holds one value for each worker, so a slow stage
// holds up those before it. On a device whose memory is bounded ([array.Device]) a batch of probes
// is swept in as many parts as necessary, down to two probes a sweep, and sweeps wait for each
// other's memory. No result depends on this.
package stages
