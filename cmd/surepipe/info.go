package main

import (
	"fmt"
	"runtime"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"surepipe/array"
	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/study"
	"surepipe/study/request"
)

func newInfo() *cobra.Command {
	return &cobra.Command{
		Use:   "info",
		Short: "Print the version, the devices and the BLAS in use",
		Long:  helpText("info"),
		Example: `  surepipe info
  SUREPIPE_BLAS=gonum surepipe info`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dev, err := request.OpenDevice(cmd.Context(), "cpu", 0)
			if err != nil {
				return err
			}
			defer dev.Close()
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintf(w, "surepipe\t%s, %s %s/%s\n", study.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			fmt.Fprintf(w, "device\t%s, %d processors\n", dev.Name(), runtime.GOMAXPROCS(0))
			cards, err := array.Cards()
			if err != nil {
				fmt.Fprintf(w, "device\tno card: %v\n", err)
			}
			for _, c := range cards {
				fmt.Fprintf(w, "device\t%s, %s, %s of %s free, driver %s\n", c.Name, c.Model,
					humanize.IBytes(uint64(c.Free)), humanize.IBytes(uint64(c.Memory)), c.Driver)
			}
			if err == nil && len(cards) == 0 && len(array.Kinds()) > 1 {
				fmt.Fprintf(w, "device\tno card found\n")
			}
			fmt.Fprintf(w, "BLAS\t%s\n", array.BLASInfo())
			if k := array.BLASInfo().Kernels(); k != "" {
				fmt.Fprintf(w, "kernels\t%s\n", k)
			}
			return w.Flush()
		},
	}
}
