package dataio

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"surepipe/internal/dataio/images"
)

func TestReadCSV(t *testing.T) {
	for _, test := range []struct {
		name, text, columns string
		rows                []string
		shape               []int
		want                []float64
	}{
		{"plain", "1,2.5\n-3e2,+.4\n", "", nil, []int{2, 2}, []float64{1, 2.5, -300, .4}},
		{"no newline at the end", "1\n2", "", nil, []int{2, 1}, []float64{1, 2}},
		{"header, mark, carriage returns", "\xef\xbb\xbfa,b\r\n1,2\r\n", "a b", nil, []int{1, 2}, []float64{1, 2}},
		{"carriage returns alone", "a,b\r1,2\r3,4\r", "a b", nil, []int{2, 2}, []float64{1, 2, 3, 4}},
		{"semicolon", "a;b\n1;2\n", "a b", nil, []int{1, 2}, []float64{1, 2}},
		{"decimal commas", "1;2,5\n3;4\n", "", nil, []int{2, 2}, []float64{1, 2.5, 3, 4}},
		{"tab", "a, b\tc\n1\t2\n", "a, b|c", nil, []int{1, 2}, []float64{1, 2}},
		{"spaces, as savetxt writes", " 1.0  2.0 \n 3.0  4.0 \n", "", nil, []int{2, 2}, []float64{1, 2, 3, 4}},
		{"a name with a space", "wind speed\n1\n2\n", "wind speed|", nil, []int{2, 1}, []float64{1, 2}},
		{"spaces at the ends of lines", "a b \n1 2 \n", "a b", nil, []int{1, 2}, []float64{1, 2}},
		{"separators at the ends of lines", "a,b\n1,2,\n3,4,\n", "a b", nil, []int{2, 2}, []float64{1, 2, 3, 4}},
		{"quoted separators", "\"a;b\",\"c\td\"\n\"1\", 2 \n", "a;b|c\td", nil, []int{1, 2}, []float64{1, 2}},
		{"savetxt's header", "# a,b\n1,2\n", "a b", nil, []int{1, 2}, []float64{1, 2}},
		{"blank lines", "\n\n1,2\n\n3,4\n \n", "", nil, []int{2, 2}, []float64{1, 2, 3, 4}},
		{"quotes after spaces", "\"price\", var 1, \"var 3\"\n 1, \"-0.7645\" ,2\n", "price|var 1|var 3", nil,
			[]int{1, 3}, []float64{1, -0.7645, 2}},
		{"comments", "# by hand\r\n\n#, \"x\na,b\n1,2\n", "a b", nil, []int{1, 2}, []float64{1, 2}},
		{"a comment over numbers", "# by hand\n1,2\n", "", nil, []int{1, 2}, []float64{1, 2}},
		{"a row in a comment", "# 0,x\n# 0,1\n1,2\n", "", nil, []int{1, 2}, []float64{1, 2}},
		{"savetxt's header of two lines", "# by hand\n# a;b\n1;2\n", "a b", nil, []int{1, 2}, []float64{1, 2}},
		{"a quoted name after a comment's sign", "\"#1\",b\n1,2\n", "#1 b", nil, []int{1, 2}, []float64{1, 2}},
		{"a year among names", "price,2019,size\n1,2,3\n", "price 2019 size", nil, []int{1, 3}, []float64{1, 2, 3}},
		{"quoted years", "price;\"2019\";\"0.5\"\n1;2;3\n", "price 2019 0.5", nil, []int{1, 3}, []float64{1, 2, 3}},
		{"quoted years alone", "\"2019\",\"2020\"\n1,2\n", "2019 2020", nil, []int{1, 2}, []float64{1, 2}},
		{"all cells quoted", "\"1\",\"2\"\n\"3\",\"4\"\n", "", nil, []int{2, 2}, []float64{1, 2, 3, 4}},
		{"pandas' index", ",a,b\n0,1,2\n1,3,4\n", "a b", []string{"0", "1"}, []int{2, 2}, []float64{1, 2, 3, 4}},
		{"pandas' index over counted columns", ",0,1\nx,1,2\ny,3,4\n", "0 1", []string{"x", "y"}, []int{2, 2},
			[]float64{1, 2, 3, 4}},
		{"R's names of rows", "\"\",\"a\"\n\"r 1\",1\n\"r2\",2\n", "a|", []string{"r 1", "r2"}, []int{2, 1},
			[]float64{1, 2}},
		{"names that ParseFloat reads", "inf,NaN,0x1p4\n1,2,3\n", "inf NaN 0x1p4", nil, []int{1, 3},
			[]float64{1, 2, 3}},
	} {
		a, err := ReadCSV(strings.NewReader(test.text), TableOptions{})
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		separator := " "
		if strings.Contains(test.columns, "|") {
			separator = "|"
		}
		if got := strings.Join(a.Columns, separator); !slices.Equal(a.Data, test.want) ||
			!slices.Equal(a.Shape, test.shape) || got != strings.TrimSuffix(test.columns, "|") ||
			!slices.Equal(a.RowNames, test.rows) {
			t.Errorf("%s: %v of shape %v, columns %q, rows %q", test.name, a.Data, a.Shape, a.Columns, a.RowNames)
		}
	}
}

