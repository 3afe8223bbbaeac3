package main

import (
	"github.com/spf13/cobra"

	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/study"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "surepipe",
		Short:         "Stein's unbiased risk estimate of convex-regularized estimators",
		Long:          helpText("root"),
		Example:       helpText("root.examples"),
		Version:       study.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			cli.KeepCommandLine(cmd) // before the command changes the variables of its flags
			if err := cli.CheckEmpty(cmd); err != nil {
				return err
			}
			return cli.CheckFiles(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(cli.FlagError)
	root.SetHelpCommand(cli.NewHelp())
	root.SetVersionTemplate("surepipe {{.Version}}\n")
	run, sweep := new(runCommand).command(), new(sweepCommand).command()
	root.AddCommand(run, new(monteCarloCommand).command(), sweep, newPredict(), newGenerate(), newSpec(), newPaper(),
		newMerge(), newView(), newDenoise(), newWorker(), newInfo(), newCite(), cli.NewWarnings(), cli.NewMan())
	root.AddCommand(cli.NewTopics(topics(), run, sweep)...)
	cli.PlainNumbers(root)
	return root
}
