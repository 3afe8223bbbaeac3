package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/images"
	"surepipe/internal/dataio/ndarray"
)

// lossesOf are the true loss at SURE's minimizer, and the least on the grid, of a sweep's JSON.
func lossesOf(t *testing.T, stdout string) (chosen, best float64) {
	t.Helper()
	best = math.Inf(1)
	for text := range strings.Lines(stdout) {
		var line struct {
			Stage     string
			Loss      float64
			Minimizer *struct{ Loss float64 }
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		switch {
		case line.Minimizer != nil:
			chosen = line.Minimizer.Loss
		case line.Stage == "grid" || line.Stage == "refine":
			best = math.Min(best, line.Loss)
		}
	}
	return chosen, best
}

// A photograph with noise at two levels, denoised by two commands: the lambda of least SURE has a
// loss within 3% of the best lambda's, and so has lambda = 1, the thresholds of least SURE.
func TestSweepDenoisesAPhotograph(t *testing.T) {
	const photograph = "../../testdata/camera.png"
	dir := t.TempDir()
	yaml := example(t, dir, "wavelet-denoise")
	data, plot, out := filepath.Join(dir, "noisy.tif"), filepath.Join(dir, "plot.png"), filepath.Join(dir, "clean.tif")
	for _, sigma := range []float64{0.05, 0.2} {
		if status, _, stderr := command(t, "generate", "--from", photograph, "--sigma", fmt.Sprint(sigma), "--seed",
			"1", "--out", data); status != exitDone {
			t.Fatal(stderr)
		}
		sigma2 := fmt.Sprint(sigma * sigma)
		status, stdout, stderr := command(t, "sweep", "--spec", yaml, "--data", data, "--mu", photograph,
			"--sigma2", sigma2, "--lambda", "0.5:2:3", "--refine", "2", "--json", "--plot", plot, "--out", out)
		if status != exitDone {
			t.Fatalf("status %d, %s", status, stderr)
		}
		chosen, best := lossesOf(t, stdout)
		one := object(t, "run", "--spec", yaml, "--data", data, "--mu", photograph, "--sigma2",
			sigma2)["loss"].(float64)
		t.Logf("sigma %g: loss %.4g at SURE's minimizer, %.4g at best, %.4g at lambda = 1", sigma, chosen, best, one)
		if !(chosen <= 1.03*best && one <= 1.03*best) {
			t.Errorf("sigma %g: SURE's minimizer has loss %g, lambda = 1 %g, the best lambda %g", sigma, chosen, one,
				best)
		}
	}
	clean := readOnly(t, out)
	if clean.Depth != (dataio.Depth{Bits: 32, Float: true}) {
		t.Errorf("the estimate is written with depth %+v", clean.Depth)
	}
	if picture := readOnly(t, plot); len(picture.Data) == 0 {
		t.Error("no plot")
	}
}

// Images from which no noisy one can be made: see TestKindsOfBadInput for bad ones as y.
func TestGenerateRefusesBadImages(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, depth dataio.Depth, a dataio.Array) string {
		path := filepath.Join(dir, name)
		if _, err := dataio.WriteImage(path, func(w io.Writer) (int,
			error) {
			return images.EncodeTIFF(w, a, depth)
		}); err != nil {
			t.Fatal(err)
		}
		return path
	}
	four := filepath.Join(dir, "four.npy")
	if err := dataio.WriteNPY(four, floats("y", make([]float64, 16), 2, 2, 2, 2)); err != nil {
		t.Fatal(err)
	}
	nan := text(t, "nan.tif", "II*\x00\x08\x00\x00\x00\x06\x00"+
		"\x00\x01\x04\x00\x01\x00\x00\x00\x01\x00\x00\x00"+"\x01\x01\x04\x00\x01\x00\x00\x00\x01\x00\x00\x00"+
		"\x02\x01\x03\x00\x01\x00\x00\x00\x20\x00\x00\x00"+"\x11\x01\x04\x00\x01\x00\x00\x00\x56\x00\x00\x00"+
		"\x17\x01\x04\x00\x01\x00\x00\x00\x04\x00\x00\x00"+"\x53\x01\x03\x00\x01\x00\x00\x00\x03\x00\x00\x00"+
		"\x00\x00\x00\x00"+"\x00\x00\xc0\x7f")
	small := file("small.tif", dataio.Depth{Bits: 8}, floats("y", make([]float64, 4), 2, 2))
	for _, c := range []struct{ args, want string }{
		{"--sigma 0.1 --out a.npz", "--from is missing"},
		{"--from " + small + " --out a.npz", "--sigma is 0, expected"},
		{"--from " + small + " --sigma 0.1", "--out is missing"},
		{"--from " + small + " --sigma 0.1 --out a.jpg", "this format's compression removes noise"},
		{"--from " + small + " --sigma 0.1 --out " + small, "an output must not overwrite an input"},
		{"--from " + small + " --sigma 0.1 --d 4 --out a.npz", "--d does not go with --from"},
		{"--from " + nan + " --sigma 0.1 --out a.npz", "holds NaN"},
		{"--from " + four + " --sigma 0.1 --out a.png", "an image is a matrix, or (rows, columns, 3)"},
	} {
		status, stdout, stderr := command(t, append([]string{"generate"}, strings.Fields(c.args)...)...)
		if status != exitUsage || stdout != "" || strings.Count(stderr, "\n") != 1 ||
			!strings.Contains(stderr, c.want) {
			t.Errorf("generate %s: status %d, expected %q in one line, found %q%q", c.args, status, c.want, stdout,
				stderr)
		}
	}
}

