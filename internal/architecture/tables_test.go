package architecture_test

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"surepipe/internal/noise"
	"surepipe/loss"
	"surepipe/problems/spec"
	"surepipe/solve"
)

// tables are the packages whose tables say all that is known of a name: others do not compare with its constants.
var tables = map[string][]string{
	"surepipe/risk": {"SURE", "GCV", "ALO", "LGO", "AIC", "BIC", "CV"},
}

// compared lists what a file compares with something.
func compared(f file) []ast.Expr {
	var all []ast.Expr
	ast.Inspect(f.tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				all = append(all, n.X, n.Y)
			}
		case *ast.CaseClause:
			all = append(all, n.List...)
		}
		return true
	})
	return all
}

// What depends on a name stands in its row: no comparison and no case names a row of another package's table.
func TestNamesAreNotCompared(t *testing.T) {
	for _, f := range files(t) {
		imports := map[string]string{}
		for _, spec := range f.tree.Imports {
			p := strings.Trim(spec.Path.Value, `"`)
			if tables[p] == nil {
				continue
			}
			name := p[strings.LastIndex(p, "/")+1:]
			if spec.Name != nil {
				name = spec.Name.Name
			}
			imports[name] = p
		}
		for _, e := range compared(f) {
			s, ok := e.(*ast.SelectorExpr)
			if !ok {
				continue
			}
			x, ok := s.X.(*ast.Ident)
			// An object is a variable that hides the package.
			if ok && x.Obj == nil && slices.Contains(tables[imports[x.Name]], s.Sel.Name) {
				t.Errorf("%s: a comparison with %s.%s, expected a question to its row", f.set.Position(e.Pos()),
					x.Name, s.Sel.Name)
			}
		}
	}
}

// What depends on a method is a field of its entry: nothing is compared with the name of one, except by the fuzzer.
func TestMethodsAreNotCompared(t *testing.T) {
	methods := solve.Names()
	for _, f := range files(t) {
		if f.dir == "internal/differential" {
			continue
		}
		for _, e := range compared(f) {
			lit, ok := e.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				continue
			}
			if name, err := strconv.Unquote(lit.Value); err == nil && slices.Contains(methods, name) {
				t.Errorf("%s: a comparison with the name of the method %s, expected a question to its entry",
					f.set.Position(e.Pos()), name)
			}
		}
	}
}

// What depends on a kind of regularizer, or on a way to estimate sigma2, is a field of its row: nothing is compared with
// the name of one, except by the fuzzer.
func TestKindsAreNotCompared(t *testing.T) {
	names := slices.Concat(noise.Names()[1:], loss.Names())
	for _, k := range spec.Regularizers() {
		names = append(names, k.Name)
	}
	for _, f := range files(t) {
		if f.dir == "internal/differential" {
			continue
		}
		for _, e := range compared(f) {
			lit, ok := e.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				continue
			}
			if name, err := strconv.Unquote(lit.Value); err == nil && slices.Contains(names, name) {
				t.Errorf("%s: a comparison with the name of %s, expected a question to its row", f.set.Position(e.Pos()),
					name)
			}
		}
	}
}

// A warning is of a row of the table in risk/warning: nothing makes one from a code of its own.
func TestWarningsAreRows(t *testing.T) {
	for _, f := range files(t) {
		ast.Inspect(f.tree, func(n ast.Node) bool {
			made, ok := n.(*ast.CompositeLit)
			if !ok || f.dir == "risk/warning" {
				return true
			}
			for _, e := range made.Elts {
				pair, ok := e.(*ast.KeyValueExpr)
				if !ok {
					continue
				}
				key, _ := pair.Key.(*ast.Ident)
				code, _ := pair.Value.(*ast.BasicLit)
				if key != nil && key.Name == "Code" && code != nil && code.Kind == token.STRING {
					t.Errorf("%s: the code %s, expected a row of risk/warning", f.set.Position(pair.Pos()), code.Value)
				}
			}
			return true
		})
	}
}

// Dense eigenvalues and singular values have one place, which says what went wrong where there is none.
func TestDecompositionsHaveOnePlace(t *testing.T) {
	for _, f := range files(t) {
		if f.dir == "internal/numerics" || suite(f.dir) {
			continue
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "mat" && (s.Sel.Name == "EigenSym" || s.Sel.Name == "SVD") {
				t.Errorf("%s: mat.%s, expected Eigen, SVD or SingularValues of internal/numerics", f.set.Position(s.Pos()),
					s.Sel.Name)
			}
			return true
		})
	}
}
