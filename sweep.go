package surepipe

import (
	"context"
	"io"
	"slices"

	"surepipe/array"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/problems/spec"
	"surepipe/risk/warning"
	"surepipe/study"
	"surepipe/study/load"
	"surepipe/study/request"
)

// Types of a sweep's results. Their JSON is that of the lines of surepipe sweep --json.
type (
	// Point is the estimate of the risk at one choice of the weights.
	Point = study.SweepLine
	// Summary is the minimum of a sweep: where it is, which point is chosen, and how sure that is.
	Summary = study.SweepSummary
	// Shard is part Index of Count of a run that is divided among machines.
	Shard = study.Shard
)

// Grid says which weights are swept, and what is minimized.
type Grid struct {
	// Lambda, Lambda2 and Gamma are grids FROM:TO:COUNT, such as "0.01max:max:40", or lists, such as "1,2,5". One or
	// two are given; the other weights are those of the estimator. Without any, lambda has the default grid of the
	// problem.
	Lambda, Lambda2, Gamma string
	// Criterion is what is minimized: by default SURE where sigma2 is known, GCV where it is not, leave-one-out
	// where the loss is not squared. Rule chooses the point: the minimum, or "1se".
	Criterion Criterion
	Rule      pipeline.Rule
	// Refine is how many points are computed beyond the grid for each weight: nil for the default, which is none beyond
	// a list, 0 for none. Chain is how many points warm starts chain, 0 for the default.
	Refine *int
	Chain  int
	// Audit has the chosen point checked by a few fits without some observations, into [Summary].Audits: nil where
	// that is cheap.
	Audit *bool
	// Lines takes the lines of surepipe sweep --jsonl, each as soon as it is known, and Known are those of the same
	// sweep that was interrupted: what they hold is not computed again, and Lines has them too. The result has the
	// same bits.
	Lines io.Writer
	Known io.Reader
	// File, in their place, is a file that keeps the lines, and is continued where it has some.
	File string
	// Shard, where its Count is not 0, computes a part of the grid's points alone; [Estimator.Merge] takes their Lines.
	Shard Shard
	// Point, if not nil, is called with each point, in order. An error ends the sweep.
	Point func(Point) error
	// Coefficients keeps those of all points of a regression, in [Path].Coefficients: of a whole sweep, not of a shard
	// or one that goes on from lines.
	Coefficients bool
}

// Path are the points of a sweep.
type Path struct {
	Points []Point
	// Summary is the minimum, and Fit the estimate at the point that is chosen; of a shard they are empty and nil.
	Summary Summary
	Fit     *Fit
	// Coefficients are those of each of Points, with [Grid].Coefficients, in the units of the columns and by Names.
	Names        []string
	Coefficients []study.PathPoint
}

// Sweep estimates the risk on a grid of weights, with warm starts and the same probes, and searches for the minimum.
func (e *Estimator) Sweep(ctx context.Context, g Grid) (*Path, error) {
	defer g.gate()()
	return use(ctx, e, func() (*Path, error) {
		s, at, err := e.sweep(ctx, g)
		if err == nil {
			err = oneHome(g.File, g.Lines, g.Known)
		}
		if err != nil {
			return nil, err
		}
		if g.Shard == (Shard{}) {
			return e.run(ctx, s, at)
		}
		if err := e.part(s, g.Shard); err != nil {
			return nil, err
		}
		r, err := s.RunPart(ctx)
		return &Path{Points: r.Lines}, err
	})
}

// oneHome rejects lines that are kept in two ways.
func oneHome(file string, to io.Writer, from io.Reader) error {
	if file != "" && (to != nil || from != nil) {
		return study.Errorf("--file is %q, and lines or known are given too, expected one of them", file)
	}
	return nil
}

func (e *Estimator) part(s *study.Sweep, of Shard) error {
	h, err := e.divide(of, study.ShardPart{Unit: study.ChainUnit, Total: len(s.Header.Chains()) - 1}, s.Header)
	s.File.Header, s.Shard = h, h.Shard
	return err
}

// Merge goes on after the points that shards of the sweep have computed, as one machine would. The estimator and the
// grid are those of the shards. Where shards are missing the error is a [study.MissingShards].
func (e *Estimator) Merge(ctx context.Context, g Grid, set *Shards) (*Path, error) {
	defer g.gate()()
	return use(ctx, e, func() (*Path, error) {
		s, at, err := e.sweep(ctx, g)
		if err != nil {
			return nil, err
		}
		if err := set.Whole(); err != nil {
			return nil, err
		}
		if err := s.After(ctx, set); err != nil {
			return nil, err
		}
		return e.run(ctx, s, at)
	})
}

// gate lets the caller's functions be used until close, and not by work that is left behind.
func (g *Grid) gate() (close func()) {
	open := &gate{}
	g.Lines = open.writer(g.Lines)
	g.Point = passing(open, g.Point)
	return open.close
}

