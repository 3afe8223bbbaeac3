package architecture_test

import (
	"go/ast"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mostColumns is the longest line, a tab counting as four columns.
const mostColumns = 120

// Lines are short, but for those of constraints of builds, of raw strings, of C, and of generated files.
func TestLinesAreShort(t *testing.T) {
	for _, f := range files(t) {
		if ast.IsGenerated(f.tree) {
			continue
		}
		free := map[int]bool{}
		mark := func(n ast.Node) {
			for l := f.set.Position(n.Pos()).Line; l <= f.set.Position(n.End()).Line; l++ {
				free[l] = true
			}
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if strings.HasPrefix(n.Value, "`") {
					mark(n)
				}
			case *ast.GenDecl:
				if len(n.Specs) == 1 && n.Doc != nil {
					if s, ok := n.Specs[0].(*ast.ImportSpec); ok && s.Path.Value == `"C"` {
						mark(n.Doc)
					}
				}
			}
			return true
		})
		src, err := os.ReadFile(filepath.Join(root(t), f.dir, f.name))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(src), "\n") {
			wide := len([]rune(strings.ReplaceAll(line, "\t", "    ")))
			if wide > mostColumns && !free[i+1] && !strings.HasPrefix(line, "//go:build") {
				t.Errorf("%s/%s:%d has %d columns, expected at most %d", f.dir, f.name, i+1, wide, mostColumns)
			}
		}
	}
}
