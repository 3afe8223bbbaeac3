package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"surepipe/study/draw"
)

// withoutEffect are flags on which no result depends, among them the names of what is written.
var withoutEffect = []string{
	"resume", "parallel", "probe-batch", "verbose", "json", "jsonl", "csv", "out", "plot", "picture", "frame",
	"running", "coefficients-csv",
}

// commandLineKey is the annotation under which a command keeps its command line.
const commandLineKey = "command-line"

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
		case slices.Contains(withoutEffect, f.Name):
		case f.Value.Type() == "bool" && value == "true":
			words = append(words, "--"+f.Name)
		case f.Value.Type() == "bool":
			words = append(words, "--"+f.Name+"="+value)
		default:
			words = append(words, "--"+f.Name, shellWord(value))
		}
	})
	cmd.Annotations = map[string]string{commandLineKey: strings.Join(words, " ")}
}

// shellWord quotes a word where a shell would change it.
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
