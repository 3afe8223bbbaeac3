package architecture_test

import (
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"
)

// What has assembly for one processor has a way without it: it is right for a processor that has none here.
func TestAssemblyIsNotNeeded(t *testing.T) {
	const other = "arm64"
	processor, c := build.Default.GOARCH, build.Default.CgoEnabled
	t.Cleanup(func() { build.Default.GOARCH, build.Default.CgoEnabled = processor, c })
	build.Default.GOARCH, build.Default.CgoEnabled = other, false
	fset, seen := token.NewFileSet(), map[string]bool{}
	check := types.Config{Importer: importer.ForCompiler(fset, "source", nil), Sizes: types.SizesFor("gc", other),
		Error: func(err error) { t.Error(err) }}
	for _, f := range files(t) {
		dir := filepath.Join(root(t), f.dir)
		if !strings.HasSuffix(f.name, "_amd64.go") || seen[dir] {
			continue
		}
		seen[dir] = true
		p, err := build.ImportDir(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		var all []*ast.File
		for _, name := range append(p.GoFiles, p.TestGoFiles...) {
			file, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Body == nil {
					t.Errorf("%s: %s has no body for %s", dir, f.Name, other)
				}
			}
			all = append(all, file)
		}
		check.Check(dir, fset, all, nil)
	}
	if len(seen) < 3 {
		t.Errorf("%d packages have assembly", len(seen))
	}
}
