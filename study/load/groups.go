package load

import (
	"slices"

	"surepipe/internal/dataio"
	"surepipe/risk/folds"
	"surepipe/study"
)

// groups are the labels of the observations that are left out together: a column of the table, the rows or cols of a
// matrix of which entries are observed, an array of the archive, or one of a file of its own; nil where none are asked
// for.
func (f *Source) groups(data *Contents) (labels []int, err error) {
	name := f.Table.Groups
	switch {
	case name == "":
		return nil, nil
	case data.Table != nil && data.Table.Groups != nil:
		return data.Table.Groups, nil
	case len(data.Shape) == 2 && (name == "rows" || name == "cols"):
		return folds.Lines(data.Indices, data.Shape[1], name == "rows"), nil
	case data.Table != nil:
		return nil, study.Errorf("--groups is %q, but the rows of %s are not observations: expected --blocks", name,
			f.Name())
	}
	path, inside := name, ""
	if f.Data != "" && !dataio.IsTable(f.Data) {
		if set, err := dataio.OpenAs(f.Data, f.reading()); err == nil {
			if set.Has(name) {
				path, inside = f.Data, name
			}
			set.Close()
		}
	}
	set, err := dataio.OpenAs(path, f.reading())
	if err != nil {
		return nil, study.Errorf("--groups: %w", err)
	}
	defer set.Close()
	if inside == "" {
		if inside, err = set.Only(); err != nil {
			return nil, study.Errorf("--groups %s: %w", path, err)
		}
	}
	read, err := set.Ints(inside)
	if err != nil {
		return nil, study.Errorf("--groups %s: %w", path, err)
	}
	for _, v := range read.Ints {
		labels = append(labels, int(v))
	}
	if d := len(data.Y); len(labels) != d {
		return nil, study.Errorf("--groups %s: %d labels, expected %d, one for each observation", path, len(labels), d)
	}
	return slices.Clip(labels), nil
}
