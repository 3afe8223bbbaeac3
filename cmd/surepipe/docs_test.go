package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/images"
	"surepipe/pipeline"
)

// documents are the README and the guides, by path from the top of the project.
func documents(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatalf("guides: %v, %v", paths, err)
	}
	texts := map[string]string{}
	for _, path := range append(paths, "../../README.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[strings.TrimPrefix(path, "../../")] = string(text)
	}
	return texts
}

// commandLines are the commands in the indented blocks of a document.
func commandLines(text string) (lines []string) {
	for line := range strings.Lines(text) {
		block, indented := strings.CutPrefix(line, "    ")
		block = strings.TrimPrefix(block, "$ ")
		if !indented || !regexp.MustCompile(`^(surepipe|\./surepipe|go (run|test|build|install)) `).MatchString(block) {
			continue
		}
		block, _, _ = strings.Cut(block, " #")
		for part := range strings.SplitSeq(block, "&&") {
			lines = append(lines, strings.TrimSpace(part))
		}
	}
	return lines
}

// smaller are replacements that make a command of a document quick: fewer weights and samples,
// smaller data.
var smaller = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`(--(?:lambda|gamma) [^ :]+:[^ :]+):\d+`), "$1:3"},
	{regexp.MustCompile(`--refine \d+`), "--refine 1"},
	{regexp.MustCompile(`--samples \d+`), "--samples 2"},
	{regexp.MustCompile(`--(rows|cols) \d\d+`), "--$1 20"},
	{regexp.MustCompile(`--entries \d+`), "--entries 100"},
	{regexp.MustCompile(`--noise-volumes [0-9-]+`), "--noise-volumes 5-6"},
	{regexp.MustCompile(`heat\.h5`), "plain.h5:big"},
	{regexp.MustCompile(`--queries \d+`), "--queries 12"},
	{regexp.MustCompile(`--(d|p) \d{4,}`), "--$1 200"},
	{regexp.MustCompile(` \| grep .*`), ""},
}

// Every command in the documents is right: those of surepipe run, one after the other in one folder
// for each document, on smaller data, where they are quick; of the others the flags are read. The
// tests and benchmarks that are named exist.
func TestCommandsOfTheDocuments(t *testing.T) {
	if testing.Short() {
		t.Skip("the commands are the same without a native BLAS")
	}
	for name, text := range documents(t) {
		t.Run(name, func(t *testing.T) {
			top, err := filepath.Abs("../..")
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(t.TempDir())
			documentFiles(t, top)
			for _, line := range commandLines(text) {
				if strings.HasPrefix(line, "go test") {
					checkTestCommand(t, top, line)
					continue
				}
				line = strings.Replace(line, "go run ./cmd/surepipe ", "surepipe ", 1)
				line = strings.TrimPrefix(line, "./")
				if strings.HasPrefix(line, "go ") {
					continue // go build and go install
				}
				for _, s := range smaller {
					line = s.from.ReplaceAllString(line, s.to)
				}
				runDocumented(t, line)
			}
		})
	}
}

