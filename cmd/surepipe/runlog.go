package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"surepipe/study"
)

// estimatorSettings are the flags that determine what is computed, not how or from which files: a
// run must share them with the run that it continues.
func estimatorSettings(cmd *cobra.Command) map[string]string {
	how := map[string]bool{
		"help": true, "data": true, "y": true, "samples": true, "seeds": true, "parallel": true,
		"probe-batch": true, "memory": true,
		"device": true, "verbose": true, "jsonl": true, "resume": true, "shard": true, "plot": true,
		"running": true, "exec-timeout": true,
	}
	settings := map[string]string{}
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		// Files written before these flags existed have no such setting.
		late := slices.Contains(lossFlags(), flag.Name) ||
			slices.Contains([]string{"verify", "alo", "exec", "divergence", "eps", "alpha", "na", "index"}, flag.Name)
		if !how[flag.Name] && (!late || flag.Value.String() != flag.DefValue) {
			settings[flag.Name] = flag.Value.String()
		}
	})
	return settings
}

// openLog opens the file of a run whose lines come often: see [study.OpenLog].
func openLog(
	path string, header study.Header, resume bool, warn func(string), replay func(line []byte) error,
) (*study.Log, error) {
	log, err := study.OpenLog(path, header, study.LogOptions{
		Resume: resume, Every: study.SyncEvery, Warn: warn, Replay: replay,
	})
	return log, logError(err)
}

// logError names the flag of a fault of the --jsonl file.
func logError(err error) error {
	var fault *study.LogError
	if !errors.As(err, &fault) {
		return err
	}
	switch fault.Fault {
	case study.NotRegular:
		return usagef("--jsonl is %q, expected a regular file", fault.Path)
	case study.HasLines:
		return usagef("--jsonl: %s holds %d bytes already; --resume continues it", fault.Path, fault.Size)
	case study.Locked:
		return fmt.Errorf("--jsonl: %s: %w", fault.Path, fault.Err)
	case study.OtherLines:
		return usagef("%s: %w", fault.Path, fault.Err)
	}
	return usagef("--jsonl is %q: %w", fault.Path, fault.Err)
}

// computeSamples runs a Monte Carlo run to its end, or to an interrupt: again says how to go on then.
func computeSamples(ctx context.Context, m *study.MonteCarlo, bar *progress, again string) (*study.MonteCarloRun,
	error) {
	m.Step = func(r *study.MonteCarloRun) {
		bar.set(r.Done())
		bar.describe(rates(&r.Speed) + ", " + remaining(&r.Speed, r.Left()) + meanText(r))
	}
	r, err := m.Run(ctx)
	bar.close()
	if samples, repeats, ok := r.Kept(); ok && ctx.Err() != nil {
		m.Warn(fmt.Sprintf("%d samples and %d seeds are in %s: %s continues from there", samples, repeats, m.Log,
			again))
	}
	return r, logError(err)
}

// meanText is the running mean.
func meanText(r *study.MonteCarloRun) string {
	_, name := r.Tally.Headline()
	if stdErr := r.Mean.StdErr(); !math.IsNaN(stdErr) {
		return fmt.Sprintf("%s %.3g ± %.2g", name, r.Mean.Mean, stdErr)
	}
	return fmt.Sprintf("%s %.3g", name, r.Mean.Mean)
}
