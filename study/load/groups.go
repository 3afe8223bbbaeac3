package load

import (
	"fmt"

	"surepipe/internal/dataio"
	"surepipe/internal/lists"
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
	return f.labels("groups", path, inside, len(data.Y)/max(data.Each, 1), "observation")
}

// labels reads n labels from a file that an option names: the array of that name, or the only one.
func (f *Source) labels(option, path, array string, n int, of string) (labels []int, err error) {
	set, err := dataio.OpenAs(path, f.reading())
	if err != nil {
		return nil, study.Errorf("%s %w", study.Option(option), err)
	}
	defer set.Close()
	defer func() {
		if err != nil {
			err = study.Errorf("%s %s: %w", study.Option(option), path, err)
		}
	}()
	if array, err = set.Find(array); err != nil {
		return nil, err
	}
	read, err := set.Ints(array)
	if err == nil && len(read.Ints) != n {
		err = fmt.Errorf("%d labels, expected %d, one for each %s", len(read.Ints), n, of)
	}
	return lists.Map(read.Ints, func(v int64) int { return int(v) }), err
}
