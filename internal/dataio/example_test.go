package dataio_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"surepipe/internal/dataio"
)

// A table whose column "price" is the response of a regression.
func Example() {
	table, err := dataio.ReadCSV(strings.NewReader("rooms;area;price\n3;70.5;210\n4;92;268\n"), dataio.CSVOptions{})
	if err != nil {
		panic(err)
	}
	y, x, err := table.Split("price")
	if err != nil {
		panic(err)
	}
	fmt.Println(y.Shape, y.Data)
	fmt.Println(x.Shape, x.Data, x.Columns)
	// Output:
	// [2] [210 268]
	// [2 2] [3 70.5 4 92] [rooms area]
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
