package engine

import "surepipe/array"

// Linear is an estimator that is linear in y: b = M y, and mu_hat = H y with H = A M, for every y. It
// belongs to the solver, and is safe for concurrent use.
type Linear interface {
	// Images sets dst_i = H z_i for every vector of the batch. dst and z are different batches.
	Images(dst, z array.Batch)
	// Traces returns what is known of the trace, without probes.
	Traces() HatTraces
	// Diagonal returns that of H in a new slice, in about as many operations as DiagonalFlops says: 0
	// where it is a part of the traces' work. Where that is not known there is none.
	Diagonal() []float64
	DiagonalFlops() (flops float64, known bool)
	// ProbeBytes is the working memory of Images for each vector.
	ProbeBytes() int64
}

// HatTraces are those of a hat matrix.
type HatTraces struct {
	// Trace is tr H and Frobenius2 ||H||_F^2.
	Trace, Frobenius2 float64
	// Below and Above are how far decisions within rounding errors, and rounding errors themselves,
	// may have raised or lowered the trace.
	Below, Above float64
	// Margin is the smallest direction that was counted over the size of rounding errors, +Inf
	// where no rank was decided.
	Margin float64
}
