package main

import (
	"os"

	"github.com/spf13/cobra"
)

// checkOverwrite refuses an output that is one of the inputs, by whatever name.
func checkOverwrite(cmd *cobra.Command) error {
	given := func(name string) (path string, info os.FileInfo) {
		flag := cmd.Flags().Lookup(name)
		if flag == nil || !flag.Changed {
			return "", nil
		}
		path = flag.Value.String()
		// A file that is not there is not overwritten, and a device holds nothing to lose.
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, info
		}
		return path, nil
	}
	for _, output := range []string{"out", "csv", "jsonl", "plot", "running"} {
		path, to := given(output)
		if to == nil {
			continue
		}
		for _, input := range []string{"data", "spec", "X", "y", "mu"} {
			if _, from := given(input); from != nil && os.SameFile(to, from) {
				return usagef("--%s is %q, the file of --%s: an output must not overwrite an input", output, path, input)
			}
		}
	}
	return nil
}
