// Package dataiotest seeds fuzz tests with numpy's files.
package dataiotest

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// maxSeed is the size of the files that are worth mutating, in bytes.
const maxSeed = 4096

// Seed adds the files that match the pattern of [filepath.Glob] to f's corpus, and each member of
// those that are archives, because a mutated archive fails its checksum. It fails if no file
// matches.
func Seed(f *testing.F, pattern string) {
	f.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		f.Fatalf("%d files match %s: %v", len(files), pattern, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if len(data) > maxSeed {
			continue
		}
		f.Add(data)
		z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			continue
		}
		for _, entry := range z.File {
			var array bytes.Buffer
			if r, err := entry.Open(); err == nil {
				array.ReadFrom(r)
				r.Close()
			}
			f.Add(array.Bytes())
		}
	}
}
