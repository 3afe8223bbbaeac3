package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// runShard computes one shard of the run, to its own file.
func (o *monteCarloFlags) runShard(cmd *cobra.Command, m *monteCarlo, bar *progress, whole logHeader) error {
	s, err := parseShard(cmd, o.shard)
	if err != nil {
		return err
	}
	p := partOf(s, sampleUnit, m.part.end)
	p.From, p.Samples = m.first, m.count
	h, err := newShardHeader(p, thisMachine(m.job.device()), whole)
	if err != nil {
		return err
	}
	h.Flags, h.Files = givenFlags(cmd)
	if o.y != "" {
		if h.Samples, err = fileHash(cmd.Context(), o.y); err != nil {
			return err
		}
	}
	m.header, m.part, m.log, m.resume, m.out = h, part{p.First, p.First + p.N}, s.File(o.jsonl), true, nil
	sum, err := computeSamples(cmd.Context(), m, bar, "the same command")
	if err != nil {
		return err
	}
	stderr := cmd.ErrOrStderr()
	fmt.Fprintf(stderr, "surepipe: shard %s, %d of %d samples and repetitions, is complete: %s\n", s, p.N, p.Total, m.log)
	if sum.s.NotConverged > 0 {
		// No failure: an engine would compute the same again.
		fmt.Fprintf(stderr, "surepipe: %d did not converge; surepipe merge says so too\n", sum.s.NotConverged)
	}
	return nil
}
