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

// Programs start and compute in an empty environment, as in a container made from scratch. Without
// cgo the program still needs the system's dynamic loader, through which it opens a native BLAS; with
// the tag static it needs nothing.
func TestProgramsStartCold(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two programs")
	}
	data, err := filepath.Abs("../../testdata/diabetes.npz")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		flags  []string
		static bool
	}{{"default", nil, false}, {"static", []string{"-tags", "static"}, true}} {
		program := filepath.Join(t.TempDir(), "surepipe")
		build := exec.Command("go", slices.Concat([]string{"build"}, c.flags, []string{"-o", program, "."})...)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v, %s", c.name, err, out)
		}
		file, err := elf.Open(program)
		if err != nil {
			t.Fatal(err)
		}
		loader := slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
		file.Close()
		if loader == c.static {
			t.Errorf("%s: the program needs the dynamic loader: %v", c.name, loader)
		}
		for args, want := range map[string]string{"info": "BLAS", "run --problem lasso --json --data " +
			data: `"divergence":7`} {
			cmd := exec.Command(program, strings.Fields(args)...)
			cmd.Env, cmd.Dir = []string{}, t.TempDir()
			out, err := cmd.Output()
			if err != nil || !strings.Contains(string(out), want) {
				t.Errorf("%s: %s: %v, %q", c.name, args, err, out)
			}
		}
	}
}
