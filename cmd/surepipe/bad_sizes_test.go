package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"surepipe/internal/stored"
)

// mostRow is the largest number of bytes of a row of a table.
const mostRow = 1 << 25

// badSizes are inputs of a few bytes that state sizes or raise costs that nothing can hold.
func badSizes(t *testing.T) []badInput {
	spec := func(operator, regularizer string) string {
		data := npyFile(t, make([]float64, 64), 8, 8)
		return "--lambda 1 --sigma2 1 --spec " + text(t, "s.yaml",
			"data: "+data+"\noperator: "+operator+"\nregularizer: "+regularizer+"\n")
	}
	y := npyFile(t, []float64{1, 2, 3}, 3)
	var places []string
	for i := range 64 {
		places = append(places, strconv.Itoa(i))
	}
	lasso := "--problem lasso --lambda 1 --y " + y + " --X "
	mtx := func(size string) string {
		return text(t, "X.mtx", "%%MatrixMarket matrix coordinate real general\n"+size+" 3\n1 1 1\n2 2 1\n3 1 2\n")
	}
	all := []badInput{
		{"columns of a sparse matrix", lasso + mtx("3 2000000000"),
			"the sparse matrix has 2000000000 columns for 3 entries, expected an entry for every 64 of them"},
		{"rows of a sparse matrix", lasso + mtx("2000000000 3"), "the sparse matrix has 2000000000 rows for 3 entries"},
		{"a shape of an operator", spec("{product: [identity, {identity: {shape: [46340, 46340]}}]}", "{l1: lambda}"),
			"an estimate with shape (46340, 46340) takes 68.7 GB in memory, of which there are"},
		{"a shape beyond an index", spec("{identity: {shape: [100000, 100000]}}", "{l1: lambda}"),
			"shape is (100000, 100000), expected at most 2147483647 entries"},
		{"angles", spec("{projection: {angles: 1000000000}}", "{l1: lambda}"),
			"projection at 1000000000 angles with 8 detectors has 8000000000 values, expected 64"},
		{"an image of a projection", spec("{projection: {angles: 8, shape: [46340, 46340]}}", "{l1: lambda}"),
			"an estimate with shape (46340, 46340) takes 68.7 GB"},
		{"places of a sequence", spec("{selection: {indices: ["+strings.Join(places, ",")+"], shape: [2147483647]}}",
			"{l1: lambda}"), "takes 68.7 GB in memory"},
		{"levels of a wavelet transform", spec("{wavelet: {family: db2, levels: 1000000000}}", "{l1: lambda}"),
			"wavelet transform of 1000000000 levels, want 1 to"},
		{"a patch", spec("identity", "{local-low-rank: {weight: lambda, patch: 1000000000, stride: 1}}"), "expected"},
		{"anchors", spec("&a {scale: {by: 2, operator: *a}}", "{l1: lambda}"), "anchors and aliases are not allowed"},
		{"points of a grid", "--problem svt --lambda 1:2:1000000000 --data " + npyFile(t, []float64{1, 2, 3, 4}, 2,
			2), "1:2:1000000000"},
		{"a line of a packed matrix", "--problem svt --lambda 1 --data " + packed(t, "m.csv.gz",
			strings.Repeat("1", mostRow+1)), "holds a row of more than 32 MB"},
		{"pixels of a PNG", "--problem svt --lambda 1 --data " + bytesFile(t, "a.png", hugePNG()),
			"an image of 120000 x 60000 pixels takes 58.5 GB in memory, of which there are"},
		{"samples at once", "--parallel 1000000000 --problem svt --lambda 1 --data " + y, "--parallel"},
	}
	// Some 60 GB can be held where there is as much memory.
	return slices.DeleteFunc(all, func(c badInput) bool {
		return strings.Contains(c.want, " GB") && (stored.Memory() == 0 || stored.Memory() > 50e9)
	})
}

// packed is a text compressed with gzip.
func packed(t *testing.T, name, content string) string {
	var to bytes.Buffer
	z := gzip.NewWriter(&to)
	if _, err := z.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return bytesFile(t, name, to.String())
}

// hugePNG is the header of an image of 120000 x 60000 pixels of one bit, and as many bytes as could hold it.
func hugePNG() string {
	chunk := func(kind, data string) string {
		out := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
		out = append(append(out, kind...), data...)
		return string(binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out[4:])))
	}
	size := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 60000), 120000)
	return "\x89PNG\r\n\x1a\n" + chunk("IHDR", string(size)+"\x01\x00\x00\x00\x00") + chunk("IDAT",
		strings.Repeat("\x00", 1<<20))
}

// Operators within operators, however deep, take time in proportion to their number.
func TestDeepSpecifications(t *testing.T) {
	begun := time.Now()
	for _, around := range []string{"{scale: {by: 1.01, operator: %}}", "{sum: [%]}", "{adjoint: %}", "{hstack: [%]}",
		"{product: [%]}"} {
		operator := "identity"
		for range 60 {
			operator = strings.ReplaceAll(around, "%", operator)
		}
		data := npyFile(t, []float64{1, 2, 3, 4}, 2, 2)
		path := text(t, "deep.yaml", "data: "+data+"\noperator: "+operator+"\nregularizer: {l1: lambda}\nlambda: "+
			"0.1\nsigma2: 1\n")
		if status, _, stderr := command(t, "run", "--spec", path, "--out",
			filepath.Join(t.TempDir(), "fit.npz")); status != exitDone {
			t.Errorf("%s: status %d, %s", around, status, stderr)
		}
	}
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}
