package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/lists"
	"surepipe/risk/warning"
	"surepipe/study"
)

var severities = []string{
	warning.Note:    "to know: the numbers stand",
	warning.Caution: "caution: an assumption is in doubt, or something is missing; exit status 0",
	warning.Doubt:   "doubt: the numbers are not to be trusted; exit status 3",
}

func NewWarnings() *cobra.Command {
	markdown := false
	cmd := &cobra.Command{
		Use:   "warnings [code ...]",
		Short: "Explain the codes of warnings",
		Long: `Says what each warning means, and what can be done. Warnings are printed on standard
error, and stand under warnings in the JSON, each with its code. With codes it explains
these alone.`,
		Example: `  surepipe warnings
  surepipe warnings gcv-leverages correlated`,
		ValidArgs: codes(),
		RunE: func(cmd *cobra.Command, args []string) error {
			kinds := warning.Kinds()
			for _, a := range args {
				if warning.Find(a) == nil {
					return study.Errorf("no warning has the code %q%s; see surepipe warnings", a,
						ndarray.Meant(a, codes()))
				}
			}
			if len(args) > 0 {
				kinds = slices.DeleteFunc(kinds, func(k *warning.Kind) bool { return !slices.Contains(args, k.Code) })
			}
			if markdown {
				_, err := io.WriteString(cmd.OutOrStdout(), warningTable(kinds))
				return err
			}
			return explain(cmd.OutOrStdout(), kinds)
		},
	}
	Bind(cmd, Flag{Name: "markdown", To: &markdown, Usage: "print the table of docs/trust.md"})
	return cmd
}

func codes() []string {
	return lists.Map(warning.Kinds(), func(k *warning.Kind) string { return k.Code })
}

func explain(w io.Writer, kinds []*warning.Kind) error {
	for i, k := range kinds {
		text := k.Says
		if k.Do != "" {
			text += ". To do: " + k.Do
		}
		heading := ""
		if i == 0 || kinds[i-1].Severity != k.Severity {
			heading = severities[k.Severity] + "\n\n"
		}
		words := strings.Fields(strings.ReplaceAll(text, "`", "") + ".")
		if _, err := fmt.Fprintf(w, "%s%s\n%s\n", heading, k.Code, Hanging(" ", words, 88)); err != nil {
			return err
		}
	}
	return nil
}

func warningTable(kinds []*warning.Kind) string {
	var b strings.Builder
	b.WriteString("| warning | exit | what it says | what to do |\n| --- | --- | --- | --- |\n")
	for _, k := range kinds {
		status := 0
		if k.Severity == warning.Doubt {
			status = 3
		}
		fmt.Fprintf(&b, "| `%s` | %d | %s | %s |\n", k.Code, status, k.Says, k.Do)
	}
	return b.String()
}
