package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"surepipe/study/draw"
)

// WithoutEffect reports whether no result depends on a flag, such as the name of what is written.
func WithoutEffect(f *pflag.Flag) bool {
	r := RoleOf(f)
	return r == Writes || r == Fills ||
		slices.Contains([]string{"resume", "parallel", "probe-batch", "verbose", "json", "frame"}, f.Name)
}

// The annotations under which a command keeps its command line, and that of Python.
const (
	commandLineKey = "command-line"
	pythonKey      = "python-line"
)

// CommandLine is the command with the flags that were set, quoted for a shell, but for those on which
// no result depends. With names to write to it makes the result again, in the same folder.
func CommandLine(cmd *cobra.Command) string { return cmd.Annotations[commandLineKey] }

// KeepCommandLine sets it when the command begins.
func KeepCommandLine(cmd *cobra.Command) {
	words := []string{cmd.CommandPath()}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		switch {
		case WithoutEffect(f):
		case f.Value.Type() == "bool" && value == "true":
			words = append(words, "--"+f.Name)
		case f.Value.Type() == "bool":
			words = append(words, "--"+f.Name+"="+value)
		default:
			words = append(words, "--"+f.Name, shellWord(value))
		}
	})
	cmd.Annotations = map[string]string{commandLineKey: strings.Join(words, " "), pythonKey: pythonLine(cmd)}
}

// PythonLine is the line of Python that makes the same with the package surepipe, "" where there is none.
func PythonLine(cmd *cobra.Command) string { return cmd.Annotations[pythonKey] }

func pythonLine(cmd *cobra.Command) string {
	verb := cmd.Name()
	if verb != "run" && verb != "sweep" || cmd.Flags().Changed("exec") {
		return ""
	}
	var first, rest []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		value := strconv.Quote(f.Value.String())
		if list, ok := f.Value.(pflag.SliceValue); ok {
			value = fmt.Sprintf("%q", list.GetSlice())
			value = strings.ReplaceAll(value, `" "`, `", "`)
		}
		switch f.Value.Type() {
		case "bool":
			value = map[string]string{"true": "True", "false": "False"}[f.Value.String()]
		case "int", "uint64", "float64":
			value = f.Value.String()
		}
		switch key := strings.ReplaceAll(strings.Replace(f.Name, "lambda", "lam", 1), "-", "_"); {
		case WithoutEffect(f) || f.Name == "explain":
		case key == "problem":
			first = []string{value}
		default:
			rest = append(rest, key+"="+value)
		}
	})
	return "import surepipe; found = surepipe." + verb + "(" + strings.Join(append(first, rest...), ", ") + ")"
}

func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+.,:/@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Origin is what a figure's file carries: what is needed to make it again, with the hash of the data.
func Origin(cmd *cobra.Command, dataHash string) draw.Origin {
	return draw.Origin{Command: CommandLine(cmd), Data: dataHash}
}
