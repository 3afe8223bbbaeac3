//go:build linux

package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Programs start and compute in an empty environment, as in a container made from scratch. Without cgo the program still
// needs the system's dynamic loader, through which it opens a native BLAS; with the tag static it needs nothing: what
// needs the loader is then no part of it, as is seen of the package that opens the BLAS.
func TestProgramsStartCold(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two programs")
	}
	data, err := filepath.Abs("../../testdata/diabetes.npz")
	if err != nil {
		t.Fatal(err)
	}
	run := func(name, dir string, args ...string) string {
		cmd := exec.Command(name, args...)
		cmd.Env, cmd.Dir = []string{}, dir
		if name == "go" {
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v, %s", name, args, err, out)
		}
		return string(out)
	}
	loader := func(program string) bool {
		file, err := elf.Open(program)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		return slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	}
	program, static := filepath.Join(t.TempDir(), "surepipe"), filepath.Join(t.TempDir(), "static")
	run("go", ".", "build", "-o", program, ".")
	if !loader(program) {
		t.Error("the program has no dynamic loader to open a BLAS with")
	}
	for args, want := range map[string]string{"info": "BLAS",
		"run --problem lasso --json --data " + data: `"divergence":7`} {
		if out := run(program, t.TempDir(), strings.Fields(args)...); !strings.Contains(out, want) {
			t.Errorf("%s: %q", args, out)
		}
	}
	const opens = "github.com/ebitengine/purego"
	if !strings.Contains(run("go", ".", "list", "-deps", "."), opens) ||
		strings.Contains(run("go", ".", "list", "-deps", "-tags", "static", "."), opens) {
		t.Errorf("%s is to be a part of the program, and with the tag static none", opens)
	}
	run("go", ".", "test", "-vet=off", "-c", "-tags", "static", "-o", static, "../../array/internal/native")
	if loader(static) {
		t.Error("static: the program needs the dynamic loader")
	}
	run(static, t.TempDir())
}
