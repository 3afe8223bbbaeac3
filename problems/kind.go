package problems

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A kind is one operator, or one regularizer, of a specification: its name, its documentation, and
// its parser, which returns its builder. N is the type of its nodes and B that of their builders. A
// new kind is a value of this type and a line in the table of operators or of regularizers.
type kind[N, B any] struct {
	name string
	// forms document the kind: how it is written, and what it means.
	forms []form
	// parse reads the arguments of a node, nil where there are none, and returns its builder.
	parse func(s *Spec, n *N, args *yaml.Node) (B, error)
}

// form is one way to write an operator or a regularizer.
type form struct{ syntax, meaning string }

// node is the common part of the operators and regularizers of a specification.
type node struct {
	kind string
	line int
}

// parseNode reads the name of a node, which is one of the kinds, and parses its arguments with the
// kind's parser. what names the sort in errors.
func parseNode[N, B any](s *Spec, at *yaml.Node, what string, kinds []kind[N, B], newNode func(node) *N) (n *N,
	build B, err error) {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.name
	}
	name, args, line, err := s.head(at, what, names)
	if err != nil {
		return nil, build, err
	}
	n = newNode(node{name, line})
	build, err = kinds[slices.Index(names, name)].parse(s, n, args)
	return n, build, err
}

// help lists the forms of all kinds. A syntax that is too long for its column has a line of its
// own.
func help[N, B any](kinds []kind[N, B]) string {
	const column = 35
	var s strings.Builder
	for _, k := range kinds {
		for _, f := range k.forms {
			if len(f.syntax) > column {
				fmt.Fprintf(&s, "  %s\n", f.syntax)
				f.syntax = ""
			}
			if f.meaning == "" {
				continue
			}
			for line := range strings.SplitSeq(f.meaning, "\n") {
				fmt.Fprintf(&s, "  %-*s %s\n", column, f.syntax, line)
				f.syntax = ""
			}
		}
	}
	return s.String()
}
