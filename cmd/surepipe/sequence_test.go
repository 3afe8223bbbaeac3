package main

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"surepipe/internal/dataio"
)

// withGaps is a table of a sequence with a date for each value, of which some are missing, and the places
// of the others.
func withGaps(t *testing.T) (path string, y []float64, observed []int) {
	var s strings.Builder
	s.WriteString("\"\",\"date\",\"value\"\n")
	for i := range 30 {
		v := math.Round(100*(math.Abs(float64(i-14))+math.Sin(float64(7*i)))) / 100
		cell := fmt.Sprint(v)
		if i == 0 || i == 9 || i == 10 || i == 21 {
			cell = "NA"
		} else {
			observed = append(observed, i)
		}
		y = append(y, v)
		fmt.Fprintf(&s, "\"%d\",%d-%02d-01,%s\n", i+1, 2020+i/12, 1+i%12, cell)
	}
	return text(t, "series.csv", s.String()), y, observed
}

// Where values of a sequence are missing, those that are there are a selection of the sequence: the fit is
// that of the same problem with the selection as a matrix, and the file has all values, with their dates.
func TestSequencesWithGaps(t *testing.T) {
	path, y, observed := withGaps(t)
	dir := t.TempDir()
	x := make([]float64, len(observed)*len(y))
	seen := make([]float64, len(observed))
	whole := make([]float64, len(y))
	for i := range whole {
		whole[i] = math.NaN()
	}
	for k, i := range observed {
		x[k*len(y)+i], seen[k], whole[i] = 1, y[i], y[i]
	}
	data := filepath.Join(dir, "matrix.npz")
	if err := dataio.WriteNPZ(data, floats("X", x, len(observed), len(y)), floats("y", seen, len(seen))); err != nil {
		t.Fatal(err)
	}
	array := filepath.Join(dir, "whole.npy")
	if err := dataio.WriteNPY(array, floats("y", whole, len(whole))); err != nil {
		t.Fatal(err)
	}
	for problem, order := range map[string]int{"tv1d": 0, "trend1d": 1} {
		spec := filepath.Join(dir, problem+".yaml")
		err := os.WriteFile(spec, fmt.Appendf(nil,
			"data: matrix.npz\noperator: {matrix: X}\nterms:\n  - operator: {trend: {order: %d}}\n    "+
				"regularizer: {l1: lambda}\nsolver: {name: admm, tol: 1e-10, max-iter: 100000}\n", order), 0o666)
		if err != nil {
			t.Fatal(err)
		}
		for _, lambda := range []string{"0.6", "3", "0.3max"} {
			out := filepath.Join(dir, "out.csv")
			common := []string{"--sigma2", "0.5", "--lambda", lambda}
			want := object(t, append([]string{"run", "--spec", spec}, common...)...)
			for _, from := range [][]string{{"--data", path, "--response", "value", "--out", out}, {"--data", array}} {
				got := object(t, append(append([]string{"run", "--problem", problem, "--missing", "drop", "--tol",
					"1e-10"}, common...), from...)...)
				for _, key := range []string{"sure", "divergence", "residual", "lambda"} {
					if w, g := want[key].(float64), got[key].(float64); !(math.Abs(w-g) <= 1e-5*(1+math.Abs(w))) {
						t.Errorf("%s at %s: %s is %.9g, expected %.9g", problem, lambda, key, g, w)
					}
				}
				if got["d"].(float64) != 26 || got["p"].(float64) != 30 ||
					!strings.Contains(fmt.Sprint(got["warnings"]), "4 of 30 values of the sequence are missing") {
					t.Errorf("%s: d %v, p %v, %v", problem, got["d"], got["p"], got["warnings"])
				}
			}
			table, err := dataio.OpenTable(out, dataio.TableOptions{Text: func(name string) bool { return name == "date" }})
			if err != nil {
				t.Fatal(err)
			}
			dates, err := table.Column("date")
			if values, missing := table.Column("value"); err != nil || missing != nil || len(values.Values) != 30 ||
				dates.Levels[0] != "2020-01-01" || dates.Levels[29] != "2022-06-01" {
				t.Errorf("%s: %+v, %v, %v", problem, dates, err, missing)
			}
		}
	}
}

