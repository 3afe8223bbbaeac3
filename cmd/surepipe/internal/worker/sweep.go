package worker

import (
	"context"
	"math"

	"surepipe"
	"surepipe/pipeline"
)

// SweepParams are an estimator, the grids and what is wanted of the fit at the point that is chosen.
type SweepParams struct {
	Which
	Lambda    string             `json:"lambda,omitempty" jsonschema:"a grid such as 0.01max:max:40, or a list: 1,2,5"`
	Lambda2   string             `json:"lambda2,omitempty" jsonschema:"a grid"`
	Gamma     string             `json:"gamma,omitempty" jsonschema:"a grid"`
	Criterion surepipe.Criterion `json:"criterion,omitempty" jsonschema:"what is minimized; see sweep --help"`
	Rule      pipeline.Rule      `json:"rule,omitempty" jsonschema:"min, or 1se for the simplest within an error of it"`
	Refine    *int               `json:"refine,omitempty" jsonschema:"the most points beyond the grid; 0 for none"`
	Chain     int                `json:"chain,omitempty" jsonschema:"the most points in a chain of warm starts"`
	Path      bool               `json:"path,omitempty" jsonschema:"the coefficients of all points of a regression"`
	Brief     bool               `json:"brief,omitempty" jsonschema:"points without choices and warnings"`
	Wanted
}

// Swept are the points of a sweep, and the fit at the one that is chosen.
type Swept struct {
	Fitted
	Points  []surepipe.Point  `json:"points,omitempty" jsonschema:"the lines of surepipe sweep --json"`
	Summary *surepipe.Summary `json:"summary,omitempty" jsonschema:"its last line"`
	Path    *Array            `json:"path,omitempty" jsonschema:"a row for each point: intercept and coefficients"`
}

func sweep(w *worker, ctx context.Context, p SweepParams) (s Sweeps, err error) {
	e, done, err := w.of(ctx, p.Which)
	if err != nil {
		return s, err
	}
	defer done()
	g := surepipe.Grid{Lambda: p.Lambda, Lambda2: p.Lambda2, Gamma: p.Gamma,
		Criterion: p.Criterion, Rule: p.Rule, Refine: p.Refine, Chain: p.Chain, Coefficients: p.Path}
	s.Swept, s.Responses, err = each(w, ctx, e, p.Wanted, func(s *Swept) *Fitted { return &s.Fitted },
		func(ctx context.Context, e *surepipe.Estimator, wanted Wanted) (Swept, *surepipe.Fit, error) {
			one, f, err := w.sweep(ctx, e, g, wanted)
			if p.Brief {
				one.brief()
			}
			return one, f, err
		})
	return s, err
}

// brief leaves out of the points what does not change.
func (s *Swept) brief() {
	for i := range s.Points {
		s.Points[i].Choices, s.Points[i].Warnings = nil, nil
	}
}

func (w *worker) sweep(ctx context.Context, e *surepipe.Estimator, g surepipe.Grid, p Wanted) (s Swept,
	f *surepipe.Fit, err error) {
	g.Audit = p.Audit
	path, err := e.Sweep(ctx, g)
	if err != nil {
		return s, nil, err
	}
	s.Points, s.Summary = path.Points, &path.Summary
	for i := range s.Points {
		s.Points[i].Digest = nil // what resuming and merging need, most of a point's bytes
	}
	if path.Coefficients != nil {
		all := surepipe.Array{}
		for _, at := range path.Coefficients {
			row := at.All()
			if math.IsNaN(at.Intercept) && at.Intercepts == nil {
				row = append([]float64{at.Intercept}, row...)
			}
			all.Data = append(all.Data, row...)
		}
		all.Shape = []int{len(path.Points), len(all.Data) / max(len(path.Points), 1)}
		written, err := w.array("path", all)
		if err != nil {
			return s, nil, err
		}
		s.Path = &written
	}
	s.Fitted, err = w.fitted(ctx, path.Fit, p)
	if s.Summary.NotConverged > 0 {
		s.Status = 3
	}
	return s, path.Fit, err
}
