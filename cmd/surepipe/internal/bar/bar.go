package bar

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"surepipe/pipeline"
	reports "surepipe/progress"
)

// Line is a line on standard error for work that takes long: for how long it has run, how much of it is done, and what
// is being computed. It is drawn anew a few times a second, whatever the work does, so that it also shows that the
// program lives. It shows nothing in the first second, or where standard error is not a terminal.
//
// All methods may be called from any goroutine.
type Line struct {
	shown *progressbar.ProgressBar // nil where nothing is shown
	width func() int
	begun time.Time
	// end stops the drawing and gives the command its writers back.
	end func()

	mu sync.Mutex
	// prefix begins what is said. unit names what done of total counts, such as samples; text follows.
	prefix, unit, text string
	done, total        int
	at                 map[int]pipeline.Progress // of the samples in flight
}

// patience is the time before the line appears, and redraw the time between two drawings.
const patience, redraw = time.Second, 250 * time.Millisecond

// New shows a line on the command's standard error. What the command writes meanwhile, to its standard output too, goes
// past the line. The caller ends it by Close.
func New(cmd *cobra.Command) *Line {
	stdout, stderr := cmd.OutOrStdout(), cmd.ErrOrStderr()
	f, ok := stderr.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return &Line{}
	}
	p := on(f, time.Now())
	p.width = func() int {
		w, _, err := term.GetSize(int(f.Fd()))
		if err != nil {
			w = 80
		}
		return w
	}
	cmd.SetOut(beside{p, stdout})
	cmd.SetErr(beside{p, stderr})
	stop := make(chan struct{})
	p.end = sync.OnceFunc(func() {
		cmd.SetOut(stdout)
		cmd.SetErr(stderr)
		close(stop)
	})
	go func() {
		tick := time.NewTicker(redraw)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case now := <-tick.C:
				p.draw(now)
			}
		}
	}()
	return p
}

func on(w io.Writer, begun time.Time) *Line {
	shown := progressbar.NewOptions(-1, progressbar.OptionSetWriter(w), progressbar.OptionSetWidth(barWidth),
		progressbar.OptionSetTheme(progressbar.ThemeASCII), progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetElapsedTime(true), progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionSetSpinnerChangeInterval(0), progressbar.OptionUseANSICodes(true)) // draw draws, no goroutine
	shown.StartWithoutRender()
	return &Line{shown: shown, begun: begun, at: map[int]pipeline.Progress{}}
}

// barWidth is that of the bar, and beforeText what comes before the text at most, of an hour.
const barWidth, beforeText = 20, barWidth + 25

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
	for i := range p.at {
		if i < next {
			delete(p.at, i)
		}
	}
}

func (p *Line) Describe(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
}

// follow takes note of a report. It is called in the loops of the computation.
func (p *Line) follow(r pipeline.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Sample != preparation {
		delete(p.at, preparation)
	}
	was := p.at[r.Sample]
	if r.Report.Stage == reports.Probes || r.Report.Stage == reports.InnerSteps && was.Report.Stage != "" {
		r.Report = was.Report // what they are a part of is more telling
	}
	p.at[r.Sample] = r
}

// Follower is follow, or nil where nothing is shown.
func (p *Line) Follower() func(pipeline.Progress) {
	if p.shown == nil {
		return nil
	}
	return p.follow
}

// Preparing returns a context in which work for all samples is shown, until that on the first one begins.
func (p *Line) Preparing(ctx context.Context) context.Context {
	if p.shown == nil {
		return ctx
	}
	return reports.With(ctx, func(r reports.Report) { p.follow(pipeline.Progress{Sample: preparation, Report: r}) })
}

// preparation stands for a sample in work that is done for all of them.
const preparation = -1

// says is the text of the line: what is counted, and what the first sample in flight is at.
func (p *Line) says() string {
	var parts []string
	if p.total > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d %s", p.done, p.total, p.unit))
	}
	if p.text != "" {
		parts = append(parts, p.text)
	}
	if len(p.at) > 0 {
		first := slices.Min(slices.Collect(maps.Keys(p.at)))
		what := doing(p.at[first])
		if p.total > 0 && first != preparation {
			what = fmt.Sprintf("%s %d: %s", strings.TrimSuffix(p.unit, "s"), first, what)
		}
		parts = append(parts, what)
	}
	return p.prefix + strings.Join(parts, "; ")
}

// draw shows the line in place of the one before: with a bar while what is counted is not done.
func (p *Line) draw(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.begun) < patience {
		return
	}
	if p.done < p.total {
		p.shown.ChangeMax(p.total)
		p.shown.Set(p.done)
	} else {
		p.shown.ChangeMax(-1)
	}
	text := []rune(p.says())
	if most := p.width() - beforeText; len(text) > most {
		text = append(text[:max(most-3, 0)], '.', '.', '.')
	}
	p.shown.Describe(string(text))
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
	b.p.shown.Clear()
	return b.w.Write(text)
}

// Close removes the line for good. It may be called again.
func (p *Line) Close() {
	if p.shown == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown.Clear()
	p.end()
}

// doing says what a sample is at.
func doing(at pipeline.Progress) string {
	var parts []string
	if at.Total > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d probes", at.Done, at.Total))
	}
	if at.Report.Stage != "" {
		parts = append(parts, phrase(at.Report))
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
	if r.Goal > 0 && r.Measure > 0 {
		text += fmt.Sprintf(", %s %.1e, %s %.1e", name, r.Measure, goal, r.Goal)
	}
	if r.Active > 1 {
		text += fmt.Sprintf(", %d probes under way", r.Active)
	}
	return text
}
