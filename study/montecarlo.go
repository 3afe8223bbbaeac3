package study

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"surepipe/pipeline"
	"surepipe/problems"
)

// MonteCarlo streams samples through a pipeline, and summarizes the results.
type MonteCarlo struct {
	Estimator *Estimator
	Template  Result
	Samples   *SampleSource
	Mu        []float64
	// The run's units are samples first to first+count-1, and then repetitions at sample first, with
	// the seeds from seed on. part is what of them to compute: all, or a shard's.
	First, Count int
	Part         Part
	Seed         uint64
	// File is where the lines are kept.
	File File
	// Line, if not nil, takes each line, known or new.
	Line func(SampleLine) error
	// Step, if not nil, is called after each line that has been computed.
	Step func(*MonteCarloRun)
}

// syncEvery is the time within which the lines of samples are on the disk.
const syncEvery = time.Second

// Part is a range of the units of a run: its samples, followed by its repetitions.
type Part struct{ First, End int }

// SampleLine is the line of a sample, or of a repetition: the number of another seed at the same sample.
type SampleLine struct {
	Repeat *int `json:"repeat,omitempty"`
	Result
}

// ParseLine reads the line of a sample.
func ParseLine(line []byte) (r SampleLine, err error) {
	if err := json.Unmarshal(line, &r); err != nil {
		return r, err
	}
	if r.Sample == nil {
		return r, fmt.Errorf("it has no \"sample\"")
	}
	return r, nil
}

// MonteCarloRun is a Monte Carlo run in progress.
type MonteCarloRun struct {
	*MonteCarlo
	Tally *Tally
	Mean  RunningMean
	log   *Log // nil without a file
	// samples and repeats are the numbers of the next ones, after those done in this run or in the
	// file; ofSamples and ofRepeats are the part to do.
	samples, repeats     int
	ofSamples, ofRepeats Part
}

// RunningMean is the mean, and the sum of squared deviations, of the values added so far.
type RunningMean struct{ n, Mean, squares float64 }

// Throughput counts what a run has computed itself, not the lines that it read from a file.
type Throughput struct {
	Begun           time.Time
	Samples, Probes int
	Sampling        time.Duration
}

func (p Part) split(count int) (samples, repeats Part) {
	return Part{min(p.First, count), min(p.End, count)}, Part{max(p.First-count, 0), max(p.End-count, 0)}
}

// Run computes the lines that are not in the file yet. If the error is not nil the summary is
// incomplete, and the lines so far are in the file.
func (m *MonteCarlo) Run(ctx context.Context) (r *MonteCarloRun, err error) {
	r = &MonteCarloRun{MonteCarlo: m, Tally: NewTally()}
	r.ofSamples, r.ofRepeats = m.Part.split(m.Count)
	r.samples, r.repeats = r.ofSamples.First, r.ofRepeats.First
	r.Tally.Speed.Begun = time.Now()
	m.File.Every = syncEvery
	r.log, err = m.File.open(r.read)
	if err != nil {
		return r, err
	}
	defer r.log.end(&err)
	values, _ := r.Tally.Headline()
	for _, v := range values {
		r.Mean.add(v)
	}
	if err := r.compute(ctx); err != nil {
		return r, err
	}
	r.Tally.Finish(time.Since(r.Tally.Speed.Begun))
	if r.Samples.end != nil {
		err = r.Samples.end()
	}
	return r, err
}

// Kept is how many samples and repetitions the file has; ok is false where there is none.
func (m *MonteCarloRun) Kept() (samples, repeats int, ok bool) {
	return m.samples - m.ofSamples.First, m.repeats - m.ofRepeats.First, m.log != nil
}

// Done is how many units of the part are done, of how many, and the number of the next sample.
func (m *MonteCarloRun) Done() (units, of, next int) {
	return m.samples + m.repeats - m.Part.First, m.Part.End - m.Part.First, m.First + m.samples
}

// Left is how many samples are to be done.
func (m *MonteCarloRun) Left() int { return m.ofSamples.End - m.samples }

func (r *MonteCarloRun) compute(ctx context.Context) (err error) {
	// The first sample is read before those that follow, because a pipe cannot be rewound.
	var y []float64
	if r.repeats < r.ofRepeats.End {
		if y, err = r.Samples.At(r.First); err != nil {
			return err
		}
	}
	if r.samples < r.ofSamples.End {
		next := r.First + r.samples
		risks := r.Estimator.Stream(ctx, next, r.Samples.from(ctx, next, r.First+r.ofSamples.End))
		if err := r.collect(risks, false); err != nil {
			return err
		}
	}
	if r.repeats < r.ofRepeats.End {
		seeds := func(yield func(uint64) bool) {
			for k := r.repeats; k < r.ofRepeats.End && yield(r.Seed+uint64(k)); k++ {
			}
		}
		return r.collect(r.Estimator.Repeat(ctx, r.First, y, seeds), true)
	}
	return nil
}