// sweep prepares the sweep of a grid, on an estimator at the weights that it begins from.
func (e *Estimator) sweep(ctx context.Context, g Grid) (*study.Sweep, *study.Estimator, error) {
	r := *e.request
	s := request.Sweep{Criterion: g.Criterion, Rule: g.Rule, Refine: request.NewSweep().Refine, Chain: g.Chain}
	if g.Refine != nil {
		s.Refine = *g.Refine
	}
	if g.Audit != nil {
		s.Audit = *g.Audit
	}
	given := r.Given
	r.Given = func(option string) bool {
		return option == "refine" && g.Refine != nil || option == "audit" && g.Audit != nil || given(option)
	}
	if s.Rule == "" {
		s.Rule = request.NewSweep().Rule
	}
	texts := spec.ByWeight(g.Lambda, g.Lambda2, g.Gamma)
	for _, name := range spec.WeightNames() {
		to := r.Weights.Named()[name]
		switch text := texts[name]; {
		case text != "" && !problems.IsGrid(text):
			return nil, nil, study.Errorf("--%s is %q, expected a grid FROM:TO:COUNT such as 0.01max:max:40, or a "+
				"list such as 1,2,5", name, text)
		case text != "":
			*to = text
		case slices.Contains(e.unset, name) && name == "lambda" && g.Lambda2+g.Gamma == "":
			*to = "" // which asks for the default grid
		case slices.Contains(e.unset, name):
			return nil, nil, study.Errorf("--%s is missing: neither given, nor in the data, nor swept", name)
		}
	}
	if err := r.CheckGrids(&s); err != nil {
		return nil, nil, err
	}
	if r.Weights.Lambda == "" {
		r.Weights.Lambda = e.request.Weights.Lambda
	}
	job, err := e.at(ctx, &r, nil)
	if err != nil {
		return nil, nil, err
	}
	sweep, err := r.SweepAt(ctx, s, job, e.data.Data)
	if err != nil {
		return nil, nil, err
	}
	if g.Coefficients {
		if err := sweep.KeepPath(); err != nil {
			return nil, nil, err
		}
		if g.Shard != (Shard{}) || g.Known != nil || g.File != "" {
			return nil, nil, study.Errorf("coefficients of all points are asked for, and known, file or a shard is " +
				"given, which do not keep them")
		}
	}
	sweep.Template.Warnings = e.warnings(job)
	sweep.Point = g.Point
	sweep.File = study.File{To: g.Lines, From: g.Known, Path: g.File, Resume: true, Header: sweep.Header,
		Warn: e.doubt}
	return sweep, job, nil
}

// SweepBelow is a sweep for the packages below, of an estimator that was opened at the weights that
// [request.Request.CheckSweep] leaves, and FitBelow the fit at the point that it chooses.
func (e *Estimator) SweepBelow(ctx context.Context, s request.Sweep, shard Shard) (*study.Sweep, error) {
	sweep, err := e.request.SweepAt(ctx, s, e.job, e.data.Data)
	if err != nil {
		return nil, err
	}
	sweep.Template.Warnings = e.Warnings()
	sweep.File.Header = sweep.Header
	if shard != (Shard{}) {
		err = e.part(sweep, shard)
	}
	return sweep, err
}

// FitBelow is the fit at the point that a sweep of the estimator chooses.
func (e *Estimator) FitBelow(r *study.Swept) *Fit {
	return chosen(e, e.job, r)
}

// at is the estimator at the weights of a request, which stays open with that of the estimator.
func (e *Estimator) at(ctx context.Context, r *request.Request, devices []array.Device) (job *study.Estimator,
	err error) {
	e.opening.Lock()
	defer e.opening.Unlock()
	if job := e.jobs[r.Weights]; job != nil {
		return job, nil
	}
	if devices == nil {
		if devices, err = e.devices(ctx, r); err != nil {
			return nil, err
		}
	}
	stop := context.AfterFunc(ctx, func() {
		for _, dev := range devices {
			dev.Stop(context.Cause(ctx))
		}
	})
	defer stop()
	if job, err = r.Open(ctx, devices, e.data.Data); err == nil {
		job.Response = e.data.Response
		e.jobs[r.Weights] = job
	}
	return job, err
}

// run computes the points and the fit at the one that is chosen.
func (e *Estimator) run(ctx context.Context, s *study.Sweep, job *study.Estimator) (*Path, error) {
	s.Finish = func(r *study.Swept) error {
		r.Summary.Warnings = slices.Clone(s.Template.Warnings)
		for _, n := range r.Doubts() {
			r.Summary.Warnings = append(r.Summary.Warnings, Warning{Code: n.Code, Text: e.request.Watch.Text(n.Text)})
		}
		return nil
	}
	r, err := s.Run(ctx)
	path := &Path{Points: r.Lines, Summary: r.Summary}
	if err != nil || !r.Summary.Summary {
		return path, err
	}
	path.Fit = chosen(e, job, r)
	if s.Options.KeepPath {
		path.Names, path.Coefficients = r.PathNames(), r.Path
	}
	return path, nil
}

// doubt keeps a reason for doubt in the lines of another run.
func (e *Estimator) doubt(text string) {
	e.request.Watch.Note(study.NewNote(warning.EarlierSamples, "%s", text))
}

func (e *Estimator) warnings(job *study.Estimator) []Warning {
	all := e.Warnings()
	if job == e.job && len(e.unset) == 0 {
		return all
	}
	all = slices.DeleteFunc(all, func(w Warning) bool { return w.Is(warning.RelativeWeight) })
	for _, n := range load.NotesOnProblem(job.Problem, e.data.Depth) {
		if w := (Warning{Code: n.Code, Text: e.request.Watch.Text(n.Text)}); !slices.Contains(all, w) {
			all = append(all, w)
		}
	}
	return all
}