// Frames go in and come out as (f, h, w), from .npy and .npz alike, with the result of the same
// matrix; a column (d, 1) is a vector.
func TestFramesAndColumns(t *testing.T) {
	dir := t.TempDir()
	const f, h, w = 6, 4, 5
	y := floats("y", make([]float64, f*h*w), f, h, w)
	matrix := floats("y", make([]float64, f*h*w), h*w, f)
	for i := range y.Data {
		y.Data[i] = math.Sin(float64(i * i))
		matrix.Data[i%(h*w)*f+i/(h*w)] = y.Data[i]
	}
	npy, npz, flat := filepath.Join(dir, "y.npy"), filepath.Join(dir, "y.npz"), filepath.Join(dir, "flat.npz")
	for _, err := range []error{dataio.WriteNPY(npy, y), dataio.WriteNPZ(npz, y), dataio.WriteNPZ(flat, matrix)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := 0.0
	for _, data := range []string{flat, npy, npz} {
		out := filepath.Join(dir, "out.npz")
		o := object(t, "run", "--problem", "robust-pca", "--data", data, "--sigma2", "0.1", "--lambda", "0.3max",
			"--gamma", "0.3max", "--out", out)
		if want == 0 {
			want = o["sure"].(float64)
			continue
		}
		if o["sure"] != want {
			t.Errorf("%s: SURE %v, want %v", data, o["sure"], want)
		}
		set, err := dataio.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		b, err := set.Floats("b")
		set.Close()
		if err != nil || ndarray.ShapeString(b.Shape) != "(2, 6, 4, 5)" {
			t.Errorf("%s: b has shape %v, %v", data, b.Shape, err)
		}
	}
	column := filepath.Join(dir, "column.npz")
	x := floats("X", make([]float64, 12), 6, 2)
	for i := range x.Data {
		x.Data[i] = math.Cos(float64(i))
	}
	if err := dataio.WriteNPZ(column, x, floats("y", y.Data[:6], 6, 1), floats("mu", y.Data[6:12], 6, 1)); err != nil {
		t.Fatal(err)
	}
	if o := object(t, "run", "--problem", "lasso", "--data", column, "--sigma2", "1", "--lambda",
		"0.1"); o["d"] != 6.0 || o["loss"] == nil {
		t.Errorf("%v", o)
	}
}

// Integers of a numpy file are an image, scaled and written back as integers.
func TestIntegersAreImages(t *testing.T) {
	dir := t.TempDir()
	yaml := example(t, dir, "wavelet-denoise")
	data, out := filepath.Join(dir, "y.npy"), filepath.Join(dir, "out.npy")
	photo := readOnly(t, "../../testdata/camera.png")
	if _, err := dataio.WriteImage(data, func(w io.Writer) (int, error) {
		return dataio.EncodeNPYOfDepth(w, photo,
			8)
	}); err != nil {
		t.Fatal(err)
	}
	o := object(t, "run", "--spec", yaml, "--data", data, "--mu", "../../testdata/camera.png", "--sigma2", "1e-4",
		"--out", out)
	if written := readOnly(t, out); written.Depth.Bits != 8 || o["loss"].(float64) > 1e-3*float64(len(photo.Data)) {
		t.Errorf("depth %+v, loss %v", written.Depth, o["loss"])
	}
}
