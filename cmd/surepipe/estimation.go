package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"surepipe"
	"surepipe/cmd/surepipe/internal/bar"
	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/internal/dataio"
	"surepipe/internal/lists"
	"surepipe/pipeline"
	"surepipe/risk/warning"
	"surepipe/study"
	"surepipe/study/request"
)

// estimation is a command that estimates risks: the request that its flags make, and what it has said so far.
type estimation struct {
	*request.Request
	cmd          *cobra.Command
	coefficients coefficientFlags
	verbose      bool
	depth        dataio.Depth       // of the file of y
	notes        []pipeline.Warning // those printed on standard error so far, for the JSON
	held         study.Notes        // what is to be printed when the flags have been found to fit the data
	holds        bool
	// response is the one that this is about, of several, and told where it says what it has to say; else "" and nil.
	response string
	told     io.Writer
}

func (e *estimation) check() error {
	e.begin()
	if err := e.Check(); err != nil {
		return err
	}
	return e.checkNamed(e.cmd)
}

// begin keeps the flags, before they are changed.
func (e *estimation) begin() {
	e.Collect = limitGarbage
	e.Flags, e.Paths = givenFlags(e.cmd)
}

// checkNamed rejects an output of a command that is a file that the specification names.
func (e *estimation) checkNamed(cmd *cobra.Command) error {
	if e.Specification == nil {
		return nil
	}
	return cli.CheckOverwrite(cmd, lists.Map(e.Specification.Files(), func(path string) cli.NamedFile {
		return cli.Named("a file that "+e.Specification.Path+" names", path)
	}))
}

// open reads the data and makes the estimator, or those of several responses. Its work, including what is done once for
// all samples, is shown on a line. Notes are printed by tell.
func (e *estimation) open(line *bar.Line) (*surepipe.Estimator, error) {
	e.CommandLine = cli.CommandLine(e.cmd)
	e.Watch = request.Watch{Named: cli.Flagged, Logger: e.logger(), Progress: line.Follower(), Note: e.note,
		Lost: func(device string, fault error) {
			e.say("%s has failed, and what it had in work is computed again elsewhere: %v", device, fault)
		}}
	e.holds = true
	f, err := surepipe.OpenRequest(line.Preparing(e.cmd.Context()), e.Request)
	if err == nil {
		_, data := f.Below()
		e.depth = data.Depth
	}
	return f, err
}

func (e *estimation) say(format string, args ...any) {
	to, who := e.told, ""
	if to == nil {
		to = e.cmd.ErrOrStderr()
	}
	if e.response != "" {
		who = fmt.Sprintf("response %q: ", e.response)
	}
	fmt.Fprintf(to, "surepipe: %s%s\n", who, fmt.Sprintf(format, args...))
}

func (e *estimation) tell() {
	e.holds = false
	for _, n := range e.held {
		e.note(n)
	}
}

// note prints a note, and keeps it for the JSON.
func (e *estimation) note(n study.Note) {
	if e.holds {
		e.held = append(e.held, n)
		return
	}
	e.notes = append(e.notes, e.print(study.Notes{n})...)
}

func (e *estimation) print(notes study.Notes) []pipeline.Warning {
	all := warnings(notes)
	for _, w := range all {
		if k := warning.Find(w.Code); k == nil || !k.Quiet {
			e.say("%s", w.Text)
		}
	}
	return all
}

func warnings(notes study.Notes) []pipeline.Warning {
	return lists.Map(notes, func(n study.Note) pipeline.Warning {
		return pipeline.Warning{Code: n.Code, Text: cli.Text(n.Text)}
	})
}

// converged prints the result's warnings, and returns errNotConverged where it should not be
// trusted.
func (e *estimation) converged(risk pipeline.Risk) error {
	for _, w := range study.WarningsOf(risk, e.RelStdErr()) {
		hint := w.Hint()
		if w.Is(warning.NoLeaveOneOut) &&
			(errors.Is(risk.ALOErr, pipeline.ErrNoDiagonal) || risk.Unresolved > 0 && risk.ALOErr != nil &&
				risk.LossTerms == nil) {
			hint = " (--trace exact, or more --queries)"
		}
		if w.Is(warning.Sigma2TooLarge) && e.depth.IsImage() && !e.depth.Float {
			hint = fmt.Sprintf(" (--sigma2: pixels are numbers from 0 to 1, where 1 is the integer %d of the file)",
				uint64(1)<<e.depth.Bits-1)
		}
		e.say("%s%s", w.Text, hint)
	}
	if !risk.Trusted() {
		return errNotConverged
	}
	return nil
}
