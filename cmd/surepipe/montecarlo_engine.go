package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"surepipe/pipeline"
)

// monteCarlo streams samples through a pipeline and says what came out.
type monteCarlo struct {
	job      *job
	template result
	ys       *ySource
	mu       []float64
	// Samples first to first+count-1, then seeds repetitions at sample first.
	first, count, seeds int
	seed                uint64
	// log, if not "", is the file that the lines go to and that resume goes on with.
	log    string
	resume bool
	header logHeader
	// again says how to go on after an interrupt.
	again string
	// out takes the lines, nil if nobody wants them; progress the bar.
	out      io.Writer
	progress *progress
	warn     func(string)
}

// repeatResult is the line of a repetition: another seed at the same sample.
type repeatResult struct {
	Repeat int `json:"repeat"`
	result
}

// estimatorSettings are the flags that say what is computed, and not how or
// where from: those that a run must share with the one that it goes on with.
func estimatorSettings(cmd *cobra.Command) map[string]string {
	how := map[string]bool{
		"help": true, "data": true, "y": true, "samples": true, "seeds": true, "parallel": true, "probe-batch": true, "memory": true,
		"device": true, "verbose": true, "jsonl": true, "resume": true, "plot": true, "running": true,
	}
	settings := map[string]string{}
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		// A file from before there was --verify is one without.
		if !how[flag.Name] && (flag.Name != "verify" || flag.Value.String() == "true") {
			settings[flag.Name] = flag.Value.String()
		}
	})
	return settings
}

// run gives a summary that is not finished where the error is not nil.
func (m *monteCarlo) run(ctx context.Context) (s *summary, speed throughput, err error) {
	s = &summary{Summary: true}
	samples, repeats := 0, 0 // done, here or in the file
	speed.begun = time.Now()
	var log *sampleLog
	// take counts a line of JSON in.
	take := func(line []byte) (sampleRecord, error) {
		r, err := parseRecord(line)
		if err != nil {
			return r, err
		}
		what, number, expected := "sample", *r.Sample, m.first+samples
		counter, wanted := &samples, m.count
		if r.Repeat != nil {
			what, number, expected, counter, wanted = "repetition", *r.Repeat, repeats, &repeats, m.seeds
		}
		if r.Repeat != nil && *r.Sample != m.first {
			return r, fmt.Errorf("it is a repetition of sample %d, expected %d", *r.Sample, m.first)
		}
		if number != expected {
			return r, fmt.Errorf("it is %s %d, expected %d", what, number, expected)
		}
		if *counter++; *counter > wanted {
			return r, nil
		}
		s.add(r)
		if m.out != nil {
			_, err = m.out.Write(append(line, '\n'))
		}
		return r, err
	}
	if m.log != "" {
		log, err = openLog(m.log, m.header, m.resume, m.warn, func(line []byte) error {
			_, err := take(line)
			return err
		})
		if err != nil {
			return s, speed, err
		}
		defer func() {
			if closeErr := log.close(); err == nil {
				err = closeErr
			}
			if ctx.Err() != nil {
				m.warn(fmt.Sprintf("%d samples and %d seeds are in %s: %s goes on from there", samples, repeats, m.log, m.again))
			}
		}()
	}
	var mean runningMean
	for _, v := range s.headline() {
		mean.add(v)
	}
	bar := newThrottled(m.progress)
	defer m.progress.done()
	// collect writes a line for each risk.
	collect := func(risks iter.Seq2[pipeline.Risk, error], line func(r result) any) error {
		for risk, err := range risks {
			var input usageError
			if errors.As(err, &input) {
				return input
			}
			if err != nil {
				return err
			}
			r := m.template
			r.Warnings = slices.Clone(r.Warnings) // of the template, which all samples share
			r.Sample = &risk.Index
			r.fill(m.job.problem, risk, m.mu)
			text, err := json.Marshal(line(r))
			if err != nil {
				return err
			}
			if log != nil {
				if err := log.write(text); err != nil {
					return err
				}
			}
			record, err := take(text)
			if err != nil {
				return err
			}
			speed.add(record)
			if values := s.headline(); record.Repeat == nil {
				mean.add(values[len(values)-1])
			}
			bar.set(samples+repeats, m.count+m.seeds, func() string { return speed.String() + ", " + mean.describe(s) })
		}
		return nil
	}
	// The first sample is read before those that follow, for a pipe does not go back.
	var y []float64
	if repeats < m.seeds {
		if y, err = m.ys.at(m.first); err != nil {
			return s, speed, err
		}
	}
	if samples < m.count {
		next := m.first + samples
		risks := m.job.pipeline.StreamFrom(ctx, next, m.ys.from(ctx, next, m.first+m.count))
		if err := collect(risks, func(r result) any { return r }); err != nil {
			return s, speed, err
		}
	}
	if repeats < m.seeds {
		seeds := func(yield func(uint64) bool) {
			for k := repeats; k < m.seeds && yield(m.seed+uint64(k)); k++ {
			}
		}
		err := collect(m.job.pipeline.Repeat(ctx, m.first, y, seeds), func(r result) any { return repeatResult{repeats, r} })
		if err != nil {
			return s, speed, err
		}
	}
	s.finish(time.Since(speed.begun))
	return s, speed, nil
}

// headline is what is expected to average out: SURE - loss where the loss is known, else
// SURE.
func (s *summary) headline() []float64 {
	if len(s.err) > 0 {
		return s.err
	}
	return s.sure
}

// runningMean is a mean and its standard error that values are added to.
type runningMean struct{ n, mean, squares float64 }

func (m *runningMean) add(v float64) {
	m.n++
	d := v - m.mean
	m.mean += d / m.n
	m.squares += d * (v - m.mean)
}

func (m *runningMean) describe(s *summary) string {
	name := "SURE"
	if len(s.err) > 0 {
		name = "SURE - loss"
	}
	if m.n < 2 {
		return fmt.Sprintf("%s %.3g", name, m.mean)
	}
	return fmt.Sprintf("%s %.3g ± %.2g", name, m.mean, math.Sqrt(m.squares/(m.n-1)/m.n))
}

// throttled updates a bar ten times a second.
type throttled struct {
	bar  *progress
	last time.Time
}

func newThrottled(bar *progress) *throttled { return &throttled{bar: bar} }

func (t *throttled) set(done, total int, text func() string) {
	if time.Since(t.last) < 100*time.Millisecond {
		return
	}
	t.last = time.Now()
	t.bar.describe(text())
	t.bar.set(done, total)
}
