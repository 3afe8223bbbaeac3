package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"surepipe/study"
)

// runShard computes one shard of the run, to its own file.
func (o *monteCarloFlags) runShard(cmd *cobra.Command, m *study.MonteCarlo, bar *progress,
	whole study.MonteCarloHeader) error {
	s, err := parseShard(cmd, o.shard)
	if err != nil {
		return err
	}
	p := study.PartOf(s, study.SampleUnit, m.Part.End)
	p.From, p.Samples = m.First, m.Count
	h, err := study.NewShardHeader(p, study.ThisMachine(m.Estimator.Device()), whole)
	if err != nil {
		return err
	}
	h.Flags, h.Files = givenFlags(cmd)
	if o.y != "" {
		if h.Samples, err = study.FileHash(cmd.Context(), o.y); err != nil {
			return err
		}
	}
	m.Header, m.Part, m.Log, m.Resume, m.Out = h, study.Part{First: p.First, End: p.First + p.N}, s.File(o.jsonl),
		true, nil
	sum, err := computeSamples(cmd.Context(), m, bar, "the same command")
	if err != nil {
		return err
	}
	stderr := cmd.ErrOrStderr()
	fmt.Fprintf(stderr, "surepipe: shard %s, %d of %d samples and repetitions, is complete: %s\n", s, p.N,
		p.Total, m.Log)
	if sum.Tally.NotConverged > 0 {
		// No failure: an engine would compute the same again.
		fmt.Fprintf(stderr, "surepipe: %d did not converge; surepipe merge says so too\n", sum.Tally.NotConverged)
	}
	return nil
}
