package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"surepipe/internal/figure"
	"surepipe/study"
)

// withoutEffect are flags on which no result depends, among them the names of what is written.
var withoutEffect = []string{
	"resume", "parallel", "probe-batch", "verbose", "json", "jsonl", "csv", "out", "plot", "picture", "frame",
	"running", "coefficients-csv",
}

// commandLineKey is the annotation under which a command keeps its command line.
const commandLineKey = "command-line"

// commandLine is the command with the flags that were set, quoted for a shell, but for those on which
// no result depends. With names to write to it makes the result again, in the same folder.
func commandLine(cmd *cobra.Command) string { return cmd.Annotations[commandLineKey] }

// keepCommandLine sets it when the command begins.
func keepCommandLine(cmd *cobra.Command) {
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

// provenance are the notes that a figure's file carries: what is needed to make it again, with the
// hash of the data.
func provenance(cmd *cobra.Command, dataHash string) []figure.Note {
	return []figure.Note{{Key: "Software", Text: "surepipe " + study.Version()},
		{Key: "Command", Text: commandLine(cmd)}, {Key: "Data", Text: dataHash}}
}
