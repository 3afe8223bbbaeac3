package main

import (
	"strings"
	"testing"
)

// The arrays of MATLAB, HDF5 and NIfTI files serve named problems and specifications.
func TestFilesOfOtherProgramsAreData(t *testing.T) {
	const scans = "../../internal/dataio/testdata/scan/"
	var want any
	for _, data := range []string{"v5.mat:m", "v5z.mat:m", "v73.mat:m", "plain.h5:a/b/deep", "latest.h5:m"} {
		o := object(t, "run", "--problem", "svt", "--data", scans+data, "--lambda", "1", "--sigma2", "1")
		if want == nil {
			want = o["sure"]
		}
		if o["sure"] != want || o["d"] != 12.0 {
			t.Errorf("%s: %v, want sure %v", data, o, want)
		}
	}
	for args, want := range map[string]string{
		"--data " + scans + "v5.mat":                                     `array "y" is missing`,
		"--data " + scans + "v5.mat:z":                                   "complex numbers, expected real ones",
		"--data " + scans + "c8.nii":                                     "complex numbers, expected real ones",
		"--data " + scans + "v5.mat:int":                                 `did you mean "ints"`,
		"--data " + scans + "latest.h5:m --y " + scans + "chunks.h5:lzf": "filter 32000",
	} {
		status, _, stderr := command(t, append([]string{"run", "--problem", "svt", "--lambda", "1"}, strings.Fields(args)...)...)
		if status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s, want %q", args, status, stderr, want)
		}
	}
}