func TestReadCSVRefuses(t *testing.T) {
	const amongNumbers = " among numbers; expected numbers, or a header line, where a name that is a number is quoted"
	for _, test := range []struct{ text, want string }{
		{"", "holds no rows"},
		{"a,b\n", "holds a header line, line 1, and no rows"},
		{"a,b\n1,2\n3\n", "line 3 has 1 cells, expected 2 as in the header line and the first row"},
		{"a,b\n1,\n", `line 2, column "b": the value is missing, expected a number`},
		{",a\nr,1\ns,NA\n", `line 3 ("s"), column "a": the value is missing, expected a number`},
		{"1,2\n3,x\n", `line 2, column 2: found "x" in a column of numbers such as 2 (line 1); expected a number, an empty cell or NA where one is missing (--na names other texts), or the column to be categorical, or dropped`},
		{"1,2\n3,-Inf\n", `line 2, column 2: found "-Inf", expected a finite number`},
		{"1,2\n3,1e999\n", `line 2, column 2: found "1e999", expected a finite number`},
		{"1,2\n3,\"0,5\"\n", `line 2, column 2: found "0,5", expected a number with a decimal point, and without separators of thousands`},
		{"a\n3 4\n", `line 2, column "a": found "3 4", expected cells separated by commas, semicolons or tabs`},
		{"1,x,3\n4,5,6\n", "line 1, column 2: found \"x\"" + amongNumbers},
		{"1,NA\n4,5\n", "line 1, column 2: the value is missing, expected a number"},
		{"\"1\",\"x\",\"3\"\n\"4\",\"5\",\"6\"\n", "line 1, column 2: found \"x\"" + amongNumbers},
		{"a,,b\n1,2,3\n", `line 2, column 2: found "2", but the column has no name in the header line`},
		{"a,b\n1,2,\n3,4,5\n", `line 3, column 3: found "5", but the column has no name in the header line`},
		{"# c\n\na,b\n1,2,3,4\n", "line 4 has 4 cells, expected 2 as in the header line and the first row; a cell " +
			"with a separator or a decimal comma in it must be quoted, or the separator be another"},
		{"a\tb\n\t1\n", `line 2, column "a": the value is missing, expected a number`},
		{"# c\n1,2 \"3\"\n", `line 2: a quote (") stands inside an unquoted cell, expected quotes around the whole cell, next to the separators`},
		{"1,2\n3,\"4\n5,6\n", `line 2: a quoted cell does not end in a quote (") followed by a separator; a quote within it is written twice ("")`},
		{"a,b,a\n1,2,3\n", `line 1: two columns are named "a"`},
		{"\xffa,b\n1,2\n", `line 1, column 1: the name "\xffa" is not in UTF-8`},
		{"1\n\n3\n", "line 2, column 1: the value is missing, expected a number"},
		{"1\n2\x00\n", "line 2 holds a byte 0, expected text in UTF-8"},
		{"\xff\xfe1\x00", "is text in UTF-16, expected UTF-8 (in a spreadsheet: save as \"CSV UTF-8\")"},
		{"name,a\nx,1\n", `column "name" holds texts such as "x", expected numbers: a table with other columns needs --response, and names of rows stand in a first column without a name`},
	} {
		_, err := ReadCSV(strings.NewReader(test.text), TableOptions{})
		checkError(t, err, test.want)
	}
}

