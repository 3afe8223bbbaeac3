package architecture_test

import (
	"go/ast"
	"slices"
	"testing"
)

// mostFields is the largest number of fields of a struct. An embedded one counts as one.
const mostFields = 24

// records are structs that hold results, whose fields are the keys of JSON or the numbers that a caller reads: they may
// be large.
var records = []string{
	"stages.Risk", "study.Result", "study.Summary", "study.SweepHeader",
}

// Structs are small: a mechanism that needs many fields is several.
func TestStructsAreSmall(t *testing.T) {
	left := slices.Clone(records)
	for _, f := range files(t) {
		ast.Inspect(f.tree, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			s, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			fields, name := 0, f.dir+"."+spec.Name.Name
			for _, field := range s.Fields.List {
				fields += max(1, len(field.Names))
			}
			at := slices.Index(left, name)
			if at >= 0 {
				left = slices.Delete(left, at, at+1)
			}
			switch {
			case fields > mostFields && at < 0:
				t.Errorf("%s: %s has %d fields, expected at most %d", f.set.Position(spec.Pos()), name, fields, mostFields)
			case fields <= mostFields && at >= 0:
				t.Errorf("%s: %s has %d fields: it is no longer an exception", f.set.Position(spec.Pos()), name, fields)
			}
			return true
		})
	}
	if len(left) > 0 {
		t.Errorf("%q are exceptions, and do not exist", left)
	}
}