// Pixels that are missing leave a selection of an image: the fit is that of the specification with a mask, from an array
// with NaN, from one of the others with their places, and from a table with empty cells.
func TestImagesWithGaps(t *testing.T) {
	const rows, cols = 12, 9
	dir, rng := t.TempDir(), rand.New(rand.NewPCG(1, 2))
	y, mask := make([]float64, rows*cols), make([]float64, rows*cols)
	whole, seen, places, table := slices.Clone(y), []float64(nil), []float64(nil), strings.Builder{}
	for i := range y {
		y[i], mask[i], whole[i] = float64(i%cols/4)+0.3*rng.NormFloat64(), 1, math.NaN()
		if rng.IntN(4) == 0 {
			mask[i] = 0
		} else {
			whole[i], seen, places = y[i], append(seen, y[i]), append(places, float64(i))
			fmt.Fprintf(&table, "%.17g", y[i])
		}
		table.WriteString(map[bool]string{true: "\n", false: ","}[i%cols == cols-1])
	}
	masked, array, entries := filepath.Join(dir, "mask.npz"), filepath.Join(dir, "y.npy"), filepath.Join(dir, "y.npz")
	for _, err := range []error{
		dataio.WriteNPZ(masked, floats("y", y, rows, cols), floats("mask", mask, rows, cols)),
		dataio.WriteNPY(array, floats("y", whole, rows, cols)),
		dataio.WriteNPZ(entries, floats("y", seen, len(seen)), floats("indices", places, len(seen)),
			floats("shape", []float64{rows, cols}, 2)),
		os.WriteFile(filepath.Join(dir, "s.yaml"), []byte("data: {file: mask.npz, y: {where: mask}}\noperator: "+
			"{selection: {where: mask}}\nterms:\n  - operator: gradient\n    regularizer: {joint-l2: lambda}\n"), 0o666),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	common, picture := []string{"--sigma2", "0.09", "--lambda", "0.2", "--tol", "1e-9"}, filepath.Join(dir, "p.svg")
	want := object(t, append([]string{"run", "--spec", filepath.Join(dir, "s.yaml")}, common...)...)
	for _, data := range []string{array, entries, text(t, "y.csv", table.String())} {
		got := object(t, append([]string{"run", "--problem", "tv2d", "--missing", "drop", "--picture", picture, "--data",
			data}, common...)...)
		if drawn, err := os.ReadFile(picture); err != nil || !bytes.Contains(drawn, []byte("where y is missing")) {
			t.Errorf("%s: %d bytes of a picture, %v", data, len(drawn), err)
		}
		for _, key := range []string{"sure", "divergence", "residual"} {
			if w, g := want[key].(float64), got[key].(float64); !(math.Abs(w-g) <= 1e-5*(1+math.Abs(w))) {
				t.Errorf("%s: %s is %.9g, expected %.9g", data, key, g, w)
			}
		}
		if chosen := fmt.Sprint(got["choices"]); !strings.Contains(chosen, "interior points, and else another method") {
			t.Errorf("%s: chosen are %s", data, chosen)
		}
		if told := fmt.Sprintf("%d of 108 values of the image are missing", len(y)-len(seen)); got["p"] != 108.0 ||
			!strings.Contains(fmt.Sprint(got["warnings"]), told) {
			t.Errorf("%s: p %v, %v", data, got["p"], got["warnings"])
		}
	}
}

// Nine values that are missing in a row, or at the end, are told of, and fewer are not.
func TestLongGapsAreToldOf(t *testing.T) {
	for _, c := range []struct{ from, to, want int }{{20, 29, 21}, {20, 28, 0}, {51, 60, 52}, {0, 9, 1}, {52, 60, 0}} {
		y, rng := make([]float64, 60), rand.New(rand.NewPCG(1, 2))
		for i := range y {
			if y[i] = rng.NormFloat64(); i >= c.from && i < c.to || i == 40 {
				y[i] = math.NaN()
			}
		}
		got := fmt.Sprint(object(t, "run", "--problem", "trend1d", "--missing", "drop", "--sigma2", "1", "--lambda", "3",
			"--data", npyFile(t, y, 60))["warnings"])
		if told := strings.Contains(got, "long-gap"); told != (c.want > 0) ||
			told && !strings.Contains(got, fmt.Sprintf("from place %d on", c.want)) {
			t.Errorf("values %d to %d: %s", c.from, c.to, got)
		}
	}
}

// An image in colours with gaps is three images with gaps, and with one norm across its channels what a specification
// with a mask says.
func TestImagesInColoursMayHaveGaps(t *testing.T) {
	const rows, cols, channels = 12, 9, 3
	dir, rng := t.TempDir(), rand.New(rand.NewPCG(3, 2))
	y, mask, whole := make([]float64, rows*cols*channels), make([]float64, rows*cols*channels), []float64(nil)
	var seen, places []float64
	one := make([][]float64, channels)
	for i := range y {
		y[i], mask[i] = float64(i/channels%cols/4)+float64(i%channels)+0.3*rng.NormFloat64(), 1
		if rng.IntN(4) == 0 {
			mask[i], whole = 0, append(whole, math.NaN())
		} else {
			whole, seen, places = append(whole, y[i]), append(seen, y[i]), append(places, float64(i))
		}
		one[i%channels] = append(one[i%channels], whole[i])
	}
	array, entries := filepath.Join(dir, "y.npy"), filepath.Join(dir, "y.npz")
	for _, err := range []error{
		dataio.WriteNPZ(filepath.Join(dir, "mask.npz"), floats("y", y, rows, cols, channels),
			floats("mask", mask, rows, cols, channels)),
		dataio.WriteNPY(array, floats("y", whole, rows, cols, channels)),
		dataio.WriteNPZ(entries, floats("y", seen, len(seen)), floats("indices", places, len(seen)),
			floats("shape", []float64{rows, cols, channels}, 3)),
		os.WriteFile(filepath.Join(dir, "s.yaml"), []byte("data: {file: mask.npz, y: {where: mask}}\noperator: "+
			"{selection: {where: mask}}\nterms:\n  - operator: gradient\n    regularizer: {joint-l2: {weight: lambda, "+
			"vectorial: true}}\n"), 0o666),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	common := []string{"--sigma2", "0.09", "--lambda", "0.2", "--tol", "1e-9", "--trace", "exact"}
	run := func(data string, more ...string) map[string]any {
		return object(t, slices.Concat([]string{"run", "--problem", "tv2d", "--missing", "drop", "--data", data}, more,
			common)...)
	}
	sums := map[string]any{"sure": 0.0, "divergence": 0.0, "residual": 0.0}
	for _, channel := range one {
		of := run(npyFile(t, channel, rows, cols))
		for key, sum := range sums {
			sums[key] = sum.(float64) + of[key].(float64)
		}
	}
	for _, c := range []struct {
		got, want map[string]any
	}{
		{run(array), sums}, {run(entries), sums},
		{run(array, "--vectorial"), object(t, append([]string{"run", "--spec", filepath.Join(dir, "s.yaml")},
			common...)...)},
	} {
		for key := range sums {
			if w, g := c.want[key].(float64), c.got[key].(float64); !(math.Abs(w-g) <= 1e-5*(1+math.Abs(w))) {
				t.Errorf("%s is %.9g, expected %.9g", key, g, w)
			}
		}
		if told := fmt.Sprintf("%d of 324 values of the image are missing", len(y)-len(seen)); c.got["p"] != 324.0 ||
			!strings.Contains(fmt.Sprint(c.got["warnings"]), told) {
			t.Errorf("p %v, %v", c.got["p"], c.got["warnings"])
		}
	}
}

// The index of a table stays in what is written, and names of rows and columns do.
func TestLabelsAreKept(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ name, table, args, want string }{
		{"a column of years", "year,a,b\n1990,1,1\n1991,2,5\n1992,4,2\n1993,3,3\n",
			"--problem tv1d --response a --sigma2 1 --lambda 1e-9", "year,a\n1990,1\n1991,2\n1992,4\n1993,3\n"},
		{"another index", "year,day,a\n1990,3,1\n1991,2,2\n1992,1,4\n1993,0,3\n",
			"--problem tv1d --response a --index day --sigma2 1 --lambda 1e-9", "day,a\n3,1\n2,2\n1,4\n0,3\n"},
		{"names of rows", "\"\",\"x\"\n\"r 1\",1\n\"r,2\",2\n\"r3\",4\n", "--problem tv1d --sigma2 1 --lambda 1e-9",
			"\"\",x\nr 1,1\n\"r,2\",2\nr3,4\n"},
		{"no index", "a,b\n3,1\n1,2\n2,3\n1,1\n", "--problem tv1d --response a --sigma2 1 --lambda 1e-9",
			"a\n3\n1\n2\n1\n"},
		{"no names", "3\n1\n2\n", "--problem tv1d --sigma2 1 --lambda 1e-9", "3\n1\n2\n"},
		{"a matrix", ",a,b,c\nr,1,2,3\ns,2,5,1\nt,0,1,1\n", "--problem svt --sigma2 1 --lambda 1e-9",
			"\"\",a,b,c\nr,1,2,3\ns,2,5,1\nt,0,1,1\n"},
		{"robust PCA", ",a,b,c\nr,1,2,3\ns,2,5,1\nt,0,1,1\n",
			"--problem robust-pca --sigma2 1 --lambda 1e-9 --gamma 1e-9", "\"\",a,b,c\nr,1,2,3\ns,2,5,1\nt,0,1,1\n"},
	} {
		out := filepath.Join(dir, "out.csv")
		status, _, stderr := command(t, append(strings.Fields("run "+c.args), "--data", text(t, "t.csv", c.table),
			"--out", out)...)
		got, err := os.ReadFile(out)
		rounded := rounded(t, string(got))
		if status != exitDone || err != nil || rounded != c.want {
			t.Errorf("%s: status %d, %s%v, %q, expected %q", c.name, status, stderr, err, rounded, c.want)
		}
	}
}

// rounded is a table with its numbers rounded to six digits.
func rounded(t *testing.T, table string) string {
	var s strings.Builder
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), ",")
		for j, cell := range cells {
			if v, ok := dataio.ParseNumber(cell); ok {
				cells[j] = fmt.Sprint(math.Abs(math.Round(1e6*v) / 1e6))
			}
		}
		s.WriteString(strings.Join(cells, ",") + "\n")
	}
	return s.String()
}

