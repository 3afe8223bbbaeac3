package stages

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"sync"

	"surepipe/hutch"
	"surepipe/vjp"
)

// Division divides the probes of one sample among several jobs that solve the same problem: each
// claims probes that no other has claimed, and takes the numbers of the others' from here. The jobs
// may belong to different pipelines, on different devices; or there is one job, and the other probes
// belong to other processes. The estimate is the same to the last bit for any division.
//
// All methods may be called from several goroutines at once.
type Division struct {
	// Solved, if not nil, is called once, with the solution of the first job, before any probe. An error
	// fails the sample.
	Solved func(Fit) error
	// Taken, if not nil, is given the number and the values of each probe that was computed here, in
	// the order of the numbers. An error fails the sample.
	Taken func(i int, probe DividedProbe) error
	// Most, if positive, is the largest number of probes that a job claims at a time.
	Most int

	announcing sync.Mutex // held while Solved is called
	announced  bool
	refusal    error // what Solved has returned

	mu         sync.Mutex
	first, end int // the part that is computed here
	total      int // probes of the plan
	state      []probeState
	probes     []DividedProbe
	next       int // the first probe that Taken has not been given
	// changed is closed when a probe is known or given up.
	changed chan struct{}
}

// DividedProbe are the values of a probe, with what its linear systems took: Steps is the largest
// number of steps of any probe so far, and Unsolved how many of the probes that were computed together with
// it, of which it is the first, stopped short of their tolerance.
type DividedProbe struct {
	hutch.Probe
	Steps, Unsolved int
}

// probeState is how far a probe is.
type probeState int8

const (
	unclaimed probeState = iota
	claimed
	known
)

// NewDivision divides total probes, of which first to end-1 are computed here. Unless these are all
// the jobs end without an estimate.
func NewDivision(first, end, total int) *Division {
	return &Division{first: first, end: end, total: total, next: first, state: make([]probeState, total),
		probes: make([]DividedProbe, total), changed: make(chan struct{})}
}

// solved calls Solved unless it has been called.
func (d *Division) solved(fit func() (Fit, error)) error {
	if d.Solved == nil {
		return nil
	}
	d.announcing.Lock()
	defer d.announcing.Unlock()
	if !d.announced {
		f, err := fit()
		if err != nil {
			return err
		}
		d.announced, d.refusal = true, d.Solved(f)
	}
	return d.refusal
}

// Know says the values of a probe that was computed before.
func (d *Division) Know(i int, probe DividedProbe) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state[i], d.probes[i] = known, probe
	if i == d.next {
		d.next++
	}
}

// Total is the number of probes.
func (d *Division) Total() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.total
}

// Whole reports whether all probes are computed here.
func (d *Division) Whole() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.whole()
}

func (d *Division) whole() bool { return d.first == 0 && d.end == d.total }

// part is what is computed here of the first most probes, which are those that a job knows of.
func (d *Division) part(most int) (first, end int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.first, min(d.end, most)
}

// grow makes room for probes up to total, all of them to be computed here.
func (d *Division) grow(total int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if more := total - d.total; more > 0 {
		d.state = append(d.state, make([]probeState, more)...)
		d.probes = append(d.probes, make([]DividedProbe, more)...)
		d.end, d.total = total, total
	}
}

// claim takes the first probes, at most most of them and next to each other, that nobody has claimed
// from among first to end-1; n is 0 where there are none.
func (d *Division) claim(first, end, most int) (from, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for from = max(first, d.first); from < min(end, d.end); from++ {
		if d.state[from] == unclaimed {
			break
		}
	}
	for i := from; i < min(end, d.end) && n < most && d.state[i] == unclaimed; i++ {
		d.state[i] = claimed
		n++
	}
	return from, n
}

// giveUp returns those of the claimed probes that have not become known.
func (d *Division) giveUp(first, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := first; i < first+n; i++ {
		if d.state[i] == claimed {
			d.state[i] = unclaimed
		}
	}
	d.tell()
}

// take records what a job has computed.
func (d *Division) take(first int, probes []hutch.Probe, steps, unsolved int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, p := range probes {
		d.state[first+i], d.probes[first+i] = known, DividedProbe{Probe: p, Steps: steps, Unsolved: unsolved}
		unsolved = 0
	}
	d.tell()
	if d.Taken == nil {
		return nil
	}
	for ; d.next < d.end && d.state[d.next] == known; d.next++ {
		if err := d.Taken(d.next, d.probes[d.next]); err != nil {
			return err
		}
		if !d.whole() {
			d.probes[d.next].Samples = nil
		}
	}
	return nil
}

// tell wakes those who wait. d.mu is held.
func (d *Division) tell() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// pending reports whether all of these probes are known. Unless one can be claimed, changed is closed
// when that may have changed; else it is nil.
func (d *Division) pending(first, end int) (done bool, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch part := d.state[first:end]; {
	case slices.Contains(part, unclaimed):
		return false, nil
	case slices.Contains(part, claimed):
		return false, d.changed
	}
	return true, nil
}

// division is that of the job's probes, nil where they are not divided: also where the trace is known
// without any.
func (j *Job) division() *Division {
	if j.closed.Estimator != "" {
		return nil
	}
	return j.settings.Division
}

