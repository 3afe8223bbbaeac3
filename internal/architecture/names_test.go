package architecture_test

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// public are the packages that others can import, by the types of their export data.
func public(t *testing.T) (all []*types.Package) {
	t.Helper()
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./...")
	list.Dir = root(t)
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	export := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		export[path] = file
	}
	from := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(export[path])
	})
	for path, file := range export {
		ours := path == module || strings.HasPrefix(path, module+"/")
		if file == "" || !ours || hidden(path) || strings.HasPrefix(path, module+"/cmd/") {
			continue
		}
		p, err := from.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// hidden reports whether a package cannot be imported from outside.
func hidden(path string) bool { return strings.Contains("/"+path+"/", "/internal/") }

// mentions lists the types without a name outside that a type mentions: of packages that cannot be imported, or
// unexported, unless an alias names them.
type mentions struct {
	named map[*types.TypeName]bool // by an alias of a public package
	found []string
	seen  map[types.Type]bool
}

func (m *mentions) in(t types.Type) {
	if m.seen[t] {
		return
	}
	m.seen[t] = true
	switch t := t.(type) {
	case *types.Alias:
		m.in(types.Unalias(t))
	case *types.Named:
		for arg := range t.TypeArgs().Types() {
			m.in(arg)
		}
		o := t.Obj()
		if o.Pkg() == nil || m.named[o] {
			return
		}
		if path := o.Pkg().Path(); !o.Exported() || hidden(path) && strings.HasPrefix(path, module) {
			m.found = append(m.found, o.Pkg().Path()+"."+o.Name())
		}
	case interface{ Elem() types.Type }:
		if key, ok := t.(interface{ Key() types.Type }); ok {
			m.in(key.Key())
		}
		m.in(t.Elem())
	case *types.Signature:
		for _, list := range []*types.Tuple{t.Params(), t.Results()} {
			for v := range list.Variables() {
				m.in(v.Type())
			}
		}
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() {
				m.in(f.Type())
			}
		}
	case *types.Interface:
		for f := range t.ExplicitMethods() {
			if f.Exported() {
				m.in(f.Type())
			}
		}
	}
}

// The front door is small.
func TestTheFrontDoorIsSmall(t *testing.T) {
	const most = 60
	n := 0
	for _, p := range public(t) {
		for _, name := range p.Scope().Names() {
			if p.Path() == module && token.IsExported(name) {
				n++
			}
		}
	}
	if n == 0 || n > most {
		t.Errorf("the root package has %d exported names, expected at most %d", n, most)
	}
	t.Logf("%d names", n)
}

// No exported name of a package mentions a type that its users cannot name.
func TestTypesCanBeNamed(t *testing.T) {
	packages := public(t)
	named := map[*types.TypeName]bool{}
	aliased := func(o types.Object) *types.Named {
		if n, ok := o.(*types.TypeName); ok && n.IsAlias() {
			of, _ := types.Unalias(n.Type()).(*types.Named)
			return of
		}
		return nil
	}
	each := func(f func(p *types.Package, o types.Object)) {
		for _, p := range packages {
			for _, name := range p.Scope().Names() {
				if o := p.Scope().Lookup(name); o.Exported() {
					f(p, o)
				}
			}
		}
	}
	each(func(_ *types.Package, o types.Object) {
		if of := aliased(o); of != nil {
			named[of.Obj()] = true
		}
	})
	var wrong []string
	each(func(p *types.Package, o types.Object) {
		m := &mentions{named: named, seen: map[types.Type]bool{}}
		of, isNamed := o.Type().(*types.Named)
		switch _, isType := o.(*types.TypeName); {
		case aliased(o) != nil && hidden(aliased(o).Obj().Pkg().Path()): // a name alone
		case isType && isNamed:
			if _, opaque := of.Underlying().(*types.Signature); !opaque {
				m.in(of.Underlying())
			}
			for method := range of.Methods() {
				if method.Exported() {
					m.in(method.Type())
				}
			}
		default:
			m.in(o.Type())
		}
		for _, f := range m.found {
			wrong = append(wrong, fmt.Sprintf("%s.%s mentions %s", p.Path(), o.Name(), f))
		}
	})
	slices.Sort(wrong)
	for _, w := range slices.Compact(wrong) {
		t.Errorf("%s, which has no name outside", w)
	}
}
