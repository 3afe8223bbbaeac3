// Command constants doubles and halves every numeric constant of a room in turn, runs tests, and prints for each
// which test notices first. It edits the files in place and restores them: run it in a clone.
//
//	go run ./internal/architecture/constants [-skip a,b] [-only a,b] DIR PACKAGE...
//
// A constant that no test notices has no reason to have its value: it goes, or gets a test.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// constant is a numeric constant, and where its value stands in a file.
type constant struct {
	file, name, value string
	from, to          int
}

func main() {
	skip := flag.String("skip", "", "names that are not tuning constants, such as seeds")
	only := flag.String("only", "", "the only names to change")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: constants [-skip a,b] [-only a,b] DIR PACKAGE...")
		os.Exit(2)
	}
	all, err := constants(flag.Arg(0))
	if err == nil {
		for _, c := range all {
			if slices.Contains(strings.Split(*skip, ","), c.name) ||
				*only != "" && !slices.Contains(strings.Split(*only, ","), c.name) {
				continue
			}
			var seen [2]string
			for i, changed := range []string{"2*(" + c.value + ")", "(" + c.value + ")/2"} {
				if seen[i], err = c.noticed(changed, flag.Args()[1:]); err != nil {
					break
				}
			}
			fmt.Printf("| `%s` | %s | %s | %s | %s |\n", c.name, c.value, c.file, seen[0], seen[1])
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// constants are those of a folder's files that are numbers.
func constants(dir string) (all []constant, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, name, text, 0)
		if err != nil {
			return nil, err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			d, ok := n.(*ast.GenDecl)
			if !ok || d.Tok != token.CONST {
				return true
			}
			for _, s := range d.Specs {
				v := s.(*ast.ValueSpec)
				for i, value := range v.Values {
					if numeric(value) {
						from, to := set.Position(value.Pos()).Offset, set.Position(value.End()).Offset
						all = append(all, constant{name, v.Names[i].Name, string(text[from:to]), from, to})
					}
				}
			}
			return true
		})
	}
	return all, err
}

// numeric reports whether a value is made of numbers; those made of other constants change with these.
func numeric(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind == token.INT || e.Kind == token.FLOAT
	case *ast.BinaryExpr:
		return numeric(e.X) && numeric(e.Y)
	case *ast.ParenExpr:
		return numeric(e.X)
	}
	return false
}

var failure = regexp.MustCompile(`(?m)^--- FAIL: (\S+)|^FAIL\s+(\S+ \[build failed\])|^panic: (test timed out)`)

// noticed runs the tests with another value, and names the first that fails; "-" where none does.
func (c constant) noticed(value string, packages []string) (string, error) {
	text, err := os.ReadFile(c.file)
	if err != nil {
		return "", err
	}
	changed := string(text[:c.from]) + value + string(text[c.to:])
	if err := os.WriteFile(c.file, []byte(changed), 0o666); err != nil {
		return "", err
	}
	defer os.WriteFile(c.file, text, 0o666)
	for _, p := range packages {
		out, err := exec.Command("go", "test", "-short", "-failfast", "-timeout", "300s", p).CombinedOutput()
		if err == nil {
			continue
		}
		if at := failure.FindStringSubmatch(string(out)); at != nil {
			return at[1] + at[2] + at[3], nil
		}
		return "fails", nil
	}
	return "-", nil
}
