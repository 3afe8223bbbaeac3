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
	Responses []Swept `json:"responses,omitempty" jsonschema:"of several responses each, in place of result and points"`
}

func (w *worker) fit(ctx context.Context, e *surepipe.Estimator, p Wanted) (r Fitted, f *surepipe.Fit, err error) {
	if f, err = e.Fit(ctx); err == nil {
		r, err = w.fitted(ctx, f, p)
	}
	return r, f, err
}

// each calls f for the estimator of each response, and keeps and writes the fits of several together: all then has what
// is known of all, and parts each. of is the part of T about the fit.
func each[T any](w *worker, ctx context.Context, e *surepipe.Estimator, p Wanted, of func(*T) *Fitted,
	f func(ctx context.Context, e *surepipe.Estimator, p Wanted) (T, *surepipe.Fit, error)) (all T, parts []T,
	err error) {
	n, out, kept := len(e.Responses()), p.Out, p.Keep
	if n == 1 {
		all, _, err = f(ctx, e, p)
		return all, nil, err
	}
	p.Out, p.Keep = "", false
	parts = make([]T, n)
	found := make([]*surepipe.Fit, n)
	err = e.Each(ctx, func(ctx context.Context, k int, e *surepipe.Estimator) (err error) {
		if parts[k], found[k], err = f(ctx, e, p); err != nil {
			err = study.Errorf("response %q: %w", e.Response(), err)
		}
		return err
	})
	to := of(&all)
	for k := range parts {
		to.Status = max(to.Status, of(&parts[k]).Status)
	}
	if err != nil || out == "" && !kept {
		return all, parts, err
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
	return all, parts, err
}
