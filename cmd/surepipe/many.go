package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"surepipe"
	"surepipe/cmd/surepipe/internal/bar"
	"surepipe/cmd/surepipe/internal/report"
	"surepipe/internal/dataio"
	"surepipe/internal/lists"
	"surepipe/pipeline"
	"surepipe/study"
)

// forResponse is the name of a file for one of several responses: curve-price.csv of curve.csv.
func forResponse(path, response string) string {
	if path == "" {
		return ""
	}
	clean := strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r == ':' {
			return '_'
		}
		return r
	}, response)
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + "-" + clean + ext
}

// one is the command's part for response k of many, which says what it has to say to a buffer.
func (e *estimation) one(m *surepipe.Estimator, k int) (estimation, *bytes.Buffer) {
	mine, said := *e, &bytes.Buffer{}
	of := m.Responses()[k]
	mine.Request, mine.response, mine.told = of.RequestBelow(), of.Response(), said
	mine.holds, mine.held = false, nil
	mine.notes = append([]pipeline.Warning(nil), of.Warnings()...)
	mine.coefficients.csv = forResponse(e.coefficients.csv, mine.response)
	return mine, said
}

// shown is the name of the data on a page, with that of one of several responses.
func (e *estimation) shown() string {
	name := filepath.Base(cmp.Or(e.Data, e.Name()))
	if e.response != "" {
		name += ", " + e.response
	}
	return name
}

func listed(m *surepipe.Estimator) string {
	return strings.Join(lists.Map(m.Responses(), (*surepipe.Estimator).Response), ", ")
}

// refuse rejects what is for one response alone.
func (e *estimation) refuse(m *surepipe.Estimator, o *outputFlags, options ...string) error {
	for _, name := range append(options, "picture", "truth") {
		if e.cmd.Flags().Changed(name) {
			return study.Errorf("--%s is for one response, found %d: %s", name, len(m.Responses()),
				listed(m))
		}
	}
	if ext := filepath.Ext(o.out); o.out != "" && ext != ".npz" {
		return study.Errorf("--out is %q, and there are %d responses: expected a name that ends in .npz", o.out,
			len(m.Responses()))
	}
	return nil
}

func writeMany(path string, m *surepipe.Estimator, fits []*surepipe.Fit) error {
	if path == "" {
		return nil
	}
	model, err := m.Join(fits)
	if err != nil {
		return study.Errorf("--out: %w", err)
	}
	return dataio.WriteFile(path, func(w io.Writer) error {
		_, err := model.WriteTo(w)
		return err
	})
}

// runMany is run for several responses: one result for each.
func (f *runCommand) runMany(m *surepipe.Estimator) error {
	if err := f.refuse(m, &f.outputFlags, "image-risk"); err != nil {
		return err
	}
	if err := f.checkProblem(&f.outputFlags, m.Responses()[0]); err != nil {
		return err
	}
	f.tell()
	fits := make([]*surepipe.Fit, len(m.Responses()))
	err := m.Each(f.cmd.Context(), func(ctx context.Context, k int, e *surepipe.Estimator) (err error) {
		if fits[k], err = e.Fit(ctx); err == nil && f.audit {
			_, err = fits[k].Audit(ctx)
		}
		if err != nil {
			err = study.Errorf("response %q: %w", m.Responses()[k].Response(), err)
		}
		return err
	})
	f.line.Close()
	if err != nil {
		return err
	}
	var results []study.Result
	var doubted error
	out := f.out
	for k, fit := range fits {
		child := *f
		child.out = ""
		var said *bytes.Buffer
		child.estimation, said = f.one(m, k)
		child.page.report = forResponse(f.page.report, child.response)
		c, unwritten, err := child.write(&child.outputFlags, fit)
		if err = errors.Join(err, unwritten); err != nil {
			return err
		}
		result := fit.Result
		if child.coefficients.print {
			result.CoefficientsResult = c
		}
		if err := child.writePage(fit, result); err != nil {
			return err
		}
		if results = append(results, result); !f.asJSON {
			fmt.Fprintf(f.cmd.OutOrStdout(), "response %s\n", m.Responses()[k].Response())
			if err := child.show(result); err != nil {
				return err
			}
		}
		if err := child.converged(fit.Risk()); err != nil {
			doubted = err
		}
		f.cmd.ErrOrStderr().Write(said.Bytes())
	}
	if f.asJSON {
		if err := study.WriteLine(f.cmd.OutOrStdout(), results); err != nil {
			return err
		}
	}
	if err := writeMany(out, m, fits); err != nil {
		return err
	}
	return doubted
}

// runMany is sweep for several responses: the points and the summary of each, one response after the other.
func (f *sweepCommand) runMany(m *surepipe.Estimator) error {
	if err := f.refuse(m, &f.outputFlags, "shard"); err != nil {
		return err
	}
	if err := f.checkProblem(&f.outputFlags, m.Responses()[0]); err != nil {
		return err
	}
	f.tell()
	n := len(m.Responses())
	children, said, printed := make([]*sweepCommand, n), make([]*bytes.Buffer, n), make([]bytes.Buffer, n)
	for k, e := range m.Responses() {
		child := *f
		child.estimation, said[k] = f.one(m, k)
		child.out, child.estimator, child.line = "", e, &bar.Line{}
		for _, path := range []*string{&child.csv, &child.jsonl, &child.plot, &child.path, &child.page.report} {
			*path = forResponse(*path, m.Responses()[k].Response())
		}
		var err error
		if child.sweep, err = e.SweepBelow(child.grids, surepipe.Shard{}); err != nil {
			return study.Errorf("response %q: %w", m.Responses()[k].Response(), err)
		}
		if child.path != "" {
			if err := child.sweep.KeepPath(); err != nil {
				return err
			}
		}
		child.page.look(child.sweep)
		child.sweep.File.Path, child.sweep.File.Resume = child.jsonl, child.resume
		children[k] = &child
	}
	err := m.Each(f.cmd.Context(), func(ctx context.Context, k int, _ *surepipe.Estimator) error {
		child := children[k]
		err := child.follow(&printed[k], func(r *study.Swept) error {
			if f.asJSON {
				return study.WriteLine(&printed[k], r.Summary)
			}
			return report.Swept(&printed[k], r)
		})
		if err != nil && !errors.Is(err, errNotConverged) {
			err = study.Errorf("response %q: %w", m.Responses()[k].Response(), err)
		}
		return err
	})
	f.line.Close()
	fits := make([]*surepipe.Fit, n)
	for k, child := range children {
		if !f.asJSON {
			fmt.Fprintf(f.cmd.OutOrStdout(), "response %s\n", m.Responses()[k].Response())
		}
		f.cmd.OutOrStdout().Write(printed[k].Bytes())
		f.cmd.ErrOrStderr().Write(said[k].Bytes())
		fits[k] = child.chosen
	}
	if err != nil && !errors.Is(err, errNotConverged) {
		return err
	}
	if err := writeMany(f.out, m, fits); err != nil {
		return err
	}
	if err != nil {
		return errNotConverged
	}
	return nil
}
