package pipeline

import (
	"context"
	"sync"

	"surepipe/progress"
)

// Progress is the progress of the work on a sample.
type Progress struct {
	// Sample is its index. Done and Total count its probes: both are 0 until the first are done, or
	// where the trace is known without probes, and Total grows where their spread asks for more.
	Sample, Done, Total int
	// Report is what has advanced. Its Stage is progress.Probes where a batch of probes is done, also
	// a batch of none; with Done equal to Total all of the sample's probes are, which is reported
	// once.
	Report progress.Report
}

// told is what a stream has reported of the samples in flight: how many of their probes are done,
// and how many there are.
type told struct {
	sync.Mutex
	counts map[int][2]int
}

func (t *told) forget(sample int) {
	t.Lock()
	defer t.Unlock()
	delete(t.counts, sample)
}

// tell passes a report of a sample on to Options.Progress, one call at a time.
func (s *stream) tell(sample int, r progress.Report) {
	s.told.Lock()
	defer s.told.Unlock()
	n := s.told.counts[sample]
	if r.Stage == progress.Probes {
		if s.told.counts == nil {
			s.told.counts = map[int][2]int{}
		}
		// Batches may overtake each other on their way.
		n = [2]int{max(n[0], r.Step), max(n[1], r.Steps)}
		s.told.counts[sample] = n
	}
	s.o.Progress(Progress{Sample: sample, Done: n[0], Total: n[1], Report: r})
}

func (s *sweep) reporting(ctx context.Context, i int) context.Context {
	if s.o.Progress == nil {
		return ctx
	}
	return progress.With(ctx, func(r progress.Report) { s.tell(Progress{Sample: i, Report: r}) })
}

func (s *sweep) tell(p Progress) {
	s.telling.Lock()
	defer s.telling.Unlock()
	s.o.Progress(p)
}
