package main

import (
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/images"
	"surepipe/internal/dataio/ndarray"
)

// Counts are the integers of a file, whatever its format, where the noise is Poisson's.
func TestCountsOfImageFiles(t *testing.T) {
	dir := t.TempDir()
	counts, scaled := floats("y", make([]float64, 54), 6, 9), floats("y", make([]float64, 54), 6, 9)
	for i := range counts.Data {
		counts.Data[i] = math.Round(20 + 15*math.Sin(float64(i)))
		scaled.Data[i] = counts.Data[i] / 65535
	}
	spec := filepath.Join(dir, "s.yaml")
	if err := os.WriteFile(spec, []byte("data: d.npy\noperator: identity\nnoise: anscombe\nterms: [{operator: "+
		"gradient, regularizer: {joint-l2: 0.5}}]\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	writes := map[string]func() error{
		"f.npy": func() error { return dataio.WriteNPY(path("f.npy"), counts) },
		"u.npy": func() error {
			_, err := dataio.WriteImage(path("u.npy"),
				func(w io.Writer) (int, error) { return dataio.EncodeNPYOfDepth(w, scaled, 16) })
			return err
		},
		"u.tif": func() error {
			_, err := dataio.WriteImage(path("u.tif"),
				func(w io.Writer) (int, error) { return images.EncodeTIFF(w, scaled, dataio.Depth{Bits: 16}) })
			return err
		},
		"f.tif": func() error {
			_, err := dataio.WriteImage(path("f.tif"), func(w io.Writer) (int, error) {
				return images.EncodeTIFF(w, counts, dataio.Depth{Bits: 32, Float: true})
			})
			return err
		},
		"u.png": func() error {
			_, err := dataio.WriteImage(path("u.png"),
				func(w io.Writer) (int, error) { return images.EncodePNG(w, scaled, 16) })
			return err
		},
	}
	var want any
	for _, name := range []string{"f.npy", "u.npy", "u.tif", "f.tif", "u.png"} {
		if err := writes[name](); err != nil {
			t.Fatal(err)
		}
		o := object(t, "run", "--spec", spec, "--data", path(name))
		if want == nil {
			want = o["sure"]
		}
		if math.Abs(o["sure"].(float64)-want.(float64)) > 1e-9 {
			t.Errorf("%s: SURE %v, want %v", name, o["sure"], want)
		}
	}
}

// Counts times the gain of a camera are told by the noise of their transform, and counts are not. Counts of which half
// has next to none, whose transform has little noise there, are marked as other images are.
func TestGainOfCounts(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("s.yaml"), []byte("data: d.npy\noperator: identity\nnoise: anscombe\nterms: [{operator: "+
		"gradient, regularizer: {joint-l2: 2}}]\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		gain, dark float64
		told       string
	}{{1, 20, ""}, {3, 20, "not-counts"}, {1, 0.2, "clipped"}} {
		rng := rand.New(rand.NewPCG(8, 8))
		counts := floats("y", make([]float64, 96*96), 96, 96)
		for i := range counts.Data {
			mean := c.dark
			if i%96 > 48 {
				mean = 40
			}
			counts.Data[i] = c.gain * distuv.Poisson{Lambda: mean, Src: rng}.Rand()
		}
		if err := dataio.WriteNPY(at("d.npy"), counts); err != nil {
			t.Fatal(err)
		}
		told := map[string]bool{}
		warned, _ := object(t, "run", "--spec", at("s.yaml"))["warnings"].([]any)
		for _, w := range warned {
			told[w.(map[string]any)["code"].(string)] = true
		}
		for _, code := range []string{"not-counts", "clipped"} {
			if told[code] != (code == c.told) {
				t.Errorf("%+v: %v", c, told)
			}
		}
	}
}

// A file of several images is a series, and --out writes one.
func TestSeriesOfImageFiles(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.tif"), filepath.Join(dir, "out.tif")
	series := floats("y", make([]float64, 4*6*8), 4, 6, 8)
	for i := range series.Data {
		series.Data[i] = 0.5 + 0.4*math.Sin(float64(i/48)*0.7)*math.Cos(float64(i%48))
	}
	if _, err := dataio.WriteImage(in, func(w io.Writer) (int, error) {
		return images.EncodeTIFF(w, series,
			dataio.Depth{Bits: 16})
	}); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"--problem local-low-rank --lambda 0.01",
		"--problem robust-pca --lambda 0.5 --gamma 0.2", "--problem tv2d --lambda 0.01"} {
		object(t, append([]string{"run", "--data", in, "--sigma2", "1e-4", "--out", out}, strings.Fields(args)...)...)
		set, err := dataio.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		a, err := set.Floats("out")
		if set.Close(); err != nil || ndarray.ShapeString(a.Shape) != "(4, 6, 8)" || a.Depth.Bits != 16 {
			t.Fatalf("%s: shape %v, depth %+v, %v", args, a.Shape, a.Depth, err)
		}
		for i, v := range a.Data {
			if math.Abs(v-series.Data[i]) > 0.3 {
				t.Fatalf("%s: value %d is %g, that of y %g", args, i, v, series.Data[i])
			}
		}
	}
	if status, _, stderr := command(t, "run", "--problem", "local-low-rank", "--data", in, "--sigma2", "100",
		"--lambda", "9"); status != exitDone || !strings.Contains(stderr, "where 1 is the integer 65535 of the file") {
		t.Errorf("status %d, %s", status, stderr)
	}
}
