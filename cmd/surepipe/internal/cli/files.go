package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"surepipe/internal/dataio"
	"surepipe/study"
)

// Role says what a command does with the file, or folder, that a flag names. Every such flag has one,
// as an annotation, from which [CheckFiles] knows all files of a command.
type Role string

const (
	Reads  Role = "surepipe_reads"
	Writes Role = "surepipe_writes"
	Fills  Role = "surepipe_fills" // a folder
)

// markFile gives a flag its role. Shells complete the names of files with the extensions.
func markFile(cmd *cobra.Command, r Role, name string, extensions ...string) {
	cobra.CheckErr(cmd.Flags().SetAnnotation(name, string(r), nil))
	if r == Fills {
		cobra.CheckErr(cmd.MarkFlagDirname(name))
	} else {
		cobra.CheckErr(cmd.MarkFlagFilename(name, extensions...))
	}
}

// RoleOf is the role of a flag, "" where it names no file.
func RoleOf(flag *pflag.Flag) Role {
	for _, r := range []Role{Reads, Writes, Fills} {
		if _, marked := flag.Annotations[string(r)]; marked {
			return r
		}
	}
	return ""
}

// NamedFile is a file that a command reads or writes, how an error describes it, and for a standard
// stream the stream.
type NamedFile struct {
	what, path string
	stream     any
}

func Named(what, path string) NamedFile { return NamedFile{what: what, path: path} }

// givenFiles are the files of the flags of a role that were given. what is a format for the flag's name.
func givenFiles(cmd *cobra.Command, r Role, what string) (files []NamedFile) {
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if RoleOf(flag) == r {
			files = append(files, NamedFile{what: strings.ReplaceAll(what, "FLAG", "--"+flag.Name),
				path: flag.Value.String()})
		}
	})
	return files
}

func Outputs(cmd *cobra.Command) []NamedFile { return givenFiles(cmd, Writes, "FLAG") }

// standardStream is the value of a flag that stands for standard input.
const standardStream = "-"

// CheckFiles rejects an output that cannot be written, two outputs that are one file, an output that is
// an input, by whatever names, and a command whose result would go nowhere. It is called before every
// command.
func CheckFiles(cmd *cobra.Command, args []string) error {
	inputs, out := givenFiles(cmd, Reads, "the file of FLAG"), Outputs(cmd)
	for i, f := range out {
		if f.path == standardStream {
			return study.Errorf("%s is %q, expected the name of a file: what has no file goes to standard output",
				f.what, f.path)
		}
		if err := dataio.CheckWritable(f.path); err != nil {
			return study.Errorf("%s is %q: %w", f.what, f.path, err)
		}
		for _, other := range out[:i] {
			switch {
			case f.path == other.path:
				return study.Errorf("%s and %s are both %q", other.what, f.what, f.path)
			case dataio.SameFile(f.path, other.path):
				return study.Errorf("%s is %q and %s is %q, the same file", other.what, other.path, f.what, f.path)
			}
		}
	}
	for _, path := range args {
		inputs = append(inputs, NamedFile{what: "a file that is read", path: path})
	}
	for k, f := range inputs {
		if f.path == standardStream {
			inputs[k].stream = cmd.InOrStdin()
		}
	}
	inputs = append(inputs, NamedFile{what: "the file of standard output", stream: cmd.OutOrStdout()},
		NamedFile{what: "the file of standard error", stream: cmd.ErrOrStderr()})
	if err := CheckOverwrite(cmd, inputs); err != nil {
		return err
	}
	return checkHeard(cmd)
}

// CheckOverwrite rejects an output that is one of the given files, which the command reads, or where
// what it prints goes.
func CheckOverwrite(cmd *cobra.Command, used []NamedFile) error {
	for _, output := range Outputs(cmd) {
		to, err := os.Stat(output.path)
		if err != nil {
			continue // what does not exist is not overwritten
		}
		for _, f := range used {
			if slices.ContainsFunc(f.infos(), func(from os.FileInfo) bool { return os.SameFile(from, to) }) {
				return study.Errorf("%s is %q, %s: an output must not overwrite an input or another output",
					output.what, output.path, f.what)
			}
		}
	}
	return nil
}

// infos are those of the regular files that exist under the name: a device has no contents to lose.
func (f NamedFile) infos() (found []os.FileInfo) {
	if f.stream != nil {
		if file, ok := fileOf(f.stream); ok {
			if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
				found = append(found, info)
			}
		}
		return found
	}
	for _, path := range dataio.FilesOf(f.path) {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			found = append(found, info)
		}
	}
	return found
}

// fileOf is the file of a standard stream, which is another one in tests.
func fileOf(stream any) (f *os.File, ok bool) {
	if kept, wrapped := stream.(*KeptError); wrapped {
		stream = kept.Writer
	}
	f, ok = stream.(*os.File)
	return f, ok
}

// checkHeard rejects a command whose result would go nowhere: standard output is closed, and no flag
// names a file for it.
func checkHeard(cmd *cobra.Command) error {
	var flags []string
	given := false
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if r := RoleOf(flag); r == Writes || r == Fills {
			flags, given = append(flags, "--"+flag.Name), given || flag.Changed
		}
	})
	file, ok := fileOf(cmd.OutOrStdout())
	if flags == nil || given || !ok || !closed(file) {
		return nil
	}
	return fmt.Errorf("standard output is closed, and the result would be lost: expected it open, or one "+
		"of %s", strings.Join(flags, ", "))
}
