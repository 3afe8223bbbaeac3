package study

import (
	"cmp"
	"math"
	"slices"

	"surepipe/internal/dataio"
	"surepipe/internal/lists"
	"surepipe/pipeline"
	"surepipe/risk"
)

// column is a column of the numbers of the points of a table, NaN where they are not defined.
type column struct {
	name string
	of   func(l *SweepLine) float64
}

// WriteCSV writes the points as a table of numbers. Cells of what is not defined are empty.
func (r *Swept) WriteCSV(path string) error {
	truth := map[bool]float64{true: 1}
	columns := slices.Concat([]column{
		{"index", func(l *SweepLine) float64 { return float64(l.Index) }},
		{"refined", func(l *SweepLine) float64 { return truth[l.Stage == pipeline.RefineStage] }},
	}, r.weightColumns(), r.criteriaColumns(), r.choiceColumns(), []column{
		{"residual", func(l *SweepLine) float64 { return valueOr(l.Residual) }},
		{"loss_value", func(l *SweepLine) float64 { return valueOr(l.LossValue) }},
		{"deviance", func(l *SweepLine) float64 { return valueOr(l.Deviance) }},
		{"divergence", func(l *SweepLine) float64 { return l.Divergence }},
		{"divergence_stderr", func(l *SweepLine) float64 { return l.DivergenceStdErr }},
		{"jacobian_fro2", func(l *SweepLine) float64 { return l.JacobianFro2 }},
		{"loss", func(l *SweepLine) float64 { return valueOr(l.Loss) }},
		{"iterations", func(l *SweepLine) float64 { return float64(l.Solver.Iterations) }},
		{"optimality", func(l *SweepLine) float64 { return l.Solver.Optimality }},
		{"converged", func(l *SweepLine) float64 { return truth[l.Trusted()] }},
	})
	without := []string{"residual"}
	if r.Lines[0].Residual != nil {
		without = []string{"loss_value", "deviance"}
	}
	if r.Lines[0].Loss == nil {
		without = append(without, "loss")
	}
	columns = slices.DeleteFunc(columns, func(c column) bool { return slices.Contains(without, c.name) })
	table := tableOf(len(r.Lines), columns)
	for i := range r.Lines {
		table.Data = append(table.Data, cells(columns, &r.Lines[i])...)
	}
	return dataio.WriteCSV(path, table)
}

// tableOf is a table of so many rows, which are to be filled, with further columns of these names.
func tableOf(rows int, columns []column, further ...string) dataio.Array {
	names := append(lists.Map(columns, func(c column) string { return c.name }), further...)
	return dataio.Array{Labels: dataio.Labels{Columns: names}, Absent: true, Shape: []int{rows, len(names)}}
}

func cells(columns []column, l *SweepLine) []float64 {
	return lists.Map(columns, func(c column) float64 { return c.of(l) })
}

func (r *Swept) weightColumns() []column {
	return lists.Map(r.Axes, func(axis Axis) column {
		return column{axis.Name, func(l *SweepLine) float64 { return l.Swept([]Axis{axis})[0] }}
	})
}

// criteriaColumns are those of what is known at any point; leave-one-out that was not asked for must be known at all.
func (r *Swept) criteriaColumns() (known []column) {
	add := func(asked bool, keys ...string) {
		for _, key := range keys {
			n := len(lists.Places(len(r.Lines), func(i int) bool { return r.Lines[i].Number(key) != nil }))
			if n == len(r.Lines) || n > 0 && asked {
				known = append(known, column{key, func(l *SweepLine) float64 { return valueOr(l.Number(key)) }})
			}
		}
	}
	for rule := range risk.Rules() {
		name := string(rule.Name)
		add(!rule.Diagonal || r.Header.ALO, append([]string{name, name + "_stderr"}, rule.Keys...)...)
	}
	add(true, "sigma2_df")
	return known
}

