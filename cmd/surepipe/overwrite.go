package main

import (
	"os"

	"github.com/spf13/cobra"

	"surepipe/problems"
)

// checkOverwrite rejects an output that is one of the input files, by whatever name, including the
// files that the specification names. spec may be nil.
func checkOverwrite(cmd *cobra.Command, spec *problems.Spec) error {
	var named []string
	if spec != nil {
		named = spec.Files()
	}
	given := func(name string) (path string, info os.FileInfo) {
		flag := cmd.Flags().Lookup(name)
		if flag == nil || !flag.Changed {
			return "", nil
		}
		path = flag.Value.String()
		// A file that does not exist is not overwritten, and a device has no contents to lose.
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, info
		}
		return path, nil
	}
	for _, output := range []string{"out", "csv", "jsonl", "plot", "running", "coefficients-csv"} {
		path, to := given(output)
		if to == nil {
			continue
		}
		for _, input := range []string{"data", "spec", "X", "D", "y", "mu", "fit"} {
			if _, from := given(input); from != nil && os.SameFile(to, from) {
				return usagef("--%s is %q, the file of --%s: an output must not overwrite an input", output, path, input)
			}
		}
		for _, input := range named {
			if from, err := os.Stat(input); err == nil && os.SameFile(to, from) {
				return usagef("--%s is %q, a file that %s names: an output must not overwrite an input", output, path, spec.Path)
			}
		}
	}
	return nil
}
