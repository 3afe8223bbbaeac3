package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress is a bar on standard error for work that takes long. It shows nothing in the first
// second, or where standard error is not a terminal.
type progress struct {
	bar     *progressbar.ProgressBar
	out     io.Writer
	started time.Time
	// prefix is printed before every text.
	prefix, text string
}

// patience is the time before a bar appears.
const patience = time.Second

func newProgress(out io.Writer) *progress {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return &progress{}
	}
	return &progress{out: out, started: time.Now(), text: "probes"}
}

// set shows that done of total steps are done. It must be called from one goroutine at a time.
func (p *progress) set(done, total int) {
	if p.out == nil || (p.bar == nil && time.Since(p.started) < patience) {
		return
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(p.out),
			progressbar.OptionSetDescription(p.prefix+p.text),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionSetWidth(30),
			progressbar.OptionShowCount(),
		)
	}
	p.bar.ChangeMax(total)
	p.bar.Set(done)
}

// describe sets the text before the bar, which is "probes" at first.
func (p *progress) describe(text string) {
	p.text = text
	if p.bar != nil {
		p.bar.Describe(p.prefix + text)
	}
}

// done removes the bar.
func (p *progress) done() {
	if p.bar != nil {
		p.bar.Clear()
	}
}
