package surepipe

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"surepipe/pipeline"
	"surepipe/stages"
	"surepipe/study"
)

// Spread sums up the estimates at many y, and has the numbers of each. Its JSON is the last line of surepipe
// montecarlo.
type Spread = study.Tally

// Stream estimates the risk at many y of the estimator's shape, in their order. It takes no more of them than
// [Compute].Parallel and one before a result is taken, so that a slow consumer holds the source up. The error of
// one sample ([pipeline.SampleError]) is yielded in its place, and with [Compute].KeepGoing the stream goes on
// after it; any other ends the stream. Breaking out of the loop stops all work.
func (e *Estimator) Stream(ctx context.Context, ys iter.Seq2[[]float64, error]) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		_, err := call(ctx, func() (any, error) {
			if ys == nil {
				return nil, study.Errorf("the samples are nil, expected a sequence")
			}
			return nil, e.fittable()
		}, nil)
		if err != nil {
			yield(Result{}, err)
			return
		}
		for risk, err := range e.stream(ctx, checked(ys, e.job.Problem.D)) {
			r := e.result()
			r.Sample = &risk.Index
			if err == nil {
				r.Fill(e.job.Problem, risk, nil)
			}
			if !yield(r, why(ctx, err)) {
				return
			}
		}
	}
}

// checked are samples, of which one that is none is an [InputError] in its place.
func checked(ys iter.Seq2[[]float64, error], d int) iter.Seq2[[]float64, error] {
	return func(yield func([]float64, error) bool) {
		for y, err := range ys {
			if err == nil && len(y) != d {
				err = study.Errorf("--y has %d values, expected %d", len(y), d)
			}
			bad := func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }
			if i := slices.IndexFunc(y, bad); err == nil && i >= 0 {
				err = study.Errorf("--y has %g at [%d], expected a finite number", y[i], i)
			}
			if !yield(y, err) {
				return
			}
		}
	}
}

// stream is the stream on a goroutine of its own, which may be left behind when ctx is done.
func (e *Estimator) stream(ctx context.Context, ys iter.Seq2[[]float64, error]) iter.Seq2[pipeline.Risk, error] {
	type item struct {
		risk pipeline.Risk
		err  error
	}
	return func(yield func(pipeline.Risk, error) bool) {
		if err := e.begin(); err != nil {
			yield(pipeline.Risk{}, err)
			return
		}
		inner, stop := context.WithCancel(ctx)
		defer stop()
		items, done := make(chan item), make(chan struct{})
		go func() {
			defer e.work.Done()
			defer close(done)
			err := stages.Guard(func() error {
				for risk, err := range e.job.Stream(inner, 0, ys) {
					select {
					case items <- item{risk, err}:
					case <-inner.Done():
						return nil
					}
				}
				return nil
			})
			if err != nil {
				select {
				case items <- item{err: err}:
				case <-inner.Done():
				}
			}
		}()
		defer func() { // what is in work ends, or is left behind
			stop()
			select {
			case <-done:
			case <-time.After(patience):
			}
		}()
		for {
			select {
			case i := <-items:
				if !yield(i.risk, i.err) {
					return
				}
			case <-done:
				return
			case <-ctx.Done():
				yield(pipeline.Risk{Index: -1}, ended(ctx))
				return
			}
		}
	}
}

// Draws says at how many y the risk is estimated.
type Draws struct {
	// Count is how many samples are drawn, from number First on, 0 for 100: around the mean Mu of the data, with the
	// noise's variance; or, where Sample is not nil, what that returns for a number. Seeds repeats the estimate at the
	// first of them with as many seeds, for the spread of the trace estimator alone.
	First, Count, Seeds int
	Sample              func(i int) ([]float64, error)
	// Lines, Known, File and Shard are as those of a [Grid], and Line, if not nil, is called with each line.
	Lines io.Writer
	Known io.Reader
	File  string
	Shard Shard
	Line  func(study.SampleLine) error
}

// MonteCarlo estimates the risk at many y, and sums up. Sample i and its probes are functions of the seed and i alone.
func (e *Estimator) MonteCarlo(ctx context.Context, d Draws) (*Spread, error) {
	open := &gate{}
	d.Lines = open.writer(d.Lines)
	d.Line = passing(open, d.Line)
	defer open.close()
	return use(ctx, e, func() (*Spread, error) {
		m, err := e.MonteCarloBelow(ctx, d)
		if err != nil {
			return nil, err
		}
		r, err := m.Run(ctx)
		return r.Tally, err
	})
}

