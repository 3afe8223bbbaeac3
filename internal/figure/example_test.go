package figure_test

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"surepipe/internal/figure"
)

// SURE of a LASSO for five weights, drawn to a file.
func Example() {
	dir, err := os.MkdirTemp("", "figure")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "sweep.png")

	err = figure.Save(path, figure.Sweep{
		Title:      "LASSO, d = 2500",
		Parameter:  "λ",
		Label:      "SURE / d",
		Lambda:     []float64{1, 2, 4, 8, 16},
		SURE:       []float64{0.71, 0.55, 0.46, 0.58, 0.93},
		StdErr:     []float64{0.06, 0.06, 0.05, 0.05, 0.06},
		Divergence: []float64{640, 410, 230, 90, 20},
	})
	if err != nil {
		log.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Name(), info.Size() > 10000)
	// Output: sweep.png true
}

func ExampleFormat() {
	fmt.Println(figure.Format("sweep.SVG"))
	_, err := figure.Format("sweep.gif")
	fmt.Println(err)
	// Output:
	// svg <nil>
	// figure "sweep.gif" ends in ".gif", expected one of .png, .svg, .pdf
}

func ExampleWrite() {
	var svg bytes.Buffer
	err := figure.Write(&svg, "svg", figure.Lines{
		XLabel: "d", YLabel: "time (s)",
		Series: []figure.Series{{Name: "implicit", X: []float64{250, 500, 2500}, Y: []float64{0.01, 0.02, 0.1}}},
	})
	fmt.Println(err, bytes.Contains(svg.Bytes(), []byte(">implicit<")))
	err = figure.Write(&svg, "svg", figure.Sweep{Lambda: []float64{1, -2}, SURE: []float64{3, 4}})
	fmt.Println(err)
	// Output:
	// <nil> true
	// figure: Lambda[1] is -2, expected a positive number: its axis is logarithmic
}