// Steps of the index that differ are named.
func TestUnequalStepsAreNamed(t *testing.T) {
	table := func(index ...string) string {
		s := "at,y\n"
		for i, at := range index {
			s += fmt.Sprintf("%s,%d\n", at, i*i%5)
		}
		return text(t, "t.csv", s)
	}
	for _, c := range []struct {
		index []string
		want  string
	}{
		{[]string{"2020-01-01", "2020-02-01", "2020-03-01", "2020-04-01"}, ""},
		{[]string{"2020-01-31", "2020-02-29", "2020-03-31", "2020-04-30"}, ""},
		{[]string{"2020-01", "2020-02", "2020-04", "2020-05"}, "from 1 to 2 months"},
		{[]string{"2020Q1", "2020Q2", "2020Q3", "2020Q4"}, ""},
		{[]string{"Jan 2020", "Feb 2020", "Mar 2020", "Apr 2020"}, ""},
		{[]string{"2020-01-03", "2020-01-06", "2020-01-07", "2020-01-08"}, "from 1 to 3 days"},
		{[]string{"2020-01-01 00:00:00", "2020-01-01 06:00:00", "2020-01-01 12:00:00", "2020-01-01 18:00:00"}, ""},
		{[]string{"2020-01-01T00:00:00Z", "2020-01-01T00:00:01.5Z", "2020-01-01T00:00:02Z", "2020-01-01T00:00:03Z"},
			"from 0.5 to 1.5 seconds"},
		{[]string{"20200228", "20200229", "20200301", "20200302"}, ""},
		{[]string{"1959.04", "1959.13", "1959.21", "1959.29", "1959.38"}, ""},
		{[]string{"4", "3", "2", "1"}, ""},
		{[]string{"1", "2", "4", "8"}, "from 1 to 4"},
	} {
		status, _, stderr := command(t, "run", "--problem", "tv1d", "--response", "y", "--lambda", "1", "--sigma2",
			"1", "--data", table(c.index...))
		if status != exitDone || c.want == "" && strings.Contains(stderr, "steps") ||
			!strings.Contains(stderr, c.want) {
			t.Errorf("%v: status %d, %s, expected %q", c.index, status, stderr, c.want)
		}
	}
}

