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

// WriteCSV writes the points as a table of numbers. Cells of what is not defined are empty.
func (r *Swept) WriteCSV(path string) error {
	columns := []string{"index", "refined"}
	for _, axis := range r.Axes {
		columns = append(columns, axis.Name)
	}
	keys := r.criteriaKeys()
	columns = append(columns, keys...)
	choice := r.choiceColumns()
	for _, c := range choice {
		columns = append(columns, c.name)
	}
	losses := []string{"residual"}
	if r.Lines[0].Residual == nil {
		losses = []string{"loss_value", "deviance"}
	}
	columns = append(columns, losses...)
	columns = append(columns, "divergence", "divergence_stderr", "jacobian_fro2")
	withLoss := r.Lines[0].Loss != nil
	if withLoss {
		columns = append(columns, "loss")
	}
	columns = append(columns, "iterations", "optimality", "converged")
	table := dataio.Array{Labels: dataio.Labels{Columns: columns}, Absent: true,
		Shape: []int{len(r.Lines), len(columns)}}
	add := func(values ...float64) { table.Data = append(table.Data, values...) }
	truth := map[bool]float64{true: 1}
	for i, l := range r.Lines {
		add(float64(l.Index), truth[l.Stage == pipeline.RefineStage])
		add(l.Swept(r.Axes)...)
		for _, key := range keys {
			add(valueOr(l.Number(key)))
		}
		for _, c := range choice {
			add(valueOr(c.of[i]))
		}
		if l.Residual == nil {
			add(valueOr(l.LossValue), valueOr(l.Deviance))
		} else {
			add(*l.Residual)
		}
		add(l.Divergence, l.DivergenceStdErr, l.JacobianFro2)
		if withLoss {
			add(*l.Loss)
		}
		add(float64(l.Solver.Iterations), l.Solver.Optimality, truth[l.Trusted()])
	}
	return dataio.WriteCSV(path, table)
}

// criteriaKeys are the columns for what is known at any point; leave-one-out that was not asked for must be known at
// all.
func (r *Swept) criteriaKeys() (keys []string) {
	add := func(asked bool, of ...string) {
		for _, key := range of {
			known := 0
			for _, l := range r.Lines {
				if l.Number(key) != nil {
					known++
				}
			}
			if known == len(r.Lines) || known > 0 && asked {
				keys = append(keys, key)
			}
		}
	}
	for rule := range risk.Rules() {
		name := string(rule.Name)
		add(!rule.Diagonal || r.Header.ALO, append([]string{name, name + "_stderr"}, rule.Keys...)...)
	}
	add(true, "sigma2_df")
	return keys
}

// column is a column of numbers, nil where they are not defined.
type column struct {
	name string
	of   []*float64
}

// choiceColumns are the differences to the minimizer, as far as any are known.
func (r *Swept) choiceColumns() (known []column) {
	for _, c := range []column{{"difference", r.Summary.Difference},
		{"difference_stderr", r.Summary.DifferenceStdErr}} {
		for _, v := range c.of {
			if !math.IsNaN(valueOr(v)) {
				known = append(known, c)
				break
			}
		}
	}
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
	columns := []string{"index"}
	for _, axis := range r.Axes {
		columns = append(columns, axis.Name)
	}
	keys := r.criteriaKeys()
	columns = slices.Concat(columns, []string{"df"}, keys)
	names := r.PathNames()
	intercepts := InterceptNames(r.Data, r.Estimator.Problem, len(r.Path[0].All())-len(names))
	columns = slices.Concat(columns, intercepts, names)
	table := dataio.Array{Labels: dataio.Labels{Columns: columns}, Absent: true,
		Shape: []int{len(r.Path), len(columns)}}
	for _, i := range r.PathOrder() {
		l, at := r.Lines[i], r.Path[i]
		row := append([]float64{float64(l.Index)}, l.Swept(r.Axes)...)
		row = append(row, l.Divergence)
		for _, key := range keys {
			row = append(row, valueOr(l.Number(key)))
		}
		table.Data = slices.Concat(table.Data, row, at.All())
	}
	return dataio.WriteCSV(path, table)
}

// byLength sorts coefficients by the greatest size that they reach along the path.
func byLength(sizes []float64) []int {
	order := lists.Upto(len(sizes))
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sizes[b], sizes[a]) })
	return order
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
	return byLength(sizes), scales
}