// runDocumented runs a command line, or reads its flags alone where it needs a card or
// another program, or takes long.
func runDocumented(t *testing.T, line string) {
	t.Helper()
	line, file, redirected := strings.Cut(line, " > ")
	args, err := pipeline.SplitCommand(line)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if args = args[1:]; args[0] == "paper" || args[0] == "view" || strings.Contains(line, "--exec") ||
		strings.Contains(line, "--device cuda") {
		args = append(args, "--help")
	}
	status, stdout, stderr := command(t, args...)
	if status != exitDone {
		t.Errorf("%s: status %d, %s", line, status, stderr)
	}
	if redirected {
		if err := os.WriteFile(strings.TrimSpace(file), []byte(stdout), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// documentFiles makes the files that the documents speak of as the reader's own.
func documentFiles(t *testing.T, top string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	const d, p = 40, 4
	matrix := fmt.Sprintf("%%%%MatrixMarket matrix coordinate real general\n%d %d %d\n", d, p, d)
	x, y, frames := make([]float64, d*p), make([]float64, d), make([]float64, d*d)
	for i := range d {
		y[i] = rng.NormFloat64()
		for j := range p {
			x[i*p+j] = rng.NormFloat64()
			y[i] += 2 * x[i*p+j]
		}
		matrix += fmt.Sprintf("%d %d %g\n", i+1, i%p+1, x[i*p+i%p])
	}
	for i := range frames {
		frames[i] = rng.NormFloat64() + 10*float64(i%d)
	}
	lake := "year,level\n"
	for i, v := range y {
		lake += fmt.Sprintf("%d,%g\n", 1901+i, v)
	}
	for name, text := range map[string]string{"x.mtx": matrix, "lake.csv": lake} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for name, arrays := range map[string][]dataio.Array{
		"mine.npz": {floats("X", x, d, p), floats("y", y, d)}, "video.npz": {floats("y", frames, d, d),
			floats("sigma2", []float64{1})},
	} {
		if err := dataio.WriteNPZ(name, arrays...); err != nil {
			t.Fatal(err)
		}
	}
	seriesFiles(t, rng)
	if err := dataio.WriteNPY("y.npy", floats("y", y, d)); err != nil {
		t.Fatal(err)
	}
	classes := make([]float64, d)
	for i, v := range y {
		if v > 0 {
			classes[i] = 1
		}
	}
	if err := dataio.WriteNPY("classes.npy", floats("y", classes, d)); err != nil {
		t.Fatal(err)
	}
	if err := dataio.WriteNPY("X.npy", floats("X", x, d, p)); err != nil {
		t.Fatal(err)
	}
	if err := dataio.WriteNPZ("counts.npz", scipyRows(x, d, p)...); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"cohort.bed": "\x6c\x1b\x01" + strings.Repeat("\xb8\x3e", d/8*p),
		"cohort.bim": strings.Repeat("1 s 0 1 A G\n", p), "cohort.fam": strings.Repeat("f i 0 0 1 2\n", d)} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	links := map[string]string{"plain.h5": "internal/dataio/testdata/scan/plain.h5"}
	shipped, err := os.ReadDir(filepath.Join(top, "testdata"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range shipped {
		links["testdata/"+e.Name()] = "testdata/" + e.Name()
	}
	delete(links, "testdata/camera.png")
	if err := os.Mkdir("testdata", 0o777); err != nil {
		t.Fatal(err)
	}
	for name, target := range links {
		if err := os.Symlink(filepath.Join(top, target), name); err != nil {
			t.Fatal(err)
		}
	}
	cropPicture(t, filepath.Join(top, "testdata/camera.png"), "testdata/camera.png", 48)
}

// cropPicture writes the upper left square of a grey picture.
func cropPicture(t *testing.T, from, to string, side int) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	part := image.NewGray(image.Rect(0, 0, side, side))
	draw.Draw(part, part.Rect, whole, whole.Bounds().Min, draw.Src)
	if err := dataio.WriteFile(to, func(w io.Writer) error { return png.Encode(w, part) }); err != nil {
		t.Fatal(err)
	}
}

// seriesFiles makes series of images: NIfTI files of 7 volumes of 6 x 5 x 4 voxels, and arrays.
func seriesFiles(t *testing.T, rng *rand.Rand) {
	t.Helper()
	const volumes, voxels = 7, 6 * 5 * 4
	h := make([]byte, 352)
	binary.LittleEndian.PutUint32(h, 348)
	for i, k := range []uint16{4, 6, 5, 4, volumes, 1, 1, 1} {
		binary.LittleEndian.PutUint16(h[40+2*i:], k)
	}
	binary.LittleEndian.PutUint16(h[70:], 16) // float32
	binary.LittleEndian.PutUint32(h[108:], math.Float32bits(352))
	copy(h[344:], "n+1\x00")
	file := bytes.Clone(h)
	values := make([]float64, volumes*voxels)
	for i := range values {
		values[i] = 1 + 0.2*rng.Float64()
		file = binary.LittleEndian.AppendUint32(file, math.Float32bits(float32(values[i])))
	}
	for _, name := range []string{"dwi", "magnitude", "phase", "bold"} {
		err := dataio.WriteFile(name+".nii.gz", func(w io.Writer) error {
			z := gzip.NewWriter(w)
			z.Write(file)
			return z.Close()
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, n := range map[string]int{"dwi.mif": volumes, "mask.mif": 1} {
		head := fmt.Sprintf("mrtrix image\ndim: 6,5,4,%d\nlayout: +0,+1,+2,+3\ndatatype: Float32LE\nfile: . 128\nEND\n", n)
		head += strings.Repeat("\x00", 128-len(head))
		if err := os.WriteFile(name, append([]byte(head), file[352:352+4*n*voxels]...), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	design := "on\n" + strings.Repeat("0\n1\n", volumes)[:2*volumes]
	if err := os.WriteFile("design.csv", []byte(design), 0o666); err != nil {
		t.Fatal(err)
	}
	_, err := dataio.WriteImage("calcium.tif", func(w io.Writer) (int, error) {
		return images.EncodeTIFF(w, floats("y", values, volumes, 10, 12), dataio.Depth{Bits: 32, Float: true})
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, shape := range map[string][]int{"calcium.npy": {volumes, 10, 12}, "cube.npy": {10, 12, volumes}} {
		if err := dataio.WriteNPY(name, floats("y", values, shape...)); err != nil {
			t.Fatal(err)
		}
	}
}

// checkTestCommand fails unless the test or benchmark that a go test command names exists.
func checkTestCommand(t *testing.T, top, line string) {
	t.Helper()
	words := strings.Fields(strings.ReplaceAll(line, "'", ""))
	if words[2] == "./..." {
		return
	}
	name := ""
	for i, w := range words[:len(words)-1] {
		switch {
		case w == "-bench":
			name = "Benchmark" + words[i+1]
		case w == "-run" && words[i+1] != "^$":
			name = words[i+1]
		}
	}
	files, err := filepath.Glob(filepath.Join(top, words[2], "*_test.go"))
	if err != nil || name == "" {
		t.Fatalf("%s: %v names no test", line, err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`(?m)^func \w*` + strings.TrimPrefix(name, "Benchmark")).Match(text) {
			return
		}
	}
	t.Errorf("%s: no test or benchmark in %s has this name", line, words[2])
}

// Links within the documents lead somewhere.
func TestLinksOfTheDocuments(t *testing.T) {
	for name, text := range documents(t) {
		for _, m := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join("../..", filepath.Dir(name), m[1])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if lines := strings.Count(documents(t)["README.md"], "\n"); lines > 150 {
		t.Errorf("README.md has %d lines, expected at most 150: the guides are under docs", lines)
	}
}
