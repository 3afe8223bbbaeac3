package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"surepipe/internal/dataio"
	"surepipe/internal/figure"
	"surepipe/study"
)

// shardedSamples are the samples of a Monte Carlo run, by the first line of its file.
type shardedSamples struct{ logHeader }

func readShardedSamples(whole []byte) (sharded, error) {
	var r shardedSamples
	if err := json.Unmarshal(whole, &r.logHeader); err != nil {
		return nil, err
	}
	if r.MonteCarlo != logFormat {
		return nil, fmt.Errorf("\"whole\" is of format %d of surepipe montecarlo, expected %d", r.MonteCarlo, logFormat)
	}
	return r, nil
}

func (r shardedSamples) check(p shardPart) error {
	if p.Samples < 0 || p.Samples > p.Total || p.From < 0 {
		return fmt.Errorf("its first line has the shard %d of %d of %d units (%q), which does not exist", p.Index, p.Count, p.Total, p.Unit)
	}
	return nil
}

func (r shardedSamples) differs(h, of shardHeader) string {
	if why := r.logHeader.differs(of.run.(shardedSamples).logHeader); why != "" {
		return why
	}
	for _, f := range []struct {
		name    string
		was, is any
	}{
		{"first sample", h.Shard.From, of.Shard.From}, {"number of units", h.Shard.Total, of.Shard.Total}, {"number of samples", h.Shard.Samples, of.Shard.Samples},
		{"file of samples, by its hash,", h.Samples, of.Samples},
	} {
		if f.was != f.is {
			return fmt.Sprintf("its %s is %v, expected %v", f.name, f.was, f.is)
		}
	}
	return ""
}

func (r shardedSamples) lines(first, end int) int { return end - first }

func (r shardedSamples) mergeFlags() []string { return []string{"plot", "running"} }

// place takes the line that is sample or repetition number First + n of the run.
func (r shardedSamples) place(p shardPart, n int, line []byte) error {
	record, err := study.ParseLine(line)
	if err != nil {
		return err
	}
	sample, repeat := p.From+p.First+n, -1
	if k := p.First + n - p.Samples; k >= 0 {
		sample, repeat = p.From, k
	}
	found := -1
	if record.Repeat != nil {
		found = *record.Repeat
	}
	if *record.Sample != sample || found != repeat {
		return fmt.Errorf("it is %s, expected %s", unitName(*record.Sample, found), unitName(sample, repeat))
	}
	return nil
}

func unitName(sample, repeat int) string {
	if repeat < 0 {
		return fmt.Sprintf("sample %d", sample)
	}
	return fmt.Sprintf("repetition %d of sample %d", repeat, sample)
}

// figureTitle is what figures and the summary take from the lines.
type figureTitle struct {
	problem string
	d       int
	seconds float64
}

// merge writes the lines of the whole run, its summary and its figures.
func (r shardedSamples) merge(f *mergeFlags, cmd *cobra.Command, set *shards) error {
	s := study.NewTally()
	var title figureTitle
	err := dataio.WriteFile(f.jsonl, func(w io.Writer) error {
		if err := study.WriteLine(w, set.of.Whole); err != nil {
			return err
		}
		return set.each(cmd.Context(), func(line []byte) error {
			r, err := study.ParseLine(line)
			if err != nil {
				return err
			}
			s.Add(r)
			title.problem, title.d, title.seconds = cmp.Or(title.problem, r.Problem), r.D, title.seconds+r.Seconds.Total
			_, err = w.Write(append(slices.Clip(line), '\n'))
			return err
		})
	})
	if err != nil {
		return err
	}
	s.Finish(0)
	s.Seconds = title.seconds
	s.Warnings = slices.Concat(s.Notes, summaryWarnings(s))
	if err := study.WriteLine(cmd.OutOrStdout(), s.Summary); err != nil {
		return err
	}
	if err := writeSummaryTable(&s.Summary, cmd.ErrOrStderr(), throughput{}); err != nil {
		return err
	}
	printWarnings(cmd.ErrOrStderr(), s.Warnings)
	notes, err := r.provenance(set.of)
	if err != nil {
		return usagef("%s: %w", set.files[set.of.Shard.Index].path, err)
	}
	if err := f.figures.draw(s, title.problem, title.d, notes...); err != nil {
		return err
	}
	return unsettledSummary(&s.Summary)
}

// provenance are the notes of figures: the command that the shards were, without --shard. Files that
// were written before first lines had the command have none.
func (r shardedSamples) provenance(h shardHeader) ([]figure.Note, error) {
	if h.Flags == nil {
		return nil, nil
	}
	run := newMonteCarlo()
	if err := h.takeFlags(run, h.Files); err != nil {
		return nil, err
	}
	return provenance(run, r.Data), nil
}

// runShard computes one shard of the run, to its own file.
func (o *monteCarloFlags) runShard(cmd *cobra.Command, m *monteCarlo, whole logHeader) error {
	s, err := parseShard(cmd, o.shard)
	if err != nil {
		return err
	}
	text, err := json.Marshal(whole)
	if err != nil {
		return err
	}
	p := partOf(s, sampleUnit, m.part.end)
	p.From, p.Samples = m.first, m.count
	h := shardHeader{Shard: p, Machine: thisMachine(m.job.device()), Whole: text, run: shardedSamples{whole}}
	h.Flags, h.Files = givenFlags(cmd)
	if o.y != "" {
		if h.Samples, err = fileHash(cmd.Context(), o.y); err != nil {
			return err
		}
	}
	m.header, m.part, m.log, m.resume, m.out = h, part{p.First, p.First + p.N}, s.File(o.jsonl), true, nil
	m.again = "the same command"
	sum, _, err := m.run(cmd.Context())
	if err != nil {
		return err
	}
	stderr := cmd.ErrOrStderr()
	fmt.Fprintf(stderr, "surepipe: shard %s, %d of %d samples and repetitions, is complete: %s\n", s, p.N, p.Total, m.log)
	if sum.NotConverged > 0 {
		// No failure: an engine would compute the same again.
		fmt.Fprintf(stderr, "surepipe: %d did not converge; surepipe merge says so too\n", sum.NotConverged)
	}
	return nil
}
