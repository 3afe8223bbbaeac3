package study

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"surepipe/internal/lists"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/risk"
)

// Sweep estimates the risk along the axes, one or two, and finds its minimum: see [pipeline.Sweep].
type Sweep struct {
	// Estimator may be nil where the points of the grid are Known: they are then all.
	Estimator *Estimator
	// Template is what all points share.
	Template Result
	Data     problems.Data
	Axes     []Axis // with their values
	// Options are those of the sweep and its points. Run sets Known.
	Options pipeline.SweepOptions
	Header  SweepHeader
	// File is where the lines are kept, and Known are those that are known without it, which took so many Seconds.
	File    File
	Known   []SweepLine
	Seconds float64
	// Shard is the part that RunPart computes.
	Shard ShardPart
	// Begin, if not nil, is called before the first point, and Point with each of them, in order.
	Begin func() error
	Point func(SweepLine) error
	// Look, if not nil, makes what a page shows of the fit of each new point, which its line then has. It is called
	// from many goroutines.
	Look func(pipeline.Risk) *Look
	// Finish, if not nil, is called when all points are known, and may complete the summary, which is then kept.
	Finish func(*Swept) error
}

// Swept are the points of a sweep.
type Swept struct {
	*Sweep
	Lines []SweepLine
	// Path are the coefficients of the points, where Options.KeepPath asks for them.
	Path []PathPoint
	// Summary is empty where not all points are known.
	Summary SweepSummary
	// Chosen is the estimate at the point that is chosen, the minimizer where the rule chooses no other. Its Risk is
	// empty where only the lines are known.
	Chosen pipeline.SweepPoint
	// Diagnostics are those of Chosen, nil where there is no Estimator.
	Diagnostics *Diagnostics
	looks       looks
	// undefined is the criterion whose place cross-validation has taken, "" for none.
	undefined risk.Criterion
}

func (s *Sweep) grid() [][]float64 {
	return lists.Map(s.Axes, func(axis Axis) []float64 { return axis.Values })
}

// Total is the number of points of the grid.
func (s *Sweep) Total() int {
	total := 1
	for _, axis := range s.Axes {
		total *= len(axis.Values)
	}
	return total
}

// open opens the file, and returns the points that are known, from point first on.
func (s *Sweep) open(first int) (*Log, *Swept, error) {
	r := &Swept{Sweep: s, Lines: slices.Clone(s.Known)}
	r.looks.follow(s)
	log, err := s.File.open(func(line []byte) error {
		if err := pointAt(first + len(r.Lines)).check(line); err != nil {
			return err
		}
		var point SweepLine
		err := json.Unmarshal(line, &point)
		r.Lines = append(r.Lines, point)
		return err
	})
	for _, line := range r.Lines {
		r.fallBack(line.Number("cv") != nil)
	}
	s.Options.Known = s.values(r.Lines)
	return log, r, err
}

// values are those of the criterion at points.
func (s *Sweep) values(lines []SweepLine) []pipeline.SweepValue {
	return lists.Map(lines, func(line SweepLine) pipeline.SweepValue {
		value, stdErr := line.Value(s.Options.Criterion)
		return pipeline.SweepValue{Weights: line.Swept(s.Axes), Value: value, StdErr: stdErr,
			Unsure: line.Unsure(s.Options.Criterion), Overfits: line.Overfits, Trusted: line.Trusted(),
			Digest: line.Digest}
	})
}

// FallsBack reports whether one machine goes on by cross-validation after the Known points of the whole grid.
func (s *Sweep) FallsBack() bool {
	if len(s.Known) != s.Total() || s.Header.Exec != "" {
		return false
	}
	o := s.Options
	o.Known = s.values(s.Known)
	return o.FallsBack(s.grid(), s.Known[0].D, s.Header.LossName)
}

