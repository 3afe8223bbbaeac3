package main

import (
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"surepipe/internal/dataio"
)

// --picture draws images of every kind of data, with the numbers that belong to them, and leaves the
// numbers as they are.
func TestPictures(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	wave := func(n int, unit float64) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = unit * (0.5 + 0.4*math.Sin(float64(i)) + 0.3*math.Sin(0.05*float64(i)))
		}
		return v
	}
	write := func(name string, arrays ...dataio.Array) {
		if err := dataio.WriteNPZ(in(name), arrays...); err != nil {
			t.Fatal(err)
		}
	}
	spec := func(name string, lines string) string {
		if err := os.WriteFile(in(name), []byte(lines), 0o666); err != nil {
			t.Fatal(err)
		}
		return in(name)
	}
	write("gray.npz", floats("y", wave(80, 1), 8, 10), floats("mu", wave(80, 0.9), 8, 10))
	write("colour.npz", floats("y", wave(240, 1), 8, 10, 3), floats("mu", wave(240, 0.9), 8, 10, 3))
	write("series.npz", floats("y", wave(3*64, 900), 3, 8, 8))
	if status, _, stderr := command(t, "generate", "--problem", "ct", "--rows", "12", "--d", "9", "--out",
		in("ct.npz")); status != exitDone {
		t.Fatal(stderr)
	}
	if status, _, stderr := command(t, "generate", "--problem", "mri", "--rows", "12", "--out",
		in("mri.npz")); status != exitDone {
		t.Fatal(stderr)
	}
	ct := spec("ct.yaml", "data: ct.npz\noperator: {projection: {angles: 9}}\nterms: [{operator: gradient, "+
		"regularizer: {joint-l2: lambda}}]\nlambda: 0.1\nsolver: {tol: 1e-3}\n")
	mri := spec("mri.yaml", "data: mri.npz\noperator: {fourier: {mask: mask, centered: true}}\nsynthesis: "+
		"{adjoint: {complex: {wavelet: {family: haar, levels: 2}}}}\nregularizer: {complex-l1: lambda}\nlambda: 0.1\n")
	for name, args := range map[string]string{
		"gray":     "run --problem tv2d --data " + in("gray.npz") + " --sigma2 0.01 --lambda 0.05",
		"unknown":  "run --problem svt --data " + in("gray.npz") + " --lambda 0.5",
		"colour":   "run --problem tv2d --data " + in("colour.npz") + " --sigma2 0.01 --lambda 0.05",
		"series":   "run --problem local-low-rank --data " + in("series.npz") + " --sigma2 9 --lambda 40 --frame 2",
		"sinogram": "run --spec " + ct + " --truth " + in("ct.npz") + ":image",
		"complex":  "run --spec " + mri + " --truth " + in("mri.npz") + ":image",
		"video": "run --problem robust-pca --data " + in("series.npz") +
			" --sigma2 1 --lambda 900 --gamma 90 --trace hutchinson --queries 4",
		"sweep": "sweep --problem tv2d --data " + in("gray.npz") + " --sigma2 0.01 --lambda 0.01:0.1:3 --refine 0",
	} {
		to := in(name + ".png")
		status, with, stderr := command(t, append(strings.Fields(args), "--picture", to)...)
		if status != exitDone && status != exitNotConverged {
			t.Errorf("%s: status %d, %s", name, status, stderr)
			continue
		}
		if f, err := os.Open(to); err != nil {
			t.Error(err)
		} else if _, err := png.Decode(f); err != nil {
			t.Errorf("%s: %v", name, err)
		} else {
			f.Close()
		}
		if name == "gray" || name == "sweep" {
			_, without, _ := command(t, strings.Fields(args)...)
			if untimed(with) != untimed(without) {
				t.Errorf("%s: with a picture\n%s\nwithout\n%s", name, with, without)
			}
		}
	}
	o := object(t, "run", "--spec", mri, "--truth", in("mri.npz")+":image")
	fit := in("fit.npy")
	object(t, "run", "--spec", mri, "--out", fit)
	if loss := squaredDistance(readNumbers(t, fit),
		readNumbers(t, in("mri.npz")+":image")); math.Abs(loss-o["signal_loss"].(float64)) > 1e-12 {
		t.Errorf("signal_loss is %v, that of --out %v", o["signal_loss"], loss)
	}
}

func squaredDistance(a, b []float64) (sum float64) {
	for i, v := range a {
		sum += (v - b[i]) * (v - b[i])
	}
	return sum
}

// readNumbers is the only array of a file.
func readNumbers(t *testing.T, path string) []float64 {
	set, err := dataio.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	name, err := set.Only()
	if err != nil {
		t.Fatal(err)
	}
	a, err := set.Numbers(name)
	if err != nil {
		t.Fatal(err)
	}
	return a.Data
}

