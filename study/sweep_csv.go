package study

import (
	"math"

	"surepipe/internal/dataio"
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
		add(WeightsAt(r.Axes, l)...)
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
	for _, rule := range risk.Rules() {
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
