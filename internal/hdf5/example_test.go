package hdf5_test

import (
	"fmt"
	"os"

	"surepipe/internal/hdf5"
)

func Example() {
	file, err := os.Open("../dataio/testdata/scan/chunks.h5")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		fmt.Println(err)
		return
	}
	f, err := hdf5.Open(file, info.Size())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range f.Datasets {
		a, err := d.Read()
		fmt.Println(d.Name, a.Shape, a.Complex, err)
	}
	// Output:
	// gzip [2 3 4] false <nil>
	// lzf [] false is compressed by filter 32000, expected deflate (gzip): write it with compression='gzip', or none
	// many [250] false <nil>
	// z [2 3 4] true <nil>
}