// untimed is the text without the line of the times.
func untimed(s string) (kept string) {
	for line := range strings.Lines(s) {
		if !strings.HasPrefix(line, "time") {
			kept += line
		}
	}
	return kept
}

func TestPicturesOfWhatIsNoImage(t *testing.T) {
	dir := t.TempDir()
	gray, line := filepath.Join(dir, "gray.npz"), filepath.Join(dir, "line.npz")
	for path, shape := range map[string][]int{gray: {4, 6}, line: {24}} {
		if err := dataio.WriteNPZ(path, floats("y", make([]float64, 24), shape...)); err != nil {
			t.Fatal(err)
		}
	}
	const lambda = " --lambda 1 --sigma2 1"
	for args, want := range map[string]string{
		"--problem tv2d --data " + gray + lambda +
			" --picture p.jpg": `--picture: figure "p.jpg" ends in ".jpg"`,
		"--problem tv2d --data " + gray + lambda +
			" --picture /nowhere/p.png": "/nowhere",
		"--problem tv2d --data " + gray + lambda +
			" --frame 1": "--frame is for --picture, which is missing",
		"--problem tv2d --data " + gray + lambda + " --frame -1 --picture " + dir +
			"/p.png": "--frame is -1, expected 0 or more",
		"--problem tv2d --data " + gray + lambda + " --frame 1 --picture " + dir +
			"/p.png": "--frame is 1, expected 0 to 0: y has 1 images",
		"--problem group-lasso --lambda 1 --picture " + dir + "/p.png --loss mgaussian --response " + measured + " --data " +
			people: "y has a column for each class or response: --report draws",
		"--problem lasso --data ../../testdata/diabetes.npz --lambda 1 --sigma2 1 --picture " + dir +
			"/p.png": "--picture needs a sequence without gaps, an image, a matrix or (rows, columns, 3), or a series " +
			"of them: y has shape (442,)",
		"--problem tv2d --data " + gray + lambda + " --truth " +
			gray: "--truth is for a signal that is not mu",
		"--spec ../../problems/spec/specs/tv-deblur.yaml --lambda 1 --sigma2 1 --data " + gray + " --truth " +
			line: "has shape (24,), real, expected that of the signal, (4, 6), real",
	} {
		status, _, stderr := command(t, append([]string{"run"}, strings.Fields(args)...)...)
		if status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s, want %q", args, status, stderr, want)
		}
	}
	// A sequence is drawn over its places.
	sequence := "run --problem tv1d --data " + line + lambda + " --picture " + dir + "/sequence.svg"
	if status, _, stderr := command(t, strings.Fields(sequence)...); status == exitUsage {
		t.Errorf("%s: status %d, %s", sequence, status, stderr)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "sequence.svg")); err != nil || !strings.Contains(string(text), "place") {
		t.Errorf("the figure of a sequence: %v, %.200s", err, text)
	}
	part := "sweep --problem tv2d --lambda 1:2:4 --sigma2 1 --shard 0/2 --jsonl p.jsonl --data " + gray + " --picture " +
		dir + "/p.png"
	if status, _, stderr := command(t, strings.Fields(part)...); status != exitUsage ||
		!strings.Contains(stderr, "--picture and --truth are for whole runs") {
		t.Errorf("%s: status %d, %s", part, status, stderr)
	}
}

// In the smoothest parts of a sinogram with normal noise a few pixels are far from the mean of their neighbours, which
// an image has by the tails of its noise alone.
func TestSinogramsHaveNoHeavyTailsByTheirLines(t *testing.T) {
	data, given := filepath.Join(t.TempDir(), "ct.npz"), filepath.Join(t.TempDir(), "ct.yaml")
	if status, _, stderr := command(t, "generate", "--problem", "ct", "--rows", "64", "--d", "90", "--seed", "1",
		"--out", data); status != exitDone {
		t.Fatal(stderr)
	}
	if err := os.WriteFile(given, []byte("data: "+data+"\noperator: {projection: {angles: 90}}\n"+
		"regularizer: {l1: lambda}\nlambda: 100\nsolver: {tol: 1e-2}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for args, told := range map[string]bool{
		"run --problem tv2d --lambda 1 --data " + data: true, "run --queries 2 --spec " + given: false} {
		status, _, stderr := command(t, strings.Fields(args)...)
		if status != exitDone && status != exitNotConverged || strings.Contains(stderr, "heavy tails") != told ||
			strings.Contains(stderr, "ignored") { // image is for --truth
			t.Errorf("%s: status %d, %s", args, status, stderr)
		}
	}
}
