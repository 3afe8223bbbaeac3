package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"surepipe/pipeline"
	"surepipe/study"
)

// checkShard rejects flags that have no meaning for a part of a sweep.
func (f *sweepFlags) checkShard(cmd *cobra.Command) error {
	if !cmd.Flags().Changed("shard") {
		return nil
	}
	if f.jsonl == "" {
		return usagef("--shard needs --jsonl, which names the file of the merged lines")
	}
	for _, name := range []string{"csv", "plot", "out", "coefficients-csv", "json"} {
		if cmd.Flags().Changed(name) {
			return usagef("--shard computes a part of the points: give --csv, --plot and --out to surepipe "+
				"merge, found --%s", name)
		}
	}
	return nil
}

// computeShard computes one shard of the sweep, to its own file.
func (s *sweepRun) computeShard() error {
	shard, err := parseShard(s.cmd, s.f.shard)
	if err != nil {
		return err
	}
	whole, err := json.Marshal(s.header)
	if err != nil {
		return err
	}
	run, err := study.ReadShardedSweep(whole)
	if err != nil {
		return err
	}
	bounds := s.header.Chains()
	p := study.PartOf(shard, study.ChainUnit, len(bounds)-1)
	first, end := bounds[p.First], bounds[p.First+p.N]
	h, err := study.NewShardHeader(p, study.ThisMachine(s.job.Device()), s.header)
	if err != nil {
		return err
	}
	h.Flags, h.Files = s.flags, s.files
	stderr := s.cmd.ErrOrStderr()
	warn := func(text string) { fmt.Fprintln(stderr, "surepipe: "+text) }
	var known []study.SweepLine
	path := shard.File(s.f.jsonl)
	log, err := openLog(path, h, true, warn, func(line []byte) error {
		point, err := run.Point(p, len(known), line)
		known = append(known, point)
		return err
	})
	if err != nil {
		return err
	}
	for _, line := range known {
		s.options.Known = append(s.options.Known, study.KnownPoint(s.f.criterion, s.f.axes, line))
	}
	s.warn()
	if p.Total < p.Count {
		warn(fmt.Sprintf("the grid has %d chains of warm starts for %d shards, of which some have nothing to do: "+
			"a smaller --chain makes more, of shorter ones", p.Total, p.Count))
	}
	err = s.computePart(log, len(known), first, end)
	if closeErr := log.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		if s.cmd.Context().Err() != nil {
			warn(fmt.Sprintf("what was done is in %s: the same command continues from there", path))
		}
		return err
	}
	fmt.Fprintf(stderr, "surepipe: shard %s, %d of %d points, is complete: %s\n", shard, end-first,
		bounds[len(bounds)-1], path)
	return nil
}

// computePart computes points first to end-1 of the grid, of which some are known.
func (s *sweepRun) computePart(log *study.Log, known, first, end int) error {
	s.bar.set(known, end-first, known)
	for point, err := range pipeline.SweepPart(s.cmd.Context(), s.file.Y, s.family, s.grid, s.options, first, end) {
		if err != nil {
			s.bar.close()
			return err
		}
		line, err := json.Marshal(s.f.line(s.job, point))
		if err != nil {
			return err
		}
		if err := log.WriteLine(line); err != nil {
			return err
		}
		known++
		s.bar.set(known, end-first, known)
	}
	s.bar.close()
	return nil
}
