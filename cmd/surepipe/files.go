package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"surepipe/internal/dataio"
)

// role says what a command does with the file, or folder, that a flag names. Every such flag has one,
// as an annotation, from which [checkFiles] knows all files of a command.
type role string

const (
	reads  role = "surepipe_reads"
	writes role = "surepipe_writes"
	fills  role = "surepipe_fills" // a folder
)

// markFile gives a flag its role. Shells complete the names of files with the extensions.
func markFile(cmd *cobra.Command, r role, name string, extensions ...string) {
	cobra.CheckErr(cmd.Flags().SetAnnotation(name, string(r), nil))
	if r == fills {
		cobra.CheckErr(cmd.MarkFlagDirname(name))
	} else {
		cobra.CheckErr(cmd.MarkFlagFilename(name, extensions...))
	}
}

// roleOf is the role of a flag, "" where it names no file.
func roleOf(flag *pflag.Flag) role {
	for _, r := range []role{reads, writes, fills} {
		if _, marked := flag.Annotations[string(r)]; marked {
			return r
		}
	}
	return ""
}

// namedFile is a file that a command reads or writes, how an error describes it, and for a standard
// stream the stream.
type namedFile struct {
	what, path string
	stream     any
}

// givenFiles are the files of the flags of a role that were given. what is a format for the flag's name.
func givenFiles(cmd *cobra.Command, r role, what string) (files []namedFile) {
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if roleOf(flag) == r {
			files = append(files, namedFile{what: strings.ReplaceAll(what, "FLAG", "--"+flag.Name),
				path: flag.Value.String()})
		}
	})
	return files
}

// outputs are the files that a command writes.
func outputs(cmd *cobra.Command) []namedFile { return givenFiles(cmd, writes, "FLAG") }

// standardStream is the value of a flag that stands for standard input.
const standardStream = "-"

// checkFiles rejects an output that cannot be written, two outputs that are one file, an output that is
// an input, by whatever names, and a command whose result would go nowhere. It is called before every
// command.
func checkFiles(cmd *cobra.Command, args []string) error {
	inputs, out := givenFiles(cmd, reads, "the file of FLAG"), outputs(cmd)
	for i, f := range out {
		if f.path == standardStream {
			return usagef("%s is %q, expected the name of a file: what has no file goes to standard output",
				f.what, f.path)
		}
		if err := dataio.CheckWritable(f.path); err != nil {
			return usagef("%s is %q: %w", f.what, f.path, err)
		}
		for _, other := range out[:i] {
			switch {
			case f.path == other.path:
				return usagef("%s and %s are both %q", other.what, f.what, f.path)
			case dataio.SameFile(f.path, other.path):
				return usagef("%s is %q and %s is %q, the same file", other.what, other.path, f.what, f.path)
			}
		}
	}
	for _, path := range args {
		inputs = append(inputs, namedFile{what: "a file that is read", path: path})
	}
	for k, f := range inputs {
		if f.path == standardStream {
			inputs[k].stream = cmd.InOrStdin()
		}
	}
	inputs = append(inputs, namedFile{what: "the file of standard output", stream: cmd.OutOrStdout()},
		namedFile{what: "the file of standard error", stream: cmd.ErrOrStderr()})
	if err := checkOverwrite(cmd, inputs); err != nil {
		return err
	}
	return checkHeard(cmd)
}

// checkOverwrite rejects an output that is one of the given files, which the command reads, or where
// what it prints goes.
func checkOverwrite(cmd *cobra.Command, used []namedFile) error {
	for _, output := range outputs(cmd) {
		to, err := os.Stat(output.path)
		if err != nil {
			continue // what does not exist is not overwritten
		}
		for _, f := range used {
			if slices.ContainsFunc(f.infos(), func(from os.FileInfo) bool { return os.SameFile(from, to) }) {
				return usagef("%s is %q, %s: an output must not overwrite an input or another output",
					output.what, output.path, f.what)
			}
		}
	}
	return nil
}

// infos are those of the regular files that exist under the name: a device has no contents to lose.
func (f namedFile) infos() (found []os.FileInfo) {
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
	if kept, wrapped := stream.(*keptError); wrapped {
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
		if r := roleOf(flag); r == writes || r == fills {
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

// checkNamed rejects an output that is a file that the specification names.
func (f *estimatorFlags) checkNamed(cmd *cobra.Command) error {
	if f.Specification == nil {
		return nil
	}
	var named []namedFile
	for _, path := range f.Specification.Files() {
		named = append(named, namedFile{what: "a file that " + f.Specification.Path + " names", path: path})
	}
	return checkOverwrite(cmd, named)
}