// choiceColumns are the differences to the minimizer, as far as any are known.
func (r *Swept) choiceColumns() (known []column) {
	add := func(name string, all []*float64) {
		if slices.ContainsFunc(all, func(v *float64) bool { return !math.IsNaN(valueOr(v)) }) {
			known = append(known, column{name, func(l *SweepLine) float64 { return valueOr(all[l.Index]) }})
		}
	}
	add("difference", r.Summary.Difference)
	add("difference_stderr", r.Summary.DifferenceStdErr)
	return known
}

// PathPoint are the coefficients at a point of a sweep, in the units of the columns; the intercept is NaN where there
// is none. Where y has several columns there are Intercepts in its place, one for each.
type PathPoint struct {
	Intercept    float64
	Intercepts   []float64
	Coefficients []float64
}

// All are the intercepts, if any, and the coefficients.
func (p PathPoint) All() []float64 {
	if math.IsNaN(p.Intercept) {
		return slices.Concat(p.Intercepts, p.Coefficients)
	}
	return append([]float64{p.Intercept}, p.Coefficients...)
}

// KeepPath asks for the coefficients of all points, in [Swept].Path.
func (s *Sweep) KeepPath() error {
	if p := s.Estimator.Problem; !p.Rows() {
		return Errorf("--path is for regressions, whose operator is a matrix of the data, found %s", p.Name)
	}
	s.Options.KeepPath, s.Options.KeepB = true, true
	return nil
}

func (r *Swept) keep(point pipeline.SweepPoint) {
	if !r.Options.KeepPath {
		return
	}
	p := r.Estimator.Problem
	b := point.DenseB()
	at := PathPoint{Intercept: math.NaN(), Coefficients: p.Coefficients(b)}
	if b0 := p.Intercepts(point.MuHat, b); len(b0) == 1 {
		at.Intercept = b0[0]
	} else {
		at.Intercepts = b0
	}
	r.Path = append(r.Path, at)
}

// PathNames are the names of the coefficients of the path.
func (r *Swept) PathNames() []string { return CoefficientNames(r.Data, r.Estimator.Problem) }

// PathOrder are the indices of the points, from the greatest weight to the least.
func (r *Swept) PathOrder() []int {
	order := lists.Upto(len(r.Path))
	slices.SortStableFunc(order, func(a, b int) int {
		return slices.Compare(r.Lines[b].Swept(r.Axes), r.Lines[a].Swept(r.Axes))
	})
	return order
}

// WritePath writes the coefficients of all points as a table, with their weights, degrees of freedom and criteria.
func (r *Swept) WritePath(path string) error {
	columns := slices.Concat([]column{{"index", func(l *SweepLine) float64 { return float64(l.Index) }}},
		r.weightColumns(), []column{{"df", func(l *SweepLine) float64 { return l.Divergence }}}, r.criteriaColumns())
	names := r.PathNames()
	intercepts := InterceptNames(r.Data, r.Estimator.Problem, len(r.Path[0].All())-len(names))
	table := tableOf(len(r.Path), columns, slices.Concat(intercepts, names)...)
	for _, i := range r.PathOrder() {
		table.Data = slices.Concat(table.Data, cells(columns, &r.Lines[i]), r.Path[i].All())
	}
	return dataio.WriteCSV(path, table)
}

// Largest are the coefficients, those first that reach the greatest size along the path in units of their column's
// standard deviation; scales are these.
func (r *Swept) Largest() (order []int, scales []float64) {
	p := r.Estimator.Problem
	scales = slices.Repeat([]float64{1}, p.P)
	each := p.P / p.Variables()
	for j, s := range p.Scales() {
		for k := range each {
			scales[j*each+k] = s
		}
	}
	sizes := make([]float64, p.P)
	for _, at := range r.Path {
		for j, v := range at.Coefficients {
			sizes[j] = max(sizes[j], math.Abs(v*scales[j]))
		}
	}
	order = lists.Upto(p.P)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sizes[b], sizes[a]) })
	return order, scales
}
