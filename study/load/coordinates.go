package load

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"surepipe/internal/dataio"
	"surepipe/problems"
	"surepipe/study"
)

// columns are the columns of X by their names, and by those of the columns of the table that they code.
func (c *Contents) columns() (names, of []string) {
	if t := c.Table; t != nil && t.X != nil {
		names = t.Design.Columns()
		for _, v := range t.Design.Variables {
			of = append(of, slices.Repeat([]string{v.Name}, v.Width())...)
		}
		return names, of
	}
	if c.X == nil {
		return nil, nil
	}
	_, p := c.X.Dims()
	names = study.ColumnNames(c.Data, p)
	return names, names
}

func (f *Source) coordinates(data *Contents) (err error) {
	c, t := &data.Coordinates, &f.Table
	for _, o := range []struct {
		option  string
		list    []string
		missing float64
		to      *[]float64
	}{{"factors", t.Factors, 1, &c.Factors}, {"lower", t.Lower, math.Inf(-1), &c.Lower},
		{"upper", t.Upper, math.Inf(1), &c.Upper}} {
		if o.list == nil {
			continue
		}
		if *o.to != nil {
			return study.Errorf("--%s is given, and %s has the array %q: expected one of them", o.option, f.Name(),
				o.option)
		}
		if *o.to, err = data.each(o.list, o.missing); err != nil {
			return study.Errorf("--%s: %w", o.option, err)
		}
		if j, expected := problems.WrongCoordinate(o.option, *o.to); j >= 0 {
			names, _ := data.columns()
			return study.Errorf("--%s gives %g to %s, expected %s", o.option, (*o.to)[j], names[j], expected)
		}
	}
	if f.ColumnGroups != "" {
		return f.columnGroups(data)
	}
	return nil
}

// each are the numbers that a list of NAME=NUMBER gives to the columns of X.
func (c *Contents) each(list []string, missing float64) ([]float64, error) {
	names, of := c.columns()
	if names == nil {
		return nil, fmt.Errorf("there is no matrix X with columns")
	}
	each := slices.Repeat([]float64{missing}, len(names))
	for _, item := range list {
		at := strings.LastIndex(item, "=")
		v, ok := dataio.ParseNumber(item[at+1:])
		if !ok {
			return nil, fmt.Errorf("found %q, expected NAME=NUMBER, or NUMBER for all columns", item)
		}
		some := at < 0
		for j := range each {
			if at >= 0 {
				if name := item[:at]; !matches(name, names[j]) && !matches(name, of[j]) {
					continue
				}
			}
			each[j], some = v, true
		}
		if !some {
			return nil, fmt.Errorf("no column of X has the name or pattern %q, expected some of %s", item[:at],
				brief(names))
		}
	}
	return each, nil
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return pattern == name || ok && err == nil
}

func brief(names []string) string {
	if len(names) > 8 {
		return strings.Join(names[:8], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}

// columnGroups reads the groups of the columns of X: a table with two columns, a name or pattern and a group, or an
// array of labels.
func (f *Source) columnGroups(data *Contents) (err error) {
	wrong := func(err error) error { return study.Errorf("--column-groups %s: %w", f.ColumnGroups, err) }
	names, of := data.columns()
	if !dataio.IsTable(f.ColumnGroups) {
		data.Groups, err = f.labels("column-groups", f.ColumnGroups, "", len(names), "column of X")
		return err
	}
	data.Groups = slices.Repeat([]int{-1}, len(names))
	t, err := dataio.OpenTable(f.ColumnGroups,
		dataio.TableOptions{Files: f.files(), Text: func(string) bool { return true }})
	if err != nil {
		return wrong(err)
	}
	if len(t.Columns) != 2 {
		return wrong(fmt.Errorf("%d columns, expected two: the name of a column of X, or a pattern, and its group",
			len(t.Columns)))
	}
	text := func(c dataio.Column, i int) string {
		if c.Missing(i) {
			return ""
		}
		return c.Levels[c.Codes[i]]
	}
	label := map[string]int{}
	for i := range t.Rows() {
		pattern, group := text(t.Columns[0], i), text(t.Columns[1], i)
		if _, known := label[group]; !known {
			label[group] = len(label)
		}
		some := false
		for j := range names {
			if matches(pattern, names[j]) || matches(pattern, of[j]) {
				data.Groups[j], some = label[group], true
			}
		}
		if !some {
			return wrong(fmt.Errorf("no column of X has the name or pattern %q, expected some of %s", pattern,
				brief(names)))
		}
	}
	return nil
}