// MonteCarloBelow is that run for the packages below, before it runs.
func (e *Estimator) MonteCarloBelow(ctx context.Context, d Draws) (*study.MonteCarlo, error) {
	source, err := e.source(d)
	if err == nil {
		err = oneHome(d.File, d.Lines, d.Known)
	}
	if err != nil {
		return nil, err
	}
	if d.Count, err = source.Count(d.First, d.Count); err != nil {
		return nil, err
	}
	header, err := e.header(d)
	if err != nil {
		return nil, err
	}
	m := &study.MonteCarlo{Estimator: e.job, Template: e.result(), Samples: source, Mu: e.data.Mu, First: d.First,
		Count: d.Count, Part: study.Part{End: d.Count + d.Seeds}, Seed: e.request.Trace.Seed, Line: d.Line,
		File: study.File{To: d.Lines, From: d.Known, Path: d.File, Resume: true, Header: header, Warn: e.doubt}}
	if d.Shard != (Shard{}) {
		h, err := e.divide(d.Shard, study.ShardPart{Unit: study.SampleUnit, Total: m.Part.End, From: d.First,
			Samples: d.Count}, header)
		if err == nil {
			h.Samples, err = e.request.Many.Hash(ctx)
		}
		if err != nil {
			return nil, err
		}
		m.File.Header, m.Part = h, study.Part{First: h.Shard.First, End: h.Shard.First + h.Shard.N}
	}
	return m, nil
}

// divide is the header of a shard of a run, with what the request keeps of the command.
func (e *Estimator) divide(s Shard, p study.ShardPart, whole any) (study.ShardHeader, error) {
	h, err := study.Divide(s, p, e.job.Device(), whole)
	h.Flags, h.Files = e.request.Flags, e.request.Paths
	return h, err
}

func (e *Estimator) source(d Draws) (*study.SampleSource, error) {
	if err := e.fittable(); err != nil {
		return nil, err
	}
	switch {
	case d.Count < 0 || d.First < 0 || d.Seeds < 0 || d.Seeds == 1:
		return nil, study.Errorf("--samples is %d from %d on, with %d seeds, expected 0 or more from 0 or more on, "+
			"and no seeds or 2 or more", d.Count, d.First, d.Seeds)
	case e.samples != nil:
		return e.samples, nil
	case d.Sample != nil:
		return study.SamplesOf(e.data.YShape, d.Sample), nil
	case e.data.Mu == nil:
		return nil, study.Errorf("--mu is missing, expected the mean to draw samples around, or a function of a " +
			"sample's number")
	case e.job.Sigma2 == 0:
		return nil, study.Errorf("--sigma2 is missing, expected the variance of the noise to draw samples with")
	}
	return study.Simulated(e.data.Mu, e.data.YShape, e.job.Sigma2, e.request.Trace.Seed), nil
}

// header is the first line of a run: the settings are the keys of the header of a sweep at a point.
func (e *Estimator) header(d Draws) (h study.MonteCarloHeader, err error) {
	text, err := json.Marshal(study.NewSweepHeader(e.job, e.data.Data, nil, pipeline.SweepOptions{
		Options: e.request.Pipeline(e.data.Data, e.job.Sigma2)}))
	if err != nil {
		return h, err
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(text, &keys); err != nil {
		return h, err
	}
	settings := map[string]string{}
	for key, value := range keys {
		if !slices.Contains([]string{"device", "version", "blas", "grid", "data_sha256"}, key) {
			settings[strings.ReplaceAll(key, "_", "-")] = strings.Trim(string(value), `"`)
		}
	}
	settings["first"] = strconv.Itoa(d.First)
	if d.Sample != nil {
		settings["samples"] = "a function"
	}
	return study.NewMonteCarloHeader(settings, e.data.Data, e.job.Device()), nil
}

// Shards are the lines of the shards of one run.
type Shards = study.Shards

// ReadShards checks the lines of shards, which files has by their names, against each other. Shards that were computed
// on different machines, with other bits, are refused unless mixed.
func ReadShards(ctx context.Context, mixed bool, files fs.FS, names ...string) (*Shards, error) {
	return call(ctx, func() (*Shards, error) { return study.ReadShards(files, names, mixed) }, nil)
}

// MergeSamples sums up the lines of all shards of a run, and writes those of the whole to w. Where shards are missing
// the error is a [study.MissingShards].
func MergeSamples(ctx context.Context, w io.Writer, set *Shards) (*Spread, error) {
	return call(ctx, func() (*Spread, error) {
		if err := set.Whole(); err != nil {
			return nil, err
		}
		return set.MergeSamples(ctx, w)
	}, nil)
}
