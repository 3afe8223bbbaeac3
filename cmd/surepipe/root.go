package main

import (
	"github.com/spf13/cobra"

	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/study"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "surepipe",
		Short: "Stein's unbiased risk estimate of convex-regularized estimators",
		Long:  helpText("root"),
		Example: `  surepipe generate --problem matrix-completion --rows 200 --cols 100 --out mc.npz
  surepipe run --problem matrix-completion --data mc.npz
  surepipe run --problem lasso --data testdata/diabetes.npz --lambda 0.1max --json
  surepipe run --spec denoise.yaml --data noisy.png --sigma2 auto --out clean.png
  surepipe montecarlo --problem matrix-completion --data mc.npz --samples 100
  surepipe sweep --problem matrix-completion --data mc.npz --lambda 0.05max:2max:40 --plot sure.png`,
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