// Run computes the points that are not known yet, and finds the minimum. If the error is not nil the lines so far are
// in the file, and in the result.
func (s *Sweep) Run(ctx context.Context) (r *Swept, err error) {
	begin := time.Now().Add(-time.Duration(s.Seconds * float64(time.Second)))
	log, r, err := s.open(0)
	if err != nil {
		return r, err
	}
	defer log.end(&err)
	if s.Estimator == nil {
		return r, r.choose(ctx, log, begin)
	}
	begun := !s.Options.Fallback || len(r.Lines) > 0
	if begun {
		if err := r.begin(); err != nil {
			return r, err
		}
	}
	var best pipeline.SweepPoint
	family := s.Estimator.Family(s.Axes)
	for point, err := range pipeline.Sweep(ctx, s.Data.Y, family, s.grid(), s.Options) {
		if err == nil && !begun {
			begun = true
			r.fallBack(point.CV != nil)
			err = r.begin()
		}
		switch {
		case errors.Is(err, pipeline.ErrNoBlocks):
			return r, Errorf("--criterion lgo: %w", err)
		case errors.Is(err, pipeline.ErrNoDiagonal):
			return r, Errorf("--criterion alo: %w; raise --queries, give --trace exact, which takes d probes, or "+
				"choose another criterion", err)
		case err != nil:
			return r, err
		case point.Stage == pipeline.MinimizerStage:
			if best = point; point.Choice.Chosen != point.Index {
				continue
			}
			return r, r.finish(ctx, log, best, point, time.Since(begin))
		case point.Stage == pipeline.ChosenStage:
			return r, r.finish(ctx, log, best, point, time.Since(begin))
		}
		if err := r.add(log, point); err != nil {
			return r, err
		}
	}
	return r, errors.New("the sweep ended without a minimizer")
}

// fallBack takes cross-validation for the criterion where the points have it unasked for.
func (r *Swept) fallBack(validated bool) {
	if s := r.Sweep; validated && s.Options.Fallback && !s.Options.Criterion.Rule().Refits {
		r.undefined = s.Options.Criterion
		s.Options.Criterion, s.Header.Criterion, s.Header.Folds = risk.CV, risk.CV, &s.Options.Folds
	}
}

// Bounds are the first point of the shard, the end, and how many all shards have.
func (s *Sweep) Bounds() (first, end, of int) {
	bounds := s.Header.Chains()
	return bounds[s.Shard.First], bounds[s.Shard.First+s.Shard.N], bounds[len(bounds)-1]
}

