package main

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"surepipe/internal/dataio"
)

// --vectorial is the regularizer of specifications, its divergence that of exact probes, and flags
// that do not go with it are errors.
func TestVectorialTotalVariation(t *testing.T) {
	dir := t.TempDir()
	data, spec := filepath.Join(dir, "d.npz"), filepath.Join(dir, "s.yaml")
	y := make([]float64, 6*7*3)
	for i := range y {
		y[i] = float64(i/63)*float64(i%3+1)/3 + 0.2*math.Sin(float64(i*i))
	}
	if err := dataio.WriteNPZ(data, floats("y", y, 6, 7, 3), floats("mu", y, 6, 7, 3)); err != nil {
		t.Fatal(err)
	}
	write := func(vectorial string) {
		text := "data: d.npz\noperator: identity\nterms: [{operator: gradient, regularizer: {joint-l2: " +
			"{weight: lambda" + vectorial + "}}}]\n"
		if err := os.WriteFile(spec, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	common := []string{"--lambda", "0.2", "--sigma2", "0.02", "--tol", "1e-10"}
	named := append([]string{"run", "--problem", "tv2d", "--data", data}, common...)
	own := append([]string{"run", "--spec", spec}, common...)
	write(", vectorial: true")
	joined, same := object(t, append(named, "--vectorial")...), object(t, own...)
	probes := object(t, append(named, "--vectorial", "--trace", "exact")...)
	write("")
	apart, alone := object(t, own...), object(t, named...)
	near := func(a, b map[string]any) bool { return math.Abs(a["sure"].(float64)-b["sure"].(float64)) < 1e-6 }
	if !near(joined, same) || !near(apart, alone) || near(joined, alone) || !near(joined, probes) {
		t.Errorf("SURE %v and %v, by exact probes %v; of each channel %v and %v", joined["sure"], same["sure"],
			probes["sure"], alone["sure"], apart["sure"])
	}
	if status, stdout, stderr := command(t, "montecarlo", "--problem", "tv2d", "--vectorial", "--data",
		dropY(t, data), "--lambda", "0.2", "--sigma2", "0.02", "--samples", "2"); status != exitDone ||
		strings.Count(stdout, "\n") != 3 {
		t.Errorf("draws of a colour image: status %d, %s", status, stderr)
	}
	for args, want := range map[string]string{
		"--problem tv2d --vectorial --anisotropic --data " + data: "--vectorial and --anisotropic are both given",
		"--problem svt --vectorial --data " + data:                "--vectorial is for tv2d, found --problem svt",
	} {
		if status, _, stderr := command(t, append([]string{"run"},
			strings.Fields(args+" --lambda 1")...)...); status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s", args, status, stderr)
		}
	}
	gray := filepath.Join(dir, "d.npz")
	if err := dataio.WriteNPZ(gray, floats("y", y[:42], 6, 7)); err != nil {
		t.Fatal(err)
	}
	write(", vectorial: true")
	if status, _, stderr := command(t, own...); status != exitUsage ||
		!strings.Contains(stderr, "vectorial is for an image in colours or of complex numbers, whose last axis "+
			"are channels, but the shape is (2, 6, 7)") {
		t.Errorf("a gray image: status %d, %s", status, stderr)
	}
}

// dropY is a file with mu alone.
func dropY(t *testing.T, path string) string {
	set, err := dataio.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	mu, err := set.Floats("mu")
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "mu.npz")
	if err := dataio.WriteNPZ(to, mu); err != nil {
		t.Fatal(err)
	}
	return to
}

// A stack of images in colours has four axes; one such image is not a stack of narrow gray ones.
func TestStackOfImagesInColours(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	const n, rows, cols = 2, 5, 6
	y := make([]float64, n*rows*cols*3)
	for i := range y {
		y[i] = rng.NormFloat64()
	}
	sigma2 := floats("sigma2", []float64{1})
	stack, image := save(t, floats("y", y, n, rows, cols, 3), sigma2),
		save(t, floats("y", y[:rows*cols*3], rows, cols, 3), sigma2)
	one := object(t, "run", "--problem", "tv2d", "--data", image, "--lambda", "0.5")
	status, stdout, stderr := command(t, "montecarlo", "--problem", "tv2d", "--data", stack, "--lambda", "0.5")
	var first map[string]any
	if err := json.Unmarshal([]byte(strings.Split(stdout, "\n")[0]), &first); status != exitDone || err != nil {
		t.Fatalf("status %d, %v, %s", status, err, stderr)
	}
	if first["sure"] != one["sure"] || strings.Count(stdout, "\n") != n+1 {
		t.Errorf("SURE is %v, alone %v; %d lines", first["sure"], one["sure"], strings.Count(stdout, "\n"))
	}
	status, _, stderr = command(t, "montecarlo", "--problem", "tv2d", "--data", image, "--lambda", "0.5")
	if status != exitUsage || !strings.Contains(stderr, "one image in colours") {
		t.Errorf("one image: status %d, %q", status, stderr)
	}
}
