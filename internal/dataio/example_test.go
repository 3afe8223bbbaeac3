package dataio_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"surepipe/internal/dataio"
)

// A table as a spreadsheet writes it, with decimal commas and a missing value.
func Example() {
	table, err := dataio.ReadTable(strings.NewReader("rooms;area;town\n3;70,5;Bath\n4;;York\n"), dataio.TableOptions{})
	if err != nil {
		panic(err)
	}
	for _, c := range table.Columns {
		fmt.Println(c.Name, c.Values, c.Levels, c.Codes)
	}
	// Output:
	// rooms [3 4] [] []
	// area [70.5 NaN] [] []
	// town [] [Bath York] [0 1]
}

// A stack of samples, read one at a time.
func ExampleOpenStack() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "y.npy")
	if err := dataio.WriteNPY(path, dataio.Array{Shape: []int{3, 2}, Data: []float64{1, 2, 3, 4, 5, 6}}); err != nil {
		panic(err)
	}
	stack, err := dataio.OpenStack(path)
	if err != nil {
		panic(err)
	}
	defer stack.Close()
	fmt.Println(stack.Len(), "samples of shape", stack.Shape())
	if err := stack.Seek(1); err != nil {
		panic(err)
	}
	for y := make([]float64, stack.SampleLen()); ; fmt.Println(y) {
		err := stack.Next(y)
		if err == io.EOF {
			break
		}
		if err != nil {
			panic(err)
		}
	}
	// Output:
	// 3 samples of shape [2]
	// [3 4]
	// [5 6]
}
