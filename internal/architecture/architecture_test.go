package architecture_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// layers are the packages from the top down. A package imports only packages of layers below its
// own. A subdirectory belongs to the layer of its directory, unless it is listed itself.
var layers = [][]string{
	{"cmd/surepipe"},
	{""}, // the module's root
	{"cuda", "internal/differential"},
	{"study"},
	{"pipeline"},
	{"problems"},
	{"problems/spec"},
	{"problems/internal"},
	{"stages"},
	{"verify"},
	{"risk"},
	{"vjp"},
	{"solve"},
	{"solve/active", "solve/interior", "solve/lowrank", "solve/manifold"},
	{"solve/direct", "solve/gradient", "solve/rewrite", "solve/splitting"},
	{"solve/restrict"},
	{"solve/engine"},
	{"solve/internal"},
	{"hutch", "series"},
	{"linops/linopstest", "prox/proxtest"},
	{"linops/outofcore", "prox/denoise"},
	{"linops/additive", "linops/imaging", "linops/krylov", "prox/clustered", "prox/cones", "prox/lowrank"},
	{"linops", "prox"},
	{"loss"},
	{"space/spacetest"},
	{"space"},
	{"array/arraytest"},
	{"internal/numerics/steps"},
	{"array"},
	{"input", "progress"},
	{"internal"},
}

// Limits on what a reader can take in at once.
const (
	mostLines    = 500
	mostFunction = 80
	mostFiles    = 30
)

const module = "surepipe"

// file is a Go file that is not a test.
type file struct {
	dir, name string
	set       *token.FileSet
	tree      *ast.File
	lines     int
}

func root(t *testing.T) string {
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// files are all Go files that are not tests, parsed once.
func files(t *testing.T) []file {
	t.Helper()
	all, err := parsed()
	if err != nil || len(all) == 0 {
		t.Fatalf("%d files: %v", len(all), err)
	}
	return all
}

var parsed = sync.OnceValues(func() (all []file, err error) {
	top, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(top, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && (strings.HasPrefix(e.Name(), ".") && p != top || e.Name() == "testdata") {
			return filepath.SkipDir
		}
		if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil && p != top {
			return filepath.SkipDir // a module of its own
		}
		if e.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		f := file{set: token.NewFileSet(), lines: strings.Count(string(src), "\n")}
		if f.tree, err = parser.ParseFile(f.set, p, src, parser.ParseComments); err != nil {
			return err
		}
		rel, err := filepath.Rel(top, p)
		if err != nil {
			return err
		}
		f.dir, f.name = path.Split(filepath.ToSlash(rel))
		f.dir = strings.TrimSuffix(f.dir, "/")
		all = append(all, f)
		return nil
	})
	return all, err
})

// layer is the place of a directory in the list, and what entry there it belongs to.
func layer(dir string) (int, string) {
	best, place := "", -1
	for i, names := range layers {
		for _, name := range names {
			if dir == name || strings.HasPrefix(dir, name+"/") && len(name) > len(best) {
				best, place = name, i
			}
		}
	}
	return place, best
}

// Imports go down the list of layers.
func TestImportsRunDown(t *testing.T) {
	for _, f := range files(t) {
		if strings.HasSuffix(f.dir, "test") {
			continue // conformance suites, which may use all
		}
		from, home := layer(f.dir)
		if from < 0 {
			t.Errorf("%s: the directory is in no layer", f.dir)
			continue
		}
		for _, spec := range f.tree.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			imported, ours := strings.CutPrefix(imported, module)
			if imported = strings.TrimPrefix(imported, "/"); !ours {
				continue
			}
			to, name := layer(imported)
			if to < from || to == from && name != home {
				t.Errorf("%s/%s imports %s, which is not below it", f.dir, f.name, imported)
			}
		}
	}
}

// suite reports whether a directory is for tests: a conformance suite, the fuzzer, the emulated card or this one.
func suite(dir string) bool {
	return strings.HasSuffix(dir, "test") ||
		slices.Contains([]string{"internal/differential", "internal/architecture", "cuda/emulator"}, dir)
}