func TestWriteCSVRoundTrips(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.csv")
	a := Array{
		Name: "a", Shape: []int{3, 2}, Labels: Labels{RowNames: []string{"a", "b,c", ""},
			Columns: []string{"x, y", "z"}},
		Data: []float64{0.1, math.MaxFloat64, math.SmallestNonzeroFloat64, -1. / 3, math.Copysign(0, -1),
			12345678901234567},
	}
	if err := WriteCSV(path, a); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Floats("a")
	if err != nil || !slices.Equal(got.Data, a.Data) || !math.Signbit(got.Data[4]) ||
		!slices.Equal(got.Columns, a.Columns) || !slices.Equal(got.RowNames, a.RowNames) {
		t.Errorf("%+v, %v", got, err)
	}
	alone(t, path)
	var text bytes.Buffer
	if err := EncodeCSV(&text, Array{Shape: []int{2}, Ints: []int64{-1, 1 << 60}}); err != nil ||
		text.String() != "-1\n1152921504606846976\n" {
		t.Errorf("%q, %v", text.String(), err)
	}
	checkError(t, EncodeCSV(&text, Array{Name: "a", Shape: []int{1, 2}, Data: []float64{0, math.NaN()}}),
		`array "a" holds NaN at [0, 1], expected finite numbers`)
	text.Reset()
	if err := EncodeCSV(&text, Array{Absent: true, Shape: []int{2, 2}, Data: []float64{0, math.NaN(), math.NaN(),
		2}}); err != nil || text.String() != "0,\n,2\n" {
		t.Errorf("with blanks %q, %v", text.String(), err)
	}
	checkError(t, EncodeCSV(&text, Array{Name: "a", Absent: true, Shape: []int{2}, Data: []float64{math.Inf(1), 1}}),
		`array "a" holds +Inf at [0], expected finite numbers`)
	checkError(t, EncodeCSV(&text, Array{Name: "a", Shape: []int{1, 1, 1}, Data: []float64{0}}),
		`array "a" has shape (1, 1, 1), expected one axis or two in a .csv file`)
}

func TestColumnRefuses(t *testing.T) {
	a := Array{Name: "t", Shape: []int{1, 2}, Data: []float64{1, 2}, Labels: Labels{Columns: []string{"Price", "b"}}}
	_, err := a.Column("price")
	checkError(t, err, `column "price" is missing; the table holds "Price", "b": did you mean "Price"?`)
	a.Columns = nil
	_, err = a.Column("b")
	checkError(t, err, `array "t" has no column names, expected a table with a header line to take column "b" from`)
}

// Every level of 8 and of 16 bits comes back as it was.
func TestPNGRoundTrips(t *testing.T) {
	for _, bits := range []int{8, 16} {
		n := 1 << (bits / 2)
		a := Array{Name: "levels", Shape: []int{n, n}, Data: make([]float64, n*n)}
		for i := range a.Data {
			a.Data[i] = float64(i) / float64(n*n-1)
		}
		path := filepath.Join(t.TempDir(), "levels.png")
		if clamped, err := WriteImage(path, func(w io.Writer) (int,
			error) {
			return images.EncodePNG(w, a, bits)
		}); clamped != 0 || err != nil {
			t.Fatal(clamped, err)
		}
		s, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Floats("levels")
		if err != nil || !slices.Equal(got.Data, a.Data) || !slices.Equal(got.Shape, a.Shape) {
			t.Errorf("%d bits: levels differ, %v", bits, err)
		}
	}
}

