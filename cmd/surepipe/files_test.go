package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"surepipe/cmd/surepipe/internal/cli"
)

// eachCommand calls f with every command, and the words that call it.
func eachCommand(f func(cmd *cobra.Command, words []string)) {
	var walk func(cmd *cobra.Command, words []string)
	walk = func(cmd *cobra.Command, words []string) {
		f(cmd, words)
		for _, c := range cmd.Commands() {
			walk(c, append(slices.Clip(words), c.Name()))
		}
	}
	walk(newRoot(), nil)
}

// ofRole are the flags of a command with a role.
func ofRole(cmd *cobra.Command, r cli.Role) (names []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if cli.RoleOf(f) == r {
			names = append(names, f.Name)
		}
	})
	return names
}

// Every flag that names a file or a folder, which its help shows, has a role.
func TestFlagsOfFilesHaveRoles(t *testing.T) {
	count := 0
	eachCommand(func(cmd *cobra.Command, words []string) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			what, _ := pflag.UnquoteUsage(f)
			named := what == "file" || what == "folder"
			if count++; named != (cli.RoleOf(f) != "") {
				t.Errorf("%v --%s names a %s, and its role is %q", words, f.Name, what, cli.RoleOf(f))
			}
		})
	})
	if count < 100 {
		t.Errorf("%d flags", count)
	}
}

// No command writes two results to one file, or over a file that it reads, under any two names of that
// file: refused before anything else is looked at.
func TestNoOutputIsLost(t *testing.T) {
	dir := t.TempDir()
	there, link, hard := filepath.Join(dir, "there"), filepath.Join(dir, "link"), filepath.Join(dir, "hard")
	if err := os.WriteFile(there, []byte("here"), 0o666); err != nil {
		t.Fatal(err)
	}
	absent, dangling, folder := filepath.Join(dir, "absent"), filepath.Join(dir, "dangling"),
		filepath.Join(dir, "folder")
	for name, to := range map[string]string{link: "there", dangling: "absent", folder: "."} {
		if err := os.Symlink(to, name); err != nil {
			t.Skip(err)
		}
	}
	if err := os.Link(there, hard); err != nil {
		t.Skip(err)
	}
	t.Chdir(dir)
	refused := func(args []string, want string) {
		t.Helper()
		status, stdout, stderr := command(t, args...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: status %d, %q, expected %q", args, status, stdout+stderr, want)
		}
	}
	pairs, read := 0, 0
	eachCommand(func(cmd *cobra.Command, words []string) {
		outputs := ofRole(cmd, cli.Writes)
		for i, a := range outputs {
			for _, b := range outputs[:i] {
				pairs++
				with := func(x, y string) []string {
					return append(slices.Clip(words), "--"+a, x, "--"+b, y)
				}
				refused(with("f", "f"), fmt.Sprintf(`--%s and --%s are both "f"`, a, b))
				all := [][2]string{
					{there, hard}, {"f", "./f"}, {absent, "absent"}, {absent, dangling}, {dangling, "absent"},
					{"folder/absent", "absent"}, {there, link}, {link, "folder/there"},
				}
				if pairs > 1 {
					all = all[:1] // what names the same file does not depend on the flags
				}
				for _, names := range all {
					refused(with(names[0], names[1]), fmt.Sprintf(`--%s is %q and --%s is %q, the same file`, a,
						names[0], b, names[1]))
				}
			}
			refused(append(slices.Clip(words), "--"+a, "-"), `is "-", expected the name of a file`)
			refused(append(slices.Clip(words), "--"+a, os.DevNull), "it is not a regular file")
			for _, b := range ofRole(cmd, cli.Reads) {
				pairs++
				inputs := []string{hard, there, link, "folder/there", there + ":y"}
				if read++; read > 1 {
					inputs = inputs[:1]
				}
				for _, input := range inputs {
					refused(append(slices.Clip(words), "--"+a, "there", "--"+b, input),
						fmt.Sprintf(`--%s is "there", the file of --%s: an output must not overwrite an input`, a, b))
				}
			}
		}
	})
	if pairs < 60 {
		t.Errorf("%d pairs of flags", pairs)
	}
	refused([]string{"merge", "link", "--csv", "there"}, "a file that is read")
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 5 {
		t.Errorf("%d files are left, %v", len(entries), err)
	}
	if text, err := os.ReadFile(there); err != nil || string(text) != "here" {
		t.Errorf("a file became %q, %v", text, err)
	}
}

// What a command prints is lost neither by an output in the same file nor by a closed stream.
func TestStandardOutputIsNotLost(t *testing.T) {
	args := []string{"run", "--problem", "lasso", "--data", "../../testdata/diabetes.npz", "--lambda", "100"}
	path := filepath.Join(t.TempDir(), "fit.csv")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var stderr bytes.Buffer
	if status := execute(t.Context(), append(args, "--out", path), file, &stderr); status != exitUsage ||
		!strings.Contains(stderr.String(), "the file of standard output") {
		t.Errorf("status %d, %s", status, &stderr)
	}
	// Go's runtime opens this in the place of a closed stream.
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer null.Close()
	stderr.Reset()
	if status := execute(t.Context(), args, null, &stderr); status != exitFailure ||
		!strings.Contains(stderr.String(), "standard output is closed, and the result would be lost: expected it "+
			"open, or one of --coefficients-csv, --out") {
		t.Errorf("status %d, %s", status, &stderr)
	}
	for _, args := range [][]string{append(args, "--out", filepath.Join(t.TempDir(), "fit.csv")), {"info"},
		{"--version"}} {
		if status := execute(t.Context(), args, null, &stderr); status != exitDone {
			t.Errorf("%q: status %d, %s", args, status, &stderr)
		}
	}
	if discarded, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0); err == nil {
		defer discarded.Close()
		if status := execute(t.Context(), args, discarded, &stderr); status != exitDone {
			t.Errorf("status %d, %s", status, &stderr)
		}
	}
}
