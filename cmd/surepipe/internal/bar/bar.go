package bar

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"surepipe/pipeline"
	reports "surepipe/progress"
)

// Line is a line on standard error for work that takes long: what is being computed, how far it
// has come, for how long it has run and, where the rate tells, what is left. It is drawn anew a few
// times a second, whatever the work does, so that it also shows that the program lives. It shows
// nothing in the first second, or where standard error is not a terminal.
//
// All methods may be called from any goroutine.
type Line struct {
	out   io.Writer // nil where nothing is shown
	width func() int
	stop  chan struct{}
	// restore gives the command its writers back.
	restore func()

	mu      sync.Mutex
	started time.Time
	// prefix begins the line. unit names what done of total counts, such as samples; text follows.
	prefix, unit, text string
	done, total        int
	tasks              map[int]*task // of the samples in flight
	drawn              int           // the length of the line on the terminal
}

const (
	// patience is the time before the line appears, and redraw the time between two drawings.
	patience = time.Second
	redraw   = 250 * time.Millisecond
)

// New shows a line on the command's standard error. What the command writes meanwhile, to
// its standard output too, goes past the line. The caller ends it by close.
func New(cmd *cobra.Command) *Line {
	stdout, stderr := cmd.OutOrStdout(), cmd.ErrOrStderr()
	f, ok := stderr.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return &Line{}
	}
	p := &Line{out: f, started: time.Now(), stop: make(chan struct{}), tasks: map[int]*task{}}
	cmd.SetOut(beside{p, stdout})
	cmd.SetErr(beside{p, stderr})
	p.restore = func() {
		cmd.SetOut(stdout)
		cmd.SetErr(stderr)
	}
	p.width = func() int {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil {
			return w
		}
		return 80
	}
	go func() {
		tick := time.NewTicker(redraw)
		defer tick.Stop()
		for {
			select {
			case <-p.stop:
				return
			case now := <-tick.C:
				p.draw(now)
			}
		}
	}()
	return p
}

// Label sets what begins the line, and the name of what is counted.
func (p *Line) Label(prefix, unit string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prefix, p.unit = prefix, unit
}

// Set says that done of total are done, and all samples before number next.
func (p *Line) Set(done, total, next int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.total = done, total
	for i := range p.tasks {
		if i < next {
			delete(p.tasks, i)
		}
	}
}

func (p *Line) Count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

func (p *Line) Describe(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
}

// follow takes note of a report. It is called in the loops of the computation.
func (p *Line) follow(r pipeline.Progress) {
	if p.out == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Sample != preparation {
		delete(p.tasks, preparation)
	}
	if p.tasks[r.Sample] == nil {
		p.tasks[r.Sample] = &task{}
	}
	p.tasks[r.Sample].note(time.Now(), r)
}

// Follower is follow, or nil where nothing is shown.
func (p *Line) Follower() func(pipeline.Progress) {
	if p.out == nil {
		return nil
	}
	return p.follow
}

// Preparing returns a context in which work for all samples is shown, until that on the first one
// begins.
func (p *Line) Preparing(ctx context.Context) context.Context {
	if p.out == nil {
		return ctx
	}
	return reports.With(ctx, func(r reports.Report) { p.follow(pipeline.Progress{Sample: preparation, Report: r}) })
}

// preparation stands for a sample in work that is done for all of them.
const preparation = -1

func (p *Line) line(now time.Time) string {
	const width = 20
	took := InWords(now.Sub(p.started))
	parts := []string{p.prefix + took}
	if p.total > 0 {
		n := width * p.done / p.total
		parts[0] = fmt.Sprintf("%s[%s%s] %d of %d %s in %s", p.prefix, strings.Repeat("#", n),
			strings.Repeat("-", width-n), p.done, p.total, p.unit, took)
	}
	if p.text != "" {
		parts = append(parts, p.text)
	}
	first := math.MaxInt
	for i := range p.tasks {
		first = min(first, i)
	}
	if t := p.tasks[first]; t != nil {
		what := t.line(now)
		if p.total > 0 && first != preparation {
			what = fmt.Sprintf("%s %d: %s", strings.TrimSuffix(p.unit, "s"), first, what)
		}
		parts = append(parts, what)
	}
	return strings.Join(parts, "; ")
}

