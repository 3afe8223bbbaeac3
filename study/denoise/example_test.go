package denoise_test

import (
	"context"
	"fmt"

	"surepipe/study/denoise"
)

// A file that is missing is bad input.
func ExampleRun() {
	_, err := denoise.Run(context.Background(), denoise.Request{Data: "missing.nii.gz",
		Outputs: denoise.Outputs{Out: "clean.nii.gz", DF: "df.nii.gz"}})
	fmt.Println(err)
	// Output: missing.nii.gz: no such file or directory
}
