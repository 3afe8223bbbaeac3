package load

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"surepipe/internal/lists"
	"surepipe/problems"
	"surepipe/risk/warning"
	"surepipe/study"
)

func (f *Source) classes() bool { return f.LossOf().Row().Classes }
func (f *Source) columns() bool { return f.LossOf().Row().Columns }

// classify gives y a column for each class, 1 for that of the observation and else 0, where y are labels: the places of
// the levels of a table's response, or any numbers. A y with several columns has them already.
func (f *Source) classify(data *Contents) error {
	switch {
	case f.columns() && len(data.YShape) > 1:
		data.Each = data.YShape[1]
		return nil
	case !f.classes():
		return nil
	}
	if data.Stack != nil || data.Simulated {
		return fmt.Errorf("array \"y\" is missing or a stack of samples, expected the class of each row of \"X\"")
	}
	labels := slices.Clone(data.Y)
	if slices.ContainsFunc(labels, math.IsNaN) {
		return fmt.Errorf("array \"y\" holds NaN, expected the class of each row of \"X\"")
	}
	slices.Sort(labels)
	labels = slices.Compact(labels)
	if n, most := len(labels), f.LossOf().Row().Levels; n < 2 || n > most {
		return fmt.Errorf("array \"y\" has %d different values, expected 2 to %d classes", n, most)
	}
	names := make([]string, len(labels))
	for k, v := range labels {
		names[k] = strconv.FormatFloat(v, 'g', -1, 64)
		if t := data.Table; t != nil && t.Design.Levels != nil {
			names[k] = t.Design.Levels[int(v)]
		}
	}
	y := make([]float64, len(data.Y)*len(labels))
	for i, v := range data.Y {
		k, _ := slices.BinarySearch(labels, v)
		y[i*len(labels)+k] = 1
	}
	data.Each = len(labels)
	data.Y, data.YShape = y, []int{len(data.Y), len(labels)}
	data.Labels.Columns = names
	return nil
}

func (f *Source) noteResponses(n *study.Notes, data problems.Data) {
	if !f.columns() || f.classes() || len(data.YShape) != 2 {
		return
	}
	y := mat.NewDense(data.YShape[0], data.YShape[1], data.Y)
	deviations := lists.Make(data.YShape[1], func(k int) float64 { return stat.StdDev(mat.Col(nil, k, y), nil) })
	if least, most := slices.Min(deviations), slices.Max(deviations); most > mostSpread*least {
		n.Add(warning.UnscaledColumns, "the standard deviations of the responses range from %.3g to %.3g, and one fit "+
			"takes their noise for equally large: bring them to units in which they are alike", least, most)
	}
}