// draw shows the line in place of the one before.
func (p *Line) draw(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.started) < patience {
		return
	}
	text := []rune(p.line(now))
	if most := p.width() - 1; len(text) > most && most > 3 {
		text = append(text[:most-3], '.', '.', '.')
	}
	fmt.Fprintf(p.out, "\r%s%s", string(text), strings.Repeat(" ", max(p.drawn-len(text), 0)))
	p.drawn = len(text)
}

func (p *Line) clear() {
	if p.drawn > 0 {
		fmt.Fprintf(p.out, "\r%s\r", strings.Repeat(" ", p.drawn))
		p.drawn = 0
	}
}

// beside is a writer whose text may go to the same terminal: the line makes room for it.
type beside struct {
	p *Line
	w io.Writer
}

// Write removes the line first.
func (b beside) Write(text []byte) (int, error) {
	b.p.mu.Lock()
	defer b.p.mu.Unlock()
	b.p.clear()
	return b.w.Write(text)
}

// Close removes the line for good. It may be called again.
func (p *Line) Close() {
	if p.out == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	if p.restore != nil {
		p.restore()
		p.restore = nil
		close(p.stop)
	}
}

// task is the work on one sample.
type task struct {
	latest pipeline.Progress
	stage  time.Time // when its stage began
	trend  trend
}

func (t *task) note(now time.Time, p pipeline.Progress) {
	was := t.latest.Report
	t.latest.Done, t.latest.Total = p.Done, p.Total
	switch r := p.Report; {
	case r.Stage == reports.Probes, r.Stage == reports.InnerSteps && was.Stage != "":
		return // what they are a part of is more telling
	case r.Stage != was.Stage, r.Step < was.Step && r.Step <= 1:
		t.stage, t.trend = now, trend{}
	}
	t.latest = p
	t.trend.add(now, p.Report)
}

// line says what the sample is at.
func (t *task) line(now time.Time) string {
	var parts []string
	if p := t.latest; p.Total > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d probes", p.Done, p.Total))
	}
	r := t.latest.Report
	if r.Stage != "" {
		parts = append(parts, phrase(r))
	}
	if left, where := t.left(now); left >= time.Second {
		parts = append(parts, "about "+InWords(left)+" left "+where)
	} else if d := now.Sub(t.stage); d >= 2*time.Second && r.Stage != "" {
		parts = append(parts, "for "+InWords(d))
	}
	return strings.Join(parts, ", ")
}

func phrase(r reports.Report) string {
	text := string(r.Stage)
	switch r.Stage {
	case reports.Gram:
		return fmt.Sprintf("%s, %d of %d columns", text, r.Step, r.Steps)
	case reports.Pass:
		return fmt.Sprintf("%s, %s of %s", text, humanize.IBytes(uint64(r.Step)), humanize.IBytes(uint64(r.Steps)))
	case reports.Factorization:
		return fmt.Sprintf("%s of %d rows", text, r.Steps)
	case reports.Reverse:
		return fmt.Sprintf("%s, %d of %d iterations", text, r.Step, r.Steps)
	case reports.Norm:
		return fmt.Sprintf("%s, step %d", text, r.Step)
	case reports.Iterations:
		text = fmt.Sprintf("iteration %d", r.Step)
	default:
		text += fmt.Sprintf(", step %d", r.Step)
	}
	name, goal := "optimality", "tolerance"
	if r.Active > 0 {
		name, goal = "residual", "goal"
	}
	if r.Goal > 0 {
		text += fmt.Sprintf(", %s %.1e, %s %.1e", name, r.Measure, goal, r.Goal)
	}
	if r.Active > 1 {
		text += fmt.Sprintf(", %d probes under way", r.Active)
	}
	return text
}