// What is for tests alone is imported by tests, and by other suites.
func TestSuitesAreForTests(t *testing.T) {
	for _, f := range files(t) {
		if suite(f.dir) {
			continue
		}
		for _, spec := range f.tree.Imports {
			imported, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module+"/")
			if ours && suite(imported) {
				t.Errorf("%s/%s imports %s, which is for tests", f.dir, f.name, imported)
			}
		}
	}
}

// Files and functions are short.
func TestFilesAndFunctionsAreShort(t *testing.T) {
	for _, f := range files(t) {
		if f.lines > mostLines {
			t.Errorf("%s/%s has %d lines, expected at most %d", f.dir, f.name, f.lines, mostLines)
		}
		for _, d := range f.tree.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			first, last := f.set.Position(fn.Pos()).Line, f.set.Position(fn.End()).Line
			if n := last - first + 1; n > mostFunction {
				t.Errorf("%s/%s: %s has %d lines, expected at most %d", f.dir, f.name, fn.Name.Name, n, mostFunction)
			}
		}
	}
}

// Rooms are small: a directory has few files.
func TestRoomsAreSmall(t *testing.T) {
	count := map[string]int{}
	for _, f := range files(t) {
		count[f.dir]++
	}
	for dir, n := range count {
		if n > mostFiles {
			t.Errorf("%s has %d files that are not tests, expected at most %d", dir, n, mostFiles)
		}
	}
}

// declared says for every type of this module, by directory and name, whether it is an interface.
func declared(all []file) map[string]bool {
	types := map[string]bool{}
	for _, f := range all {
		ast.Inspect(f.tree, func(n ast.Node) bool {
			if s, ok := n.(*ast.TypeSpec); ok {
				_, is := s.Type.(*ast.InterfaceType)
				types[f.dir+"."+s.Name.Name] = is
			}
			return true
		})
	}
	return types
}

// asserted lists the types that a file asks values for by assertions and switches, as directory and
// name, those of other packages and those of its own.
func asserted(f file) []string {
	imports := map[string]string{}
	for _, spec := range f.tree.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		if p, ours := strings.CutPrefix(p, module+"/"); ours {
			name := path.Base(p)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			imports[name] = p
		}
	}
	var found []string
	add := func(e ast.Expr) {
		if star, ok := e.(*ast.StarExpr); ok {
			e = star.X
		}
		switch e := e.(type) {
		case *ast.Ident:
			found = append(found, f.dir+"."+e.Name)
		case *ast.SelectorExpr:
			if x, ok := e.X.(*ast.Ident); ok && imports[x.Name] != "" {
				found = append(found, imports[x.Name]+"."+e.Sel.Name)
			}
		}
	}
	ast.Inspect(f.tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeAssertExpr:
			if n.Type != nil {
				add(n.Type)
			}
		case *ast.TypeSwitchStmt:
			for _, c := range n.Body.List {
				for _, e := range c.(*ast.CaseClause).List {
					add(e)
				}
			}
		}
		return true
	})
	return found
}

// No package asserts on another package's concrete type, and a package has at most one optional
// interface.
func TestKnowledgeIsAValue(t *testing.T) {
	all := files(t)
	types := declared(all)
	optional := map[string][]string{}
	for _, f := range all {
		for _, name := range asserted(f) {
			is, ours := types[name]
			home := name[:strings.LastIndex(name, ".")]
			switch {
			case !ours:
			case !is && home != f.dir:
				t.Errorf("%s/%s asserts that a value is a %s, a concrete type of another package", f.dir, f.name, name)
			case is && !slices.Contains(optional[home], name):
				optional[home] = append(optional[home], name)
			}
		}
	}
	for home, names := range optional {
		if len(names) > 1 {
			slices.Sort(names)
			t.Errorf("%s has the optional interfaces %v, expected one at most", home, names)
		}
	}
}

// The list of layers names directories that exist.
func TestLayersExist(t *testing.T) {
	for _, names := range layers {
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(root(t), filepath.FromSlash(name))); err != nil {
				t.Error(err)
			}
		}
	}
}