// read takes a line of the file, which is the next one.
func (m *MonteCarloRun) read(line []byte) error {
	r, err := ParseLine(line)
	if err != nil {
		return err
	}
	want := sampleAt(m.First+m.samples, 1, 0)
	if r.Repeat != nil {
		want = sampleAt(m.First, 0, m.repeats)
	}
	if err := want.check(line); err != nil {
		return err
	}
	return m.take(r)
}

func (m *MonteCarloRun) take(r SampleLine) error {
	counter, end := &m.samples, m.ofSamples.End
	if r.Repeat != nil {
		counter, end = &m.repeats, m.ofRepeats.End
	}
	if *counter++; *counter > end {
		return nil
	}
	m.Tally.Add(r)
	if m.Line != nil {
		return m.Line(r)
	}
	return nil
}

// collect writes a line for each risk, of a sample or of a repetition.
func (m *MonteCarloRun) collect(risks iter.Seq2[pipeline.Risk, error], again bool) error {
	for risk, err := range risks {
		if err != nil {
			return badInput(err)
		}
		r := SampleLine{Result: m.Template}
		if again {
			r.Repeat = new(m.repeats)
		}
		r.Warnings = slices.Clone(r.Warnings) // the template's, which all samples share
		r.Sample = &risk.Index
		r.Fill(m.Estimator.Problem, risk, m.Mu)
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if err := m.log.WriteLine(text); err != nil {
			return err
		}
		if err := m.take(r); err != nil {
			return err
		}
		m.Tally.Speed.add(r)
		if values, _ := m.Tally.Headline(); r.Repeat == nil && len(values) > 0 {
			m.Mean.add(values[len(values)-1])
		}
		if m.Step != nil {
			m.Step(m)
		}
	}
	return nil
}

func (m *RunningMean) add(v float64) {
	m.n++
	d := v - m.Mean
	m.Mean += d / m.n
	m.squares += d * (v - m.Mean)
}

// StdErr is the standard error of the mean, NaN before there are two values.
func (m *RunningMean) StdErr() float64 {
	if m.n < 2 {
		return math.NaN()
	}
	return math.Sqrt(m.squares / (m.n - 1) / m.n)
}

func (t *Throughput) add(r SampleLine) {
	t.Probes += r.Trace.Queries
	if r.Repeat == nil {
		t.Samples++
		t.Sampling = time.Since(t.Begun)
	}
}

// MonteCarloHeader is the first line of a --jsonl file: the settings and data of its samples. Two runs
// with equal Settings and Data compute the same lines.
type MonteCarloHeader struct {
	MonteCarlo int               `json:"montecarlo"` // the format, 1
	Settings   map[string]string `json:"settings"`
	Data       string            `json:"data"`
	// Version and Device may differ in a run that continues: results then agree up to rounding.
	Version string `json:"version"`
	Device  string `json:"device"`
}

const logFormat = 1

func (h MonteCarloHeader) What() string { return "montecarlo run" }

// ReadMonteCarloHeader reads the first line of a run.
func ReadMonteCarloHeader(line []byte) (h MonteCarloHeader, err error) {
	if err = json.Unmarshal(line, &h); err == nil && h.MonteCarlo != logFormat {
		err = fmt.Errorf("it is of format %d of surepipe montecarlo, expected %d", h.MonteCarlo, logFormat)
	}
	return h, err
}

// Continues compares settings and data.
func (h MonteCarloHeader) Continues(line []byte) (doubt string, err error) {
	free := []string{"version", "device"}
	was, is, err := continues(line, h, "montecarlo", free...)
	if err == nil && (was["version"] != is["version"] || was["device"] != is["device"]) {
		doubt = fmt.Sprintf("the samples in the file were computed by version %s on %s: further samples agree "+
			"with them up to rounding", strings.Trim(was["version"], `"`), strings.Trim(was["device"], `"`))
	}
	return doubt, err
}

// NewMonteCarloHeader is the header of a run with these settings, for the data, on the device.
func NewMonteCarloHeader(settings map[string]string, data problems.Data, device string) MonteCarloHeader {
	return MonteCarloHeader{
		MonteCarlo: logFormat, Settings: settings, Data: DataHash(data), Version: Version(), Device: device,
	}
}

// badInput is the bad input in an error of a sample, else the error.
func badInput(err error) error {
	var bad *Error
	if errors.As(err, &bad) {
		return bad
	}
	return err
}
