package main

import (
	"fmt"
	"runtime"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"surepipe/array"
)

func newInfo() *cobra.Command {
	return &cobra.Command{
		Use:   "info",
		Short: "Print the version, the devices and the BLAS in use",
		Long: `Prints the version, the devices and the BLAS in use.

A native BLAS and LAPACK (OpenBLAS, MKL, Accelerate) is looked for when the program
starts and makes it several times faster. SUREPIPE_BLAS=gonum forces pure Go,
SUREPIPE_BLAS=PATH a library.`,
		Example: `  surepipe info
  SUREPIPE_BLAS=gonum surepipe info`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dev, err := openDevice("cpu")
			if err != nil {
				return err
			}
			defer dev.Close()
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintf(w, "surepipe\t%s, %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			fmt.Fprintf(w, "device\t%s, %d processors\n", dev.Name(), runtime.GOMAXPROCS(0))
			fmt.Fprintf(w, "BLAS\t%s\n", array.BLASInfo())
			return w.Flush()
		},
	}
}