// taken passes what a run has found on to the division.
func (j *Job) taken(first int, probes []hutch.Probe) error {
	inner, unsolved := j.solution.Linearization.Inner(), 0
	if j.turn != nil {
		unsolved, j.unsolved = inner.Failed-j.unsolved, inner.Failed
	}
	// A single probe is computed as a pair.
	return j.settings.Division.take(first, probes, inner.Steps, min(unsolved, len(probes)))
}

// inner is what the linear systems of all probes took.
func (j *Job) inner() vjp.Inner {
	inner := j.solution.Linearization.Inner()
	if d := j.division(); d != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		inner.Failed = 0
		for _, p := range d.probes {
			inner.Steps = max(inner.Steps, p.Steps)
			inner.Failed += p.Unsolved
		}
	}
	return inner
}

// Gather is the stage that waits, when the probes of a job are done, for those that other jobs have
// claimed, computes what they have given up, and counts all of them. Without a Division samples pass
// unchanged.
func Gather() Stage[Probes, Probes] {
	return func(ctx context.Context, in <-chan Probes, out chan<- Probes) error {
		return Each(ctx, in, func(p Probes) error {
			job := p.Job
			if last := job.gathered.Add(int64(p.Count)) == int64(job.planned); last && !job.failed() &&
				job.division() != nil {
				if err := job.settle(ctx, job.gather(ctx)); err != nil {
					return err
				}
			}
			return send(ctx, out, p)
		})
	}
}

// gather completes the probes of a job.
func (j *Job) gather(ctx context.Context) error {
	d, phase := j.division(), j.plan.Phase()
	first, end := d.part(j.count(phase))
	for {
		// A probe that was given up is claimed by this query, or by that of another job.
		if err := j.query(ctx, Probes{Job: j, Phase: phase, First: first, Count: end - first}); err != nil {
			return err
		}
		done, changed := d.pending(first, end)
		if done {
			break
		}
		if changed == nil {
			continue // a job has given up in between
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.whole() {
		return nil
	}
	for i, p := range d.probes[:end] {
		if j.run.Known(i) {
			continue
		}
		if err := j.run.Take(i, p.Probe); err != nil {
			return err
		}
	}
	return nil
}

// claimed does those probes of a batch that no other job has claimed.
func (j *Job) claimed(ctx context.Context, p Probes, do func(first, n int) error) error {
	d := j.division()
	for first, end := p.First, p.First+p.Count; ; {
		most := j.batch
		if d.Most > 0 {
			most = min(most, d.Most)
		}
		from, n := d.claim(first, end, most)
		if n == 0 {
			return nil
		}
		if err := d.attempt(from, n, do); err != nil {
			return err
		}
		first = from + n
	}
}

// attempt does claimed probes. Those that do not become known, also where there is a panic, are given
// up.
func (d *Division) attempt(first, n int, do func(first, n int) error) error {
	defer d.giveUp(first, n)
	return do(first, n)
}

// wanted are the probes of a phase that the job sends out: first to first+n-1.
func (j *Job) wanted(p hutch.Phase) (first, n int) {
	d := j.division()
	if d == nil {
		return 0, j.count(p)
	}
	if p != j.plan.Phase() {
		return 0, 0
	}
	first, end := d.part(j.count(p))
	d.mu.Lock()
	defer d.mu.Unlock()
	for first < end && d.state[first] == known {
		first++
	}
	return first, end - first
}

// Fit has hashes (SHA-256) of a solution: of the numbers of b and of mu_hat, the solver's own, in the
// order of their coordinates. Of a b in factored form they are those of S, U and V.
type Fit struct{ B, MuHat [sha256.Size]byte }

// fit hashes the solution.
func (j *Job) fit() (f Fit, err error) {
	j.hash(&f.MuHat, len(j.Y), j.readMuHat)
	if low := j.factors(); low != nil {
		all := slices.Concat(low.S, low.U, low.V)
		for _, part := range low.Parts {
			all = append(append(append(all, part.S...), part.U...), part.V...)
		}
		j.hash(&f.B, len(all), func(dst []float64, from int) { copy(dst, all[from:]) })
		return f, j.view.Sync()
	}
	_, p := j.problem.A.Dims()
	j.hash(&f.B, p, j.readB)
	return f, j.view.Sync()
}

// hash hashes n numbers, which read sets in parts.
func (j *Job) hash(to *[sha256.Size]byte, n int, read func(dst []float64, from int)) {
	h := sha256.New()
	part, text := make([]float64, min(n, residualPart)), make([]byte, 0, 8*min(n, residualPart))
	for from := 0; from < n; from += len(part) {
		part := part[:min(len(part), n-from)]
		read(part, from)
		text = text[:0]
		for _, v := range part {
			text = binary.LittleEndian.AppendUint64(text, math.Float64bits(v))
		}
		h.Write(text)
	}
	copy(to[:], h.Sum(nil))
}

// readB sets dst to the entries from, from+1, ... of b.
func (j *Job) readB(dst []float64, from int) {
	if implied := j.solution.Implied; implied != nil {
		implied.B(dst, from)
		return
	}
	j.view.Download(dst, j.solution.B.Cols(from, from+len(dst)))
}

// partial is the result of a job whose other probes belong to other processes.
func (j *Job) partial() Risk {
	return Risk{
		Index: j.Index, D: len(j.Y), Convergence: j.solution.Convergence, Derivative: j.solution.Linearization.Kind(),
		Solve: j.solved.Sub(j.begun),
	}
}
