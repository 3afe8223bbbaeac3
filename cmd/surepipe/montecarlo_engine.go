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

	"surepipe/pipeline"
	"surepipe/study"
)

// monteCarlo streams samples through a pipeline, and prints and summarizes the results.
type monteCarlo struct {
	job      *job
	template study.Result
	ys       *ySource
	mu       []float64
	// The run's units are samples first to first+count-1, and then repetitions at sample first, with
	// the seeds from seed on. part is what of them to compute: all, or a shard's.
	first, count int
	part         part
	seed         uint64
	// log, if not "", is the file to which the lines are written and which resume continues.
	log    string
	resume bool
	header study.Header
	// out receives the lines, unless it is nil.
	out io.Writer
	// step, if not nil, is called after each line that has been computed.
	step func(*monteCarloRun)
	// warn receives reasons to doubt the lines of the file; nil for none.
	warn func(string)
}

// syncEvery is the time within which the lines of samples are on the disk.
const syncEvery = time.Second

// part is a range of the units of a run: its samples, followed by its repetitions.
type part struct{ first, end int }

// split divides a part after the first count units.
func (p part) split(count int) (samples, repeats part) {
	return part{min(p.first, count), min(p.end, count)}, part{max(p.first-count, 0), max(p.end-count, 0)}
}

// repeatResult is the line of a repetition: another seed at the same sample.
type repeatResult struct {
	Repeat int `json:"repeat"`
	study.Result
}

// monteCarloRun is a Monte Carlo run in progress.
type monteCarloRun struct {
	*monteCarlo
	s     *study.Tally
	speed throughput
	mean  runningMean
	log   *study.Log // nil without a file
	// samples and repeats are the numbers of the next ones, after those done in this run or in the
	// file; ofSamples and ofRepeats are the part to do.
	samples, repeats     int
	ofSamples, ofRepeats part
}

// run computes the lines that are not in the file yet. If the error is not nil the summary is
// incomplete, and the lines so far are in the file.
func (m *monteCarlo) run(ctx context.Context) (r *monteCarloRun, err error) {
	r = &monteCarloRun{monteCarlo: m, s: study.NewTally()}
	r.ofSamples, r.ofRepeats = m.part.split(m.count)
	r.samples, r.repeats = r.ofSamples.first, r.ofRepeats.first
	r.speed.begun = time.Now()
	if m.log != "" {
		r.log, err = study.OpenLog(m.log, m.header, study.LogOptions{
			Resume: m.resume, Every: syncEvery, Warn: m.warn, Replay: func(line []byte) error {
				_, err := r.take(line)
				return err
			},
		})
		if err != nil {
			return r, err
		}
		defer func() {
			if closeErr := r.log.Close(); err == nil {
				err = closeErr
			}
		}()
	}
	values, _ := r.s.Headline()
	for _, v := range values {
		r.mean.add(v)
	}
	if err := r.compute(ctx); err != nil {
		return r, err
	}
	r.s.Finish(time.Since(r.speed.begun))
	if r.ys.end != nil {
		err = r.ys.end()
	}
	return r, err
}

// kept is how many samples and repetitions the file has; ok is false where there is none.
func (m *monteCarloRun) kept() (samples, repeats int, ok bool) {
	return m.samples - m.ofSamples.first, m.repeats - m.ofRepeats.first, m.log != nil
}

// done is how many units of the part are done, of how many, and the number of the next sample.
func (m *monteCarloRun) done() (units, of, next int) {
	return m.samples + m.repeats - m.part.first, m.part.end - m.part.first, m.first + m.samples
}

// left is how many samples are to be done.
func (m *monteCarloRun) left() int { return m.ofSamples.end - m.samples }

// compute computes the samples and the repetitions that are left.
func (r *monteCarloRun) compute(ctx context.Context) (err error) {
	// The first sample is read before those that follow, because a pipe cannot be rewound.
	var y []float64
	if r.repeats < r.ofRepeats.end {
		if y, err = r.ys.at(r.first); err != nil {
			return err
		}
	}
	if r.samples < r.ofSamples.end {
		next := r.first + r.samples
		risks := r.job.stream(ctx, next, r.ys.from(ctx, next, r.first+r.ofSamples.end))
		if err := r.collect(risks, func(line study.Result) any { return line }); err != nil {
			return err
		}
	}
	if r.repeats < r.ofRepeats.end {
		seeds := func(yield func(uint64) bool) {
			for k := r.repeats; k < r.ofRepeats.end && yield(r.seed+uint64(k)); k++ {
			}
		}
		return r.collect(r.job.repeat(ctx, r.first, y, seeds), func(line study.Result) any { return repeatResult{r.repeats, line} })
	}
	return nil
}

// take adds a line of JSON to the summary, and prints it.
func (m *monteCarloRun) take(line []byte) (study.Line, error) {
	r, err := study.ParseLine(line)
	if err != nil {
		return r, err
	}
	what, number, expected := "sample", *r.Sample, m.first+m.samples
	counter, end := &m.samples, m.ofSamples.end
	if r.Repeat != nil {
		what, number, expected, counter, end = "repetition", *r.Repeat, m.repeats, &m.repeats, m.ofRepeats.end
	}
	if r.Repeat != nil && *r.Sample != m.first {
		return r, fmt.Errorf("it is a repetition of sample %d, expected %d", *r.Sample, m.first)
	}
	if number != expected {
		return r, fmt.Errorf("it is %s %d, expected %d", what, number, expected)
	}
	if *counter++; *counter > end {
		return r, nil
	}
	m.s.Add(r)
	if m.out != nil {
		_, err = m.out.Write(append(line, '\n'))
	}
	return r, err
}

// collect writes a line for each risk.
func (m *monteCarloRun) collect(risks iter.Seq2[pipeline.Risk, error], line func(r study.Result) any) error {
	for risk, err := range risks {
		var input *study.Error
		if errors.As(err, &input) {
			return input
		}
		if err != nil {
			return err
		}
		r := m.template
		r.Warnings = slices.Clone(r.Warnings) // the template's, which all samples share
		r.Sample = &risk.Index
		r.Fill(m.job.problem, risk, m.mu)
		text, err := json.Marshal(line(r))
		if err != nil {
			return err
		}
		if m.log != nil {
			if err := m.log.WriteLine(text); err != nil {
				return err
			}
		}
		record, err := m.take(text)
		if err != nil {
			return err
		}
		m.speed.add(record)
		if values, _ := m.s.Headline(); record.Repeat == nil && len(values) > 0 {
			m.mean.add(values[len(values)-1])
		}
		if m.step != nil {
			m.step(m)
		}
	}
	return nil
}

// runningMean is the mean, and the sum of squared deviations, of the values added so far.
type runningMean struct{ n, mean, squares float64 }

func (m *runningMean) add(v float64) {
	m.n++
	d := v - m.mean
	m.mean += d / m.n
	m.squares += d * (v - m.mean)
}

// stdErr is the standard error of the mean, NaN before there are two values.
func (m *runningMean) stdErr() float64 {
	if m.n < 2 {
		return math.NaN()
	}
	return math.Sqrt(m.squares / (m.n - 1) / m.n)
}
