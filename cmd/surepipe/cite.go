package main

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/study"
)

// citations are the works that the results rest on, and what each is the source of, in BibTeX.
//
//go:embed text/surepipe.bib
var citations string

func newCite() *cobra.Command {
	return &cobra.Command{
		Use:   "cite",
		Short: "Print how to cite the program and its methods",
		Long: `Prints references in BibTeX: the program at this version, the method, and the source of
each quantity that the results name.`,
		Example: "  surepipe cite > surepipe.bib",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), strings.ReplaceAll(citations, "<<version>>", study.Version()))
			return err
		},
	}
}
