package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"surepipe/problems"
	"surepipe/study"
)

func newSpec() *cobra.Command {
	return &cobra.Command{
		Use:       "spec [name]",
		Short:     "Print a specification to start from, or list them",
		Long:      helpText("spec") + "\n\n" + problems.SpecHelp(),
		Example:   helpText("spec.examples"),
		ValidArgs: problems.SpecNames(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return study.Errorf("surepipe spec takes one name, found %d", len(args))
			}
			return nil
		},
		RunE: printSpec,
	}
}

func printSpec(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 3, ' ', 0)
		for _, name := range problems.SpecNames() {
			fmt.Fprintf(w, "%s\t%s\n", name, problems.SpecSummary(name))
		}
		return w.Flush()
	}
	text, err := problems.SpecExample(args[0])
	if err != nil {
		return study.Bad(err)
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), text)
	return err
}