func TestWritePNGClampsAndCounts(t *testing.T) {
	var file bytes.Buffer
	// 1 + 1e-12 rounds to the largest level and is not clamped.
	clamped, err := images.EncodePNG(&file, Array{Shape: []int{1, 5}, Data: []float64{-0.1, 0.5, 1 + 1e-12, 1.2,
		-1e-9}}, 8)
	if clamped != 2 || err != nil {
		t.Errorf("%d clamped, %v", clamped, err)
	}
	a, err := images.ReadPNG(&file)
	if err != nil || !slices.Equal(a.Data, []float64{0, 128. / 255, 1, 1, 0}) {
		t.Errorf("%v, %v", a.Data, err)
	}
	_, err = images.EncodePNG(&file, Array{Name: "a", Shape: []int{1, 1}, Data: []float64{math.NaN()}}, 8)
	checkError(t, err, `array "a" holds NaN at [0, 0], expected finite numbers`)
	_, err = images.EncodePNG(&file, Array{Name: "a", Shape: []int{1}, Data: []float64{1}}, 8)
	checkError(t, err, `array "a" has shape (1,), expected (rows, columns) of an image, or (rows, columns, 3) of a colour image`)
	_, err = images.EncodePNG(&file, a, 12)
	checkError(t, err, "a PNG image of 12 bits, expected 8 or 16")
}

func TestReadPNGReadsThePhotograph(t *testing.T) {
	f, err := os.Open("../../testdata/camera.png")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a, err := images.ReadPNG(f)
	if err != nil || !slices.Equal(a.Shape, []int{256, 256}) {
		t.Fatal(a.Shape, err)
	}
	mean := 0.0
	for _, v := range a.Data {
		mean += v / float64(len(a.Data))
	}
	// The coat at the lower left is black, the sky light.
	if coat, sky := a.Data[128*256+30], a.Data[10*256+10]; !(coat < 0.1 && sky > 0.6 && math.Abs(mean-0.506) < 0.001) {
		t.Errorf("coat %g, sky %g, mean %g", coat, sky, mean)
	}
}

func TestReadPNGRefuses(t *testing.T) {
	box := image.Rect(0, 0, 2, 2)
	encode := func(im image.Image) []byte {
		var file bytes.Buffer
		if err := png.Encode(&file, im); err != nil {
			t.Fatal(err)
		}
		return file.Bytes()
	}
	hint := ", expected grayscale or RGB; convert it, for instance with magick in.png -alpha off -type " +
		"TrueColor out.png"
	gray := encode(image.NewGray(box))
	huge := slices.Clone(gray)
	copy(huge[16:], "\x00\x0f\xff\xff\x00\x0f\xff\xff")
	binary.BigEndian.PutUint32(huge[29:], crc32.ChecksumIEEE(huge[12:29]))
	animated := slices.Concat(gray[:33], []byte("\x00\x00\x00\x00acTL\x00\x00\x00\x00"), gray[33:])
	binary.BigEndian.PutUint32(animated[41:], crc32.ChecksumIEEE(animated[37:41]))
	for _, test := range []struct {
		file []byte
		want string
	}{
		{encode(image.NewNRGBA(box)), "is an image with transparent pixels" + hint},
		{encode(image.NewNRGBA64(box)), "is an image with transparent pixels" + hint},
		{animated, "is an animated image" + hint},
		{encode(image.NewPaletted(box, color.Palette{color.Black, color.White})), "is an image with a palette" + hint},
		{gray[:len(gray)-20], "is not a PNG image, or truncated or corrupt (png: invalid format: unexpected EOF)"},
		{gray[:20], "is not a PNG image, or truncated or corrupt (unexpected end)"},
		{huge, "is truncated or corrupt (its header states 1048575 x 1048575 pixels, more than 75 bytes can hold)"},
		{nil, "is not a PNG image, or truncated or corrupt (unexpected end)"},
	} {
		_, err := images.ReadPNG(bytes.NewReader(test.file))
		checkError(t, err, test.want)
	}
}

// A value that does not exist is an empty cell where the table says so, else an error; Inf always is.
func TestWriteCSVLeavesOutWhatDoesNotExist(t *testing.T) {
	a := Array{Shape: []int{2, 2}, Data: []float64{1, math.NaN(), 2.5, 3}, Labels: Labels{Columns: []string{"a", "b"}}}
	var b bytes.Buffer
	if err := EncodeCSV(&b, a); err == nil {
		t.Errorf("NaN was written as %q", b.String())
	}
	a.Absent = true
	b.Reset()
	if err := EncodeCSV(&b, a); err != nil || b.String() != "a,b\n1,\n2.5,3\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
	a.Data[3] = math.Inf(1)
	if err := EncodeCSV(&b, a); err == nil {
		t.Error("Inf was written")
	}
}
