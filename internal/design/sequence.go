package design

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"surepipe/internal/dataio"
	"surepipe/internal/lists"
)

// Sequence is what is known of the sequence of a table, besides its values.
type Sequence struct {
	// Index is the name of the index, empty where the rows are named without it, and Labels its text at
	// each place; nil without one.
	Index  string
	Labels []string
	// N is the length of the sequence, and Observed the places at which there is a value.
	N        int
	Observed []int
	// Measured says that the index is one of numbers or dates, and Unequal how its steps differ, empty where
	// they do not.
	Measured bool
	Unequal  string
	// at are the distances of all places from a point, increasing, nil where the index is not one of
	// numbers or dates, or its steps are equal.
	at []float64
}

// Places are those of the whole sequence, or of its observed values alone, as increasing numbers; nil
// where they are evenly spaced, or not known.
func (s *Sequence) Places(observed bool) []float64 {
	if s.at == nil || !observed {
		return s.at
	}
	return lists.Pick(s.at, s.Observed)
}

// Labelled are the labels of a table of the whole sequence under a name, or of its observed values alone.
func (s *Sequence) Labelled(name string, observed bool) dataio.Labels {
	l := dataio.Labels{RowNames: s.Labels, Columns: []string{name}, Corner: s.Index}
	if observed {
		l.RowNames = lists.Pick(s.Labels, s.Observed)
	}
	return l
}

func (s *Sequence) arrays() []dataio.Array {
	places := lists.Map(s.Observed, func(c int) float64 { return float64(c) })
	return []dataio.Array{
		{Name: "indices", Shape: []int{len(places)}, Data: places},
		{Name: "shape", Shape: []int{1}, Data: []float64{float64(s.N)}},
	}
}

// openSequence reads the response of a table as a sequence in the order of the rows, and its index. With
// Missing = Drop values may be missing.
func openSequence(path string, o Options) (*Data, error) {
	index := o.Index
	check := func(names []string) error {
		if err := o.check(names); err != nil {
			return err
		}
		if o.Missing == Mean {
			return &OptionError{"missing", errors.New("found mean, but a sequence has no mean to put in the place of " +
				"a value: expected error, or drop, to estimate it from the others")}
		}
		others := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			return name == o.Response || slices.Contains(o.Drop, name)
		})
		if index == "" && len(others) > 0 {
			index = others[0]
		}
		return nil
	}
	return open(path, dataio.TableOptions{
		Files: o.Files, NA: o.NA, Columns: check,
		Read: func(name string) bool { return name == o.Response || name == index },
		Text: func(name string) bool { return name != o.Response },
	}, func(t *dataio.Table) (*Data, error) { return o.sequence(t, index) })
}

func (o Options) sequence(t *dataio.Table, index string) (*Data, error) {
	y, err := t.Column(o.Response)
	if err != nil {
		return nil, err
	}
	if y.Values == nil {
		return nil, &OptionError{"response", LabelsError{textColumn(y)}}
	}
	s := &Sequence{N: t.Rows(), Labels: t.RowNames}
	data := &Data{Design: Design{Response: o.Response}, Sequence: s}
	for i, v := range y.Values {
		if !math.IsNaN(v) {
			s.Observed, data.Y = append(s.Observed, i), append(data.Y, v)
		}
	}
	switch data.Left = s.N - len(data.Y); {
	case len(data.Y) == 0:
		return nil, &OptionError{"response", fmt.Errorf("column %q holds no values", o.Response)}
	case data.Left > 0 && o.Missing != Drop:
		i := slices.IndexFunc(y.Values, math.IsNaN)
		return nil, &OptionError{"missing", fmt.Errorf(
			"%s: the value is missing, the first of %d; expected drop, to estimate them from the "+
				"others", t.Place(i, o.Response), data.Left)}
	}
	if index != "" {
		c, err := t.Column(index)
		if err != nil {
			return nil, err
		}
		labels, err := indexLabels(t, c, o.Index != "")
		if err != nil {
			return nil, &OptionError{"index", err}
		}
		if labels != nil {
			s.Index, s.Labels = index, labels
		}
	}
	if s.Index != "" || s.Labels != nil && isDates(s.Labels) {
		s.measure()
	}
	return data, nil
}

func isDates(texts []string) bool {
	_, ok := parseDates(texts)
	return ok
}

// indexLabels are the texts of a column that is the index: dates or numbers in order, or any texts where the
// column was asked for. A column that was not is refused where its dates are in no order, and otherwise
// nil where it is no index.
func indexLabels(t *dataio.Table, c dataio.Column, asked bool) ([]string, error) {
	labels := make([]string, t.Rows())
	for i := range labels {
		if c.Missing(i) {
			if !asked && !isDates(c.Levels) {
				return nil, nil
			}
			return nil, fmt.Errorf("%s: the value is missing, expected the place of each row in the sequence",
				t.Place(i, c.Name))
		}
		labels[i] = c.Levels[c.Codes[i]]
	}
	scales := scalesOf(labels)
	if len(scales) == 0 {
		if asked || len(c.Levels) == len(labels) {
			return labels, nil
		}
		return nil, nil
	}
	// The last scale is the finest.
	at := scales[len(scales)-1].disorder()
	switch {
	case at < 0:
		return labels, nil
	case !asked && !isDates(labels):
		return nil, nil
	}
	return nil, fmt.Errorf("%s: found %.40q after %.40q, expected rows in the order of the index, each place "+
		"once: sort them, or take one series of several; or leave the column out with drop",
		t.Place(at, c.Name), labels[at], labels[at-1])
}

func textColumn(c dataio.Column) error {
	err := fmt.Errorf("column %q holds texts such as %.40q, expected numbers", c.Name, c.Levels[0])
	if len(c.Levels) == 2 {
		err = fmt.Errorf("%w, such as 0 in place of %.40q and 1 in place of %.40q",
			err, c.Levels[0], c.Levels[1])
	}
	return err
}