// RunPart computes the points of a shard, without a minimum.
func (s *Sweep) RunPart(ctx context.Context) (r *Swept, err error) {
	first, end, _ := s.Bounds()
	s.File.Every = syncEvery
	s.Options.Estimate = false // who puts the parts together has no estimator for the answer
	log, r, err := s.open(first)
	if err != nil {
		return r, err
	}
	defer log.end(&err)
	if err := r.begin(); err != nil {
		return r, err
	}
	points := pipeline.SweepPart(ctx, s.Data.Y, s.Estimator.Family(s.Axes), s.grid(), s.Options, first, end)
	for point, err := range points {
		if err != nil {
			return r, err
		}
		if err := r.add(log, point); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (r *Swept) choose(ctx context.Context, log *Log, begin time.Time) error {
	s := r.Sweep
	choice, edge, err := pipeline.Choose(s.grid(), s.Options)
	if err == nil {
		err = r.begin()
	}
	if err != nil {
		return err
	}
	at := func(i int) (p pipeline.SweepPoint) {
		p.Index, p.Choice, p.Edge = i, choice, edge
		return p
	}
	return r.finish(ctx, log, at(choice.Minimizer), at(choice.Chosen), time.Since(begin))
}

func (r *Swept) begin() error {
	if r.Begin != nil {
		if err := r.Begin(); err != nil {
			return err
		}
	}
	for _, line := range r.Lines {
		if r.Point != nil {
			if err := r.Point(line); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Swept) line(point *pipeline.SweepPoint) SweepLine {
	line := SweepLine{Index: point.Index, Stage: point.Stage, Result: r.Template, Digest: point.Digest,
		Overfits: point.Overfits}
	for a, axis := range r.Axes {
		*line.Named(axis.Name) = Weight(point.Weights[a])
	}
	line.Warnings, line.EffectsChoice = slices.Clone(line.Warnings), nil // which the summary has
	line.Fill(r.Estimator.Problem, point.Risk, nil)
	line.Loss = Defined(point.Loss)
	return line
}

func (r *Swept) add(log *Log, point pipeline.SweepPoint) error {
	if n := len(r.Lines); n == cap(r.Lines) {
		r.Lines = slices.Grow(r.Lines, max(n/2, r.Total()-n, 8))
	}
	r.Lines = append(r.Lines, r.line(&point))
	line := &r.Lines[len(r.Lines)-1]
	line.Look = r.looks.take(r.Sweep, point.Index)
	r.keep(point)
	if err := log.Write(line); err != nil || r.Point == nil {
		return err
	}
	return r.Point(*line)
}

// finish sums up the points. best is the minimizer.
func (r *Swept) finish(ctx context.Context, log *Log, best, chosen pipeline.SweepPoint,
	took time.Duration) error {
	r.Chosen = chosen
	s := SweepSummary{
		Summary: true, Response: r.Template.Response,
		Criterion: r.Options.Criterion, Points: len(r.Lines), Minimizer: r.Lines[best.Index].Minimum(),
		SweepChoice: choiceOf(r.Axes, r.Lines, best.Choice, r.Options.Rule), Seconds: took.Seconds(),
		EffectsChoice: r.Template.EffectsChoice,
	}
	for a, end := range best.Edge {
		if end != 0 && s.Edges == nil {
			s.Edges = map[string]string{}
		}
		switch end {
		case -1:
			s.Edges[r.Axes[a].Name] = "lower"
		case 1:
			s.Edges[r.Axes[a].Name] = "upper"
		}
	}
	for i := range r.Lines {
		line := &r.Lines[i]
		if i < r.Total() && line.Loss != nil && (s.LeastLoss == nil || *line.Loss < *s.LeastLoss.Loss) {
			s.LeastLoss = new(line.Minimum())
		}
	}
	s.Audits = chosen.Audits
	if j := r.Estimator; j != nil {
		r.Diagnostics = Diagnose(ctx, j.Problem, r.Data, chosen.Risk)
		s.StorageResult = StorageOf(j.Problem)
		s.Minimizer, s.Chosen = r.answer(best), r.answer(chosen)
		s.Minimizer.InterceptResult = InterceptOf(j.Problem, best.Risk)
		s.Chosen.InterceptResult = InterceptOf(j.Problem, chosen.Risk)
	}
	r.Summary = s
	for i := range r.Lines {
		if r.untrusted(&r.Lines[i]) {
			r.Summary.NotConverged++
		}
	}
	if r.Finish != nil {
		if err := r.Finish(r); err != nil {
			r.Summary = SweepSummary{}
			return err
		}
	}
	return log.Write(r.Summary)
}

// untrusted says that a point is not to be trusted, unless it has not converged outside the grid, where the search for
// the minimum ends at such a point.
func (r *Swept) untrusted(line *SweepLine) bool {
	if line.Trusted() {
		return false
	}
	outside := false
	for a, v := range line.Swept(r.Axes) {
		w := r.Axes[a].Values
		outside = outside || v < slices.Min(w) || v > slices.Max(w)
	}
	return !outside || line.Doubted() || line.Index == r.Summary.Minimizer.Index || line.Index == r.Summary.Chosen.Index
}

// answer is a point as it was computed again, with a certificate and all its probes, which points of the comparison
// do without. What refits have said of it is that of its line, where a sweep goes on that had it.
func (r *Swept) answer(p pipeline.SweepPoint) SweepMinimum {
	known := &r.Lines[p.Index]
	p.Stage = known.Stage
	line := r.line(&p)
	for name, v := range known.Criteria {
		if _, again := line.Criteria[name]; !again {
			line.add(name, "", v)
		}
	}
	return line.Minimum()
}

// ranges are the weights of some points of a sweep of one weight, as ranges that hold no other points.
func ranges(axes []Axis, lines []SweepLine, points []int) (all [][2]Number) {
	if len(axes) != 1 {
		return nil
	}
	at := lists.Map(lines, func(l SweepLine) float64 { return l.Swept(axes)[0] })
	order := lists.Upto(len(lines))
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(at[i], at[j]) })
	open := false
	for _, i := range order {
		in := slices.Contains(points, i)
		switch {
		case in && open:
			all[len(all)-1][1] = Number(at[i])
		case in:
			all = append(all, [2]Number{Number(at[i]), Number(at[i])})
		}
		open = in
	}
	return all
}

func choiceOf(axes []Axis, lines []SweepLine, c *pipeline.Choice, rule pipeline.Rule) SweepChoice {
	s := SweepChoice{
		Rule: rule, Chosen: lines[c.Chosen].Minimum(), Alike: c.Alike, AlikeRanges: ranges(axes, lines, c.Alike),
		Optimism: Defined(c.Optimism.Value), OptimismStdErr: Defined(c.Optimism.StdErr),
	}
	if s.Optimism != nil {
		s.OptimismLeavesOut = c.Optimism.LeavesOut
	}
	if c.Regret != nil {
		s.Regret, s.RegretBeyond = &c.Regret.Mean, &c.Regret.Beyond
	}
	for _, d := range c.Differences {
		s.Difference = append(s.Difference, Defined(d.Value))
		s.DifferenceStdErr = append(s.DifferenceStdErr, Defined(d.StdErr))
	}
	return s
}