// The variant of a problem that flags ask for is that of samples from a file of their own too.
func TestSamplesTakeTheVariant(t *testing.T) {
	y := make([]float64, 2*5*6)
	for i := range y {
		y[i] = math.Sin(float64(i * i))
	}
	for _, c := range []struct {
		flags string
		shape []int
	}{{"--problem trend1d --order 2", []int{30}}, {"--problem tv2d --anisotropic", []int{5, 6}}} {
		stack := npyFile(t, y, append([]int{2}, c.shape...)...)
		flags := append(strings.Fields(c.flags), "--lambda", "0.4", "--sigma2", "1")
		status, lines, stderr := command(t, append([]string{"montecarlo", "--y", stack}, flags...)...)
		want := object(t, append([]string{"run", "--data", npyFile(t, y[:30], c.shape...)}, flags...)...)
		if status != exitDone || !strings.Contains(lines, fmt.Sprintf(`"sure":%v,`, want["sure"])) {
			t.Errorf("%s: status %d, %s%s, expected sure %v", c.flags, status, stderr, lines, want["sure"])
		}
	}
}

// Whittaker's differences are divided by the distances of a table's index, of dates too and in either
// order, as by those of an array.
func TestWhittakerOnPlaces(t *testing.T) {
	days := []float64{0, 1, 4, 5, 6, 9, 11, 12}
	y := []float64{1, 3, 2, math.NaN(), 4, 6, 5, 7}
	rows := make([]string, len(y))
	for i, v := range y {
		day := time.Date(2024, 2, 20+int(days[i]), 0, 0, 0, 0, time.UTC)
		rows[i] = fmt.Sprintf("%s,%v\n", day.Format(time.DateOnly), v)
	}
	table := "day,y\n" + strings.Join(rows, "")
	slices.Reverse(rows)
	archive := filepath.Join(t.TempDir(), "y.npz")
	if err := dataio.WriteNPZ(archive, floats("y", y, len(y)), floats("at", days, len(y))); err != nil {
		t.Fatal(err)
	}
	args := func(more ...string) []string {
		return append(strings.Fields("run --problem whittaker --order 3 --lambda 2 --sigma2 1 --missing drop"), more...)
	}
	want := object(t, args("--data", archive)...)
	for _, table := range []string{table, "day,y\n" + strings.Join(rows, "")} {
		got := object(t, args("--data", text(t, "y.csv", table), "--response", "y")...)
		for _, key := range []string{"sure", "divergence", "alo"} {
			if w, g := want[key].(float64), got[key].(float64); !(math.Abs(w-g) <= 1e-9*(1+math.Abs(w))) {
				t.Errorf("%s is %.12g, expected %.12g", key, g, w)
			}
		}
		if s := fmt.Sprint(got["warnings"]); strings.Contains(s, "unequal-steps") {
			t.Errorf("warnings %s", s)
		}
	}
	words := text(t, "w.csv", "place,y\na,1\nb,2\nc,4\nd,3\ne,5\n")
	said := fmt.Sprint(object(t, args("--data", words, "--response", "y", "--index", "place")...)["warnings"])
	if !strings.Contains(said, "neither numbers nor dates") {
		t.Errorf("texts as places: %v", said)
	}
	for _, order := range []string{"0", "7"} {
		status, _, stderr := command(t, args("--data", archive, "--order", order)...)
		if status != exitUsage || !strings.Contains(stderr, "from 1 to 6") {
			t.Errorf("order %s: status %d, %s", order, status, stderr)
		}
	}
}
