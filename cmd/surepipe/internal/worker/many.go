package worker

import (
	"context"
	"io"

	"surepipe"
	"surepipe/internal/dataio"
	"surepipe/study"
)

// Fits are a fit, or those of several responses, each with what is wanted of it; the kept fit and the file of out are
// those of all together.
type Fits struct {
	Fitted
	Responses []Fitted `json:"responses,omitempty" jsonschema:"of several responses each, in the place of result"`
}

// Sweeps are likewise a sweep or those of several responses.
type Sweeps struct {
	Swept
	Responses []Swept `json:"responses,omitempty" jsonschema:"of several responses each, in the place of result, points and summary"`
}

func fits(w *worker, ctx context.Context, e *surepipe.Estimator, p Wanted) (all Fits, err error) {
	all.Responses = make([]Fitted, len(e.Responses()))
	err = w.each(ctx, e, &p, &all.Fitted, func(ctx context.Context, k int, e *surepipe.Estimator) (f *surepipe.Fit,
		err error) {
		if f, err = e.Fit(ctx); err == nil {
			all.Responses[k], err = w.fitted(ctx, f, p)
		}
		return f, err
	})
	for _, of := range all.Responses {
		all.Status = max(all.Status, of.Status)
	}
	return all, err
}

func sweeps(w *worker, ctx context.Context, e *surepipe.Estimator, g surepipe.Grid, p Wanted) (all Sweeps, err error) {
	all.Responses = make([]Swept, len(e.Responses()))
	err = w.each(ctx, e, &p, &all.Fitted, func(ctx context.Context, k int, e *surepipe.Estimator) (f *surepipe.Fit,
		err error) {
		all.Responses[k], f, err = w.sweep(ctx, e, g, p)
		return f, err
	})
	for _, of := range all.Responses {
		all.Status = max(all.Status, of.Status)
	}
	return all, err
}

// each calls f for the estimator of each response, and keeps and writes the fits together.
func (w *worker) each(ctx context.Context, e *surepipe.Estimator, p *Wanted, to *Fitted,
	f func(ctx context.Context, k int, e *surepipe.Estimator) (*surepipe.Fit, error)) error {
	out, kept := p.Out, p.Keep
	p.Out, p.Keep = "", false
	found := make([]*surepipe.Fit, len(e.Responses()))
	err := e.Each(ctx, func(ctx context.Context, k int, of *surepipe.Estimator) (err error) {
		if found[k], err = f(ctx, k, of); err != nil {
			err = study.Errorf("response %q: %w", of.Response(), err)
		}
		return err
	})
	if err != nil || out == "" && !kept {
		return err
	}
	m, err := e.Join(found)
	if err == nil && out != "" {
		err = dataio.WriteFile(out, func(to io.Writer) error {
			_, err := m.WriteTo(to)
			return err
		})
	}
	if err == nil && kept {
		to.Fit, err = keep(w, w.fits, "f", m)
	}
	return err
}
