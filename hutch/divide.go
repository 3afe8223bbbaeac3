package hutch

import (
	"fmt"

	"surepipe/array"
)

// Probe is what an estimate keeps of one vector v that M was applied to: the numbers <v, M v> and
// ||M v||^2, and the oracle's bound of the error of the first (see [Oracle]).
type Probe struct {
	Quad, Norm2, Left float64
	// Samples are the v_i (M v)_i of a random probe, one for each entry of the diagonal, for
	// [Run.Leverages]; nil where the run does not accumulate the diagonal.
	Samples []float64
}

// Divisible reports whether the vectors of the plan can be divided among several runs: the estimate
// is then a sum over vectors that do not depend on each other, as Hutchinson's and the exact trace
// are. Those of a sketch are multiplied with each other.
func (p Plan) Divisible() bool { return p.Sketch == 0 }

// Phase is the only phase of a plan that can be divided.
func (p Plan) Phase() Phase {
	if p.Exact() {
		return Projected
	}
	return Residual
}

// samplesOf is the part of the tally for a phase.
func (t *tally) samplesOf(p Phase) *samples {
	if p == Projected {
		return &t.projected
	}
	return &t.residual
}

// taken passes the numbers of vectors that have been counted to Options.Taken. The samples are those
// of the diagonal, where they are accumulated.
func (r *Run) taken(p Phase, first, n int, diagonal array.Batch) error {
	if err := r.dev.Err(); err != nil || r.o.Taken == nil {
		return err
	}
	s, probes := r.tally.samplesOf(p), make([]Probe, n)
	for i := range probes {
		probes[i] = Probe{Quad: s.quad[first+i], Norm2: s.norm2[first+i], Left: s.left[first+i]}
		if r.leverages != nil {
			probes[i].Samples = make([]float64, r.plan.Dim)
			r.dev.Download(probes[i].Samples, diagonal.Rows(i, i+1))
		}
	}
	if err := r.dev.Err(); err != nil {
		return err
	}
	return r.o.Taken(first, probes)
}

// Take counts vector i of a plan that can be divided, by the numbers that another run has found for
// it. It follows [Run.EndSketch]. The estimate has the bits of a run that queries the vector itself.
func (r *Run) Take(i int, probe Probe) error {
	if n := len(probe.Samples); n > 0 && n != r.plan.Dim {
		return fmt.Errorf("hutch: vector %d has %d samples of the diagonal, expected %d", i, n, r.plan.Dim)
	}
	s := r.tally.samplesOf(r.plan.Phase())
	if i < 0 || i >= len(s.quad) {
		return fmt.Errorf("hutch: vector %d of %d", i, len(s.quad))
	}
	s.take(i, []float64{probe.Quad}, []float64{probe.Norm2}, []float64{probe.Left})
	if l := r.leverages; l != nil && len(probe.Samples) > 0 {
		l.add(i, probe.Samples)
	}
	return nil
}

// Known reports whether vector i of a plan that can be divided has been counted.
func (r *Run) Known(i int) bool { return r.tally.samplesOf(r.plan.Phase()).known[i] }
