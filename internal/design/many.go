package design

import (
	"fmt"
	"slices"

	"surepipe/internal/dataio"
)

// OpenMany is [Open] for several responses, of which none is a column of X. The table is read once, and responses for
// which the same rows are kept have the same X.
func OpenMany(path string, o Options, responses []string) ([]*Data, error) {
	for k, name := range responses {
		switch {
		case name == "":
			return nil, &OptionError{"response", fmt.Errorf("has an empty name, expected names of columns separated " +
				"by commas")}
		case slices.Contains(responses[:k], name):
			return nil, &OptionError{"response", fmt.Errorf("column %q is named twice", name)}
		}
	}
	of := func(name string) Options {
		mine := o
		mine.Response = name
		others := slices.DeleteFunc(slices.Clone(responses), func(other string) bool { return other == name })
		if o.Whole {
			mine.others = others
		}
		mine.Drop = slices.Concat(o.Drop, others)
		return mine
	}
	reading := dataio.TableOptions{
		Files: o.Files, NA: o.NA,
		Columns: func(names []string) error {
			for _, name := range responses {
				if err := (&Options{Response: name}).check(names); err != nil {
					return err
				}
			}
			for _, name := range responses {
				if err := of(name).check(names); err != nil {
					return err
				}
			}
			return nil
		},
		Read: func(name string) bool { return slices.Contains(responses, name) || of(responses[0]).used(name) },
		Text: func(name string) bool { return slices.Contains(o.Categorical, name) },
	}
	all, err := open(path, reading, func(t *dataio.Table) (*[]*Data, error) {
		var all []*Data
		for k, name := range responses {
			mine := of(name)
			if k > 0 {
				mine.like = all[0]
			}
			data, err := Build(t, mine)
			if err != nil {
				return nil, err
			}
			all = append(all, data)
		}
		return &all, nil
	})
	if err != nil {
		return nil, err
	}
	return *all, nil
}

// with are the columns of the other responses that rows must have.
func (o Options) with(t *dataio.Table) []dataio.Column {
	return slices.DeleteFunc(slices.Clone(t.Columns), func(c dataio.Column) bool {
		return !slices.Contains(o.others, c.Name)
	})
}

// Joined is a y whose columns are several responses in the same rows.
func Joined(all []*Data) *Data {
	d := *all[0]
	d.Several, d.Design.Response = all, ""
	return &d
}

func (d *Data) y() dataio.Array {
	m := len(d.Several)
	if m == 0 {
		return dataio.Array{Name: "y", Shape: []int{len(d.Y)}, Data: d.Y}
	}
	y := dataio.Array{Name: "y", Shape: []int{len(d.Y), m}, Data: make([]float64, len(d.Y)*m)}
	for k, of := range d.Several {
		y.Labels.Columns = append(y.Labels.Columns, of.Design.Response)
		for i, v := range of.Y {
			y.Data[i*m+k] = v
		}
	}
	return y
}
