package problems

import (
	"cmp"
	"slices"

	"go.yaml.in/yaml/v3"

	"surepipe/internal/dataio"
	"surepipe/internal/design"
)

// names reads the name of a column, or a list of such names.
func (s *Spec) names(n *yaml.Node, what string) ([]string, error) {
	if n.Kind != yaml.SequenceNode {
		name, err := s.text(n, what)
		return []string{name}, err
	}
	var names []string
	for _, c := range n.Content {
		name, err := s.text(c, what)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	if names == nil {
		return nil, s.errorf(n.Line, "%s is an empty list, expected names of columns", what)
	}
	return names, nil
}

// tableOptions are those of the specification, replaced by those of the flags.
func (l *specLoader) tableOptions() design.Options {
	o, own := l.files.Table, l.data.table
	o.Response, o.Index = cmp.Or(o.Response, own.Response), cmp.Or(o.Index, own.Index)
	o.Missing = cmp.Or(o.Missing, own.Missing)
	for _, list := range []struct{ to, own *[]string }{{&o.Only, &own.Only}, {&o.Drop, &own.Drop},
		{&o.Categorical, &own.Categorical}, {&o.NA, &own.NA}} {
		if *list.to == nil {
			*list.to = *list.own
		}
	}
	o.Reference = l.regularizer.kind == "zero"
	o.NoX = !slices.ContainsFunc(l.refs, func(r *arrayRef) bool { return r.name == "X" || r.name == "groups" })
	return o
}

// openData opens the data file: the arrays X, y and groups of a table, if one of its columns is the
// response.
func (l *specLoader) openData(path string) (*dataio.Set, error) {
	o := l.tableOptions()
	if o.Response == "" || !dataio.IsTable(path) {
		return l.open(path)
	}
	if l.table == nil {
		table, err := design.Open(path, o)
		if err != nil {
			return nil, err
		}
		l.table, l.tableSet = table, dataio.HoldTable(table.Arrays()...)
	}
	return l.tableSet, nil
}

// sequence sets what a table knows of y as a sequence.
func (l *specLoader) sequence(data *Data) {
	if l.table == nil || l.table.Sequence == nil {
		return
	}
	sequence, observed := l.table.Sequence, !l.Selects()
	data.Labels = sequence.Labelled(l.table.Design.Response, observed)
	data.At = sequence.Places(observed)
}

// Placed reports whether there are differences, which depend on the distances of Data.At.
func (s *Spec) Placed() bool {
	return slices.ContainsFunc(s.terms, func(t term) bool {
		return t.operator != nil && t.operator.contains("differences")
	})
}
