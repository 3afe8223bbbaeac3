package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sbinet/npyio/npy"
	"gonum.org/v1/gonum/mat"

	"surepipe/problems"
)

// fileData is what a .npz file says about a problem.
type fileData struct {
	problems.Data
	// Stack holds the samples where y has one axis more than the problem's y, and
	// is nil where y is a single sample. The samples share one array; Data.Y is the
	// first of them.
	Stack [][]float64
	// Found lists the file's arrays in the file's order.
	Found []string
}

// dataNames are the arrays that a data file may hold. Others are not read.
var dataNames = []string{"X", "y", "indices", "shape", "mu", "sigma2", "lambda", "lambda2", "gamma"}

// A layout says which arrays a problem is made of.
type layout struct {
	design    bool
	selection bool
	// yRank is the number of axes of one sample, yShape their names.
	yRank  int
	yShape string
}

var (
	regressionLayout = layout{design: true, yRank: 1, yShape: "(d,)"}
	matrixLayout     = layout{yRank: 2, yShape: "(m, n)"}
	layouts          = map[string]layout{
		"ols": regressionLayout, "ridge": regressionLayout, "lasso": regressionLayout, "elastic-net": regressionLayout,
		"svt": matrixLayout, "robust-pca": matrixLayout,
		"matrix-completion": {selection: true, yRank: 1, yShape: "(d,)"},
	}
)

// readData reads the arrays that the named problem needs, and those that every
// problem may have, from a .npz file. Every error is bad input and names the file
// and the array. Of a problem that it does not know it reads the settings alone.
func readData(path, problem string) (fileData, error) {
	return readFile(path, problem, false)
}

// readSamples is readData for many samples: y may be a stack, N x d or
// N x m x n, and may be missing where mu is not. Y is mu then.
func readSamples(path, problem string) (fileData, error) {
	return readFile(path, problem, true)
}

func readFile(path, problem string, stacks bool) (fileData, error) {
	// Looked at before it is opened: opening a pipe would wait for its writer.
	info, err := os.Stat(path)
	if err != nil {
		return fileData{}, usagef("%s: %w", path, bareError(err))
	}
	switch {
	case info.IsDir():
		return fileData{}, usagef("%s: is a directory, expected a numpy .npz file", path)
	case !info.Mode().IsRegular():
		return fileData{}, usagef("%s: is not a regular file, expected a numpy .npz file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return fileData{}, usagef("%s: %w", path, bareError(err))
	}
	defer f.Close()
	data, err := readArchive(f, info.Size(), problem, stacks)
	if err != nil {
		return fileData{}, usagef("%s: %w", path, err)
	}
	return data, nil
}

// bareError is err without the operation and the path that package os adds.
func bareError(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// readArchive is readData of size bytes at r. Its errors name no file.
func readArchive(r io.ReaderAt, size int64, problem string, stacks bool) (data fileData, err error) {
	a, err := openArchive(r, size)
	if err != nil {
		return fileData{}, err
	}
	data.Found = a.names
	l, known := layouts[problem]
	if l.design {
		if data.X, err = a.matrix("X", "(d, p)"); err != nil {
			return fileData{}, err
		}
	}
	if known {
		if err := a.readY(&data, l, stacks); err != nil {
			return fileData{}, err
		}
	}
	if l.selection {
		const places = "(d,), places in the row-major matrix"
		if data.Indices, err = a.integers("indices", places); err != nil {
			return fileData{}, err
		}
		if data.Shape, err = a.integers("shape", "(2,)"); err != nil {
			return fileData{}, err
		}
		if len(data.Shape) != 2 {
			return fileData{}, fmt.Errorf("array \"shape\" has shape (%d,), expected (2,)", len(data.Shape))
		}
	}
	for _, s := range []struct {
		name string
		dst  **float64
	}{{"sigma2", &data.Sigma2}, {"lambda", &data.Lambda}, {"lambda2", &data.Lambda2}, {"gamma", &data.Gamma}} {
		if !a.has(s.name) {
			continue
		}
		v, err := a.scalar(s.name)
		if err != nil {
			return fileData{}, err
		}
		*s.dst = &v
	}
	return data, nil
}

// readY reads y, alone or in a stack, and mu.
func (a *archive) readY(data *fileData, l layout, stacks bool) error {
	if a.has("y") || !stacks || !a.has("mu") {
		y, err := a.open("y", l.yShape)
		if err != nil {
			return err
		}
		defer y.Close()
		switch stacked := len(y.shape) == l.yRank+1; {
		case len(y.shape) == l.yRank:
		case stacked && stacks:
			data.Stack = make([][]float64, y.shape[0])
		case stacked && y.shape[len(y.shape)-1] != 1:
			return fmt.Errorf("array \"y\" has shape %s, expected %s: a stack of samples is for surepipe montecarlo", shapeString(y.shape), l.yShape)
		case stacks:
			return fmt.Errorf("array \"y\" has shape %s, expected %s or (N, %s, a stack of N samples", shapeString(y.shape), l.yShape, strings.Replace(l.yShape[1:], ",)", ")", 1))
		default:
			// A column of d x 1 is no stack of samples to whoever wrote it.
			return y.shapeError(l.yShape)
		}
		if data.Y, err = y.reals(); err != nil {
			return err
		}
		data.YShape = y.shape
		if data.Stack != nil {
			data.YShape = y.shape[1:]
			n := len(data.Y) / y.shape[0]
			for i := range data.Stack {
				data.Stack[i] = data.Y[i*n : (i+1)*n : (i+1)*n]
			}
			// A Problem is made of the first sample and checks no other.
			for i, v := range data.Y {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					return fmt.Errorf("array \"y\" holds %g at %s, expected finite numbers", v, placeString(i, y.shape))
				}
			}
			data.Y = data.Stack[0]
		}
	}
	if !a.has("mu") {
		return nil
	}
	mu, err := a.open("mu", l.yShape)
	if err != nil {
		return err
	}
	defer mu.Close()
	switch {
	case data.YShape == nil && len(mu.shape) != l.yRank:
		return mu.shapeError(l.yShape)
	case data.YShape != nil && !slices.Equal(mu.shape, data.YShape):
		which := "\"y\""
		if data.Stack != nil {
			which = "each sample of \"y\""
		}
		return mu.shapeError(fmt.Sprintf("%s as %s has", shapeString(data.YShape), which))
	}
	if data.Mu, err = mu.reals(); err != nil {
		return err
	}
	if data.YShape == nil {
		data.Y, data.YShape = data.Mu, mu.shape
	}
	return nil
}

// missing says that the file holds no such array, and what it holds.
func missing(name, expected string, found []string) error {
	if expected != "" {
		expected = ", expected shape " + expected
	}
	return fmt.Errorf("array %q is missing%s; %s", name, expected, suggest(name, found))
}

// suggest says which arrays a file holds in the place of a missing one, and which
// of them may be meant.
func suggest(missing string, found []string) string {
	if len(found) == 0 {
		return "the file holds no arrays"
	}
	const most = 12
	var s strings.Builder
	s.WriteString("the file holds ")
	for i, name := range found[:min(len(found), most)] {
		if i > 0 {
			s.WriteString(", ")
		}
		fmt.Fprintf(&s, "%.40q", name)
	}
	if len(found) > most {
		fmt.Fprintf(&s, " and %d more", len(found)-most)
	}
	nearest, least := "", len(missing)/2+1
	for _, name := range found {
		// A name with a use of its own is not a misspelling.
		if slices.Contains(dataNames, name) {
			continue
		}
		lower, wanted := strings.ToLower(name), strings.ToLower(missing)
		d := 0
		if !strings.HasPrefix(lower, wanted+"_") {
			d = editDistance(lower, wanted)
		}
		if d < least {
			nearest, least = name, d
		}
	}
	if nearest != "" {
		fmt.Fprintf(&s, ": did you mean %q?", nearest)
	}
	return s.String()
}

// editDistance is Levenshtein's: insertions, deletions and substitutions.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

// archive is a .npz file: a zip archive of .npy files.
//
// Package npyio reads the headers. The archive and the values are read here: its
// own reader takes whatever one Read returns for a whole element, which silently
// scrambles compressed files, and believes every size that a header states.
type archive struct {
	size  int64
	files map[string]*zip.File
	names []string
}

func openArchive(r io.ReaderAt, size int64) (*archive, error) {
	if size == 0 {
		return nil, errors.New("is empty (0 bytes), expected a numpy .npz file")
	}
	z, err := zip.NewReader(r, size)
	if err != nil {
		magic := make([]byte, 6)
		n, _ := r.ReadAt(magic, 0)
		switch magic = magic[:n]; {
		case string(magic) == string(npy.Magic[:]):
			return nil, errors.New("is a single array (.npy), expected a .npz file as numpy.savez writes it")
		case bytes.HasPrefix(magic, []byte("PK")):
			return nil, fmt.Errorf("is truncated or corrupt (%w)", err)
		}
		return nil, errors.New("is not a numpy .npz file")
	}
	a := &archive{size: size, files: make(map[string]*zip.File)}
	for _, f := range z.File {
		name, ok := strings.CutSuffix(f.Name, ".npy")
		if !ok {
			continue
		}
		if _, ok := a.files[name]; ok {
			return nil, fmt.Errorf("array %q is there twice", name)
		}
		a.files[name] = f
		a.names = append(a.names, name)
	}
	return a, nil
}

func (a *archive) has(name string) bool { return a.files[name] != nil }

// matrix reads a 2-d array. The matrix takes the array over without a copy.
func (a *archive) matrix(name, expected string) (*mat.Dense, error) {
	m, err := a.open(name, expected)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if len(m.shape) != 2 {
		return nil, m.shapeError(expected)
	}
	v, err := m.reals()
	if err != nil {
		return nil, err
	}
	return mat.NewDense(m.shape[0], m.shape[1], v), nil
}

// integers reads a 1-d array of integers, or of floats that are integers.
func (a *archive) integers(name, expected string) ([]int, error) {
	v, err := a.open(name, expected)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	if len(v.shape) != 1 {
		return nil, v.shapeError(expected)
	}
	return v.integers()
}

// scalar reads an array of a single number.
func (a *archive) scalar(name string) (float64, error) {
	s, err := a.open(name, "")
	if err != nil {
		return 0, err
	}
	defer s.Close()
	for _, n := range s.shape {
		if n != 1 {
			return 0, s.shapeError("a single number")
		}
	}
	v, err := s.reals()
	if err != nil {
		return 0, err
	}
	return v[0], nil
}

// arrayReader is an array of the archive whose header has been read and checked:
// its type is a real number's, none of its axes is empty, and its values fit into
// what the archive can hold.
type arrayReader struct {
	io.Closer
	name    string
	r       io.Reader
	dtype   dtype
	shape   []int
	fortran bool
	len     int
}

// maxHeader bounds the header of an array. numpy itself takes no more than 10,000
// bytes from a file that it does not trust.
const maxHeader = 10000

// open reads an array's header; expected is its shape, for the error of an array
// that is missing.
func (a *archive) open(name, expected string) (r *arrayReader, err error) {
	f := a.files[name]
	if f == nil {
		return nil, missing(name, expected, a.names)
	}
	corrupt := func(err error) error { return corruptError(name, err) }
	// A zip archive states its entries' sizes and may lie; deflate at its best packs
	// 1032 bytes into one.
	if f.CompressedSize64 > uint64(a.size) || f.UncompressedSize64/1032 > f.CompressedSize64 {
		return nil, corrupt(errors.New("more bytes stated than the file can hold"))
	}
	rc, err := f.Open()
	if err != nil {
		return nil, corrupt(err)
	}
	defer func() {
		if err != nil {
			rc.Close()
		}
	}()
	buffered := bufio.NewReaderSize(rc, 64<<10)
	header, size, err := readHeader(buffered)
	if err != nil {
		return nil, corrupt(err)
	}
	r = &arrayReader{Closer: rc, name: name, r: buffered, shape: header.Descr.Shape, fortran: header.Descr.Fortran, len: 1}
	if r.dtype, err = parseDtype(header.Descr.Type); err != nil {
		return nil, fmt.Errorf("array %q: %w", name, err)
	}
	for _, n := range r.shape {
		switch {
		case n < 0:
			return nil, corrupt(fmt.Errorf("its header states shape %s", shapeString(r.shape)))
		case n == 0:
			return nil, fmt.Errorf("array %q is empty, its shape is %s", name, shapeString(r.shape))
		}
	}
	room := max(int64(f.UncompressedSize64)-size, 0) / int64(r.dtype.size)
	for _, n := range r.shape {
		if int64(n) > room/int64(r.len) {
			return nil, corrupt(fmt.Errorf("%d values are there, its header states shape %s", room, shapeString(r.shape)))
		}
		r.len *= n
	}
	if room < 1 {
		return nil, corrupt(errors.New("no values are there"))
	}
	return r, nil
}

func corruptError(name string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("unexpected end")
	}
	return fmt.Errorf("array %q is truncated or corrupt (%w)", name, err)
}

// readHeader reads the header of a .npy file and tells its length in bytes.
func readHeader(r *bufio.Reader) (header npy.Header, size int64, err error) {
	// The library allocates what the header states, and cuts the dictionary at
	// places that it has not checked: the length is checked for it, and the text is
	// given to it alone.
	prefix, err := r.Peek(12)
	if err != nil {
		return header, 0, err
	}
	if !bytes.HasPrefix(prefix, npy.Magic[:]) {
		return header, 0, errors.New("not a .npy array")
	}
	switch major := prefix[6]; major {
	case 1:
		size = 10 + int64(binary.LittleEndian.Uint16(prefix[8:]))
	case 2:
		size = 12 + int64(binary.LittleEndian.Uint32(prefix[8:]))
	default:
		return header, 0, fmt.Errorf(".npy version %d, expected 1 or 2", major)
	}
	if size > maxHeader {
		return header, 0, fmt.Errorf("its header states a length of %d bytes", size)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(r, text); err != nil {
		return header, 0, err
	}
	defer func() {
		if recover() != nil {
			err = errors.New("its header is not a .npy header")
		}
	}()
	parsed, err := npy.NewReader(bytes.NewReader(text))
	if err != nil {
		return header, 0, errors.New("its header is not a .npy header")
	}
	return parsed.Header, size, nil
}

// shapeError says that the shape is not the expected one.
func (r *arrayReader) shapeError(expected string) error {
	return fmt.Errorf("array %q has shape %s, expected %s", r.name, shapeString(r.shape), expected)
}

// reals reads the values in C order.
func (r *arrayReader) reals() ([]float64, error) {
	dst := make([]float64, r.len)
	decode := r.dtype.real()
	err := r.each(func(at int, b []byte) error {
		dst[at] = decode(b)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return dst, nil
}

// integers reads the values of a 1-d array.
func (r *arrayReader) integers() ([]int, error) {
	if r.dtype.kind == 'b' {
		return nil, fmt.Errorf("array %q: found dtype %s, expected integers", r.name, r.dtype)
	}
	dst := make([]int, r.len)
	bits, real := r.dtype.bits(), r.dtype.real()
	err := r.each(func(at int, b []byte) error {
		switch r.dtype.kind {
		case 'i':
			shift := 64 - 8*r.dtype.size
			v := int64(bits(b)<<shift) >> shift
			dst[at] = int(v)
			if int64(dst[at]) != v {
				return fmt.Errorf("array %q holds %d at [%d], too large an integer", r.name, v, at)
			}
		case 'u':
			v := bits(b)
			if v > math.MaxInt {
				return fmt.Errorf("array %q holds %d at [%d], too large an integer", r.name, v, at)
			}
			dst[at] = int(v)
		default:
			// Beyond 2^53 a float no longer tells neighbouring integers apart.
			v := real(b)
			if v != math.Trunc(v) || math.Abs(v) > min(1<<53, math.MaxInt) {
				return fmt.Errorf("array %q holds %g at [%d], expected integers", r.name, v, at)
			}
			dst[at] = int(v)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return dst, nil
}

// each calls f with every element's bytes and its place in C order, and reads the
// entry to its end, where the archive's checksum is compared.
func (r *arrayReader) each(f func(at int, b []byte) error) error {
	rank := len(r.shape)
	strides, index := make([]int, rank), make([]int, rank)
	for axis, stride := rank-1, 1; axis >= 0; axis-- {
		strides[axis] = stride
		stride *= r.shape[axis]
	}
	at := 0
	buf := make([]byte, 4096*r.dtype.size)
	for left := r.len; left > 0; {
		chunk := buf[:min(left*r.dtype.size, len(buf))]
		if _, err := io.ReadFull(r.r, chunk); err != nil {
			return corruptError(r.name, err)
		}
		left -= len(chunk) / r.dtype.size
		for ; len(chunk) > 0; chunk = chunk[r.dtype.size:] {
			if err := f(at, chunk[:r.dtype.size]); err != nil {
				return err
			}
			if !r.fortran {
				at++
				continue
			}
			for axis := range rank {
				at += strides[axis]
				if index[axis]++; index[axis] < r.shape[axis] {
					break
				}
				at -= strides[axis] * r.shape[axis]
				index[axis] = 0
			}
		}
	}
	if _, err := io.Copy(io.Discard, r.r); err != nil {
		return corruptError(r.name, err)
	}
	return nil
}

// dtype is numpy's type of a real number: kind b, i, u or f, and the size in bytes.
type dtype struct {
	kind  byte
	size  int
	order binary.ByteOrder
	text  string
}

func (t dtype) String() string { return t.text }

// parseDtype reads numpy's own notation, such as <f8.
func parseDtype(text string) (dtype, error) {
	t := dtype{text: text, order: binary.LittleEndian}
	kind := strings.TrimLeft(text, "<>|=")
	if len(text)-len(kind) > 1 || len(kind) < 2 {
		return t, dtypeError(text, "real numbers")
	}
	if text[0] == '>' {
		t.order = binary.BigEndian
	}
	t.kind = kind[0]
	t.size, _ = strconv.Atoi(kind[1:])
	switch kind {
	case "b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8":
		return t, nil
	case "f12", "f16":
		return t, dtypeError(text, "real numbers of at most 64 bits")
	}
	return t, dtypeError(text, "real numbers")
}

func dtypeError(text, expected string) error {
	switch {
	case strings.ContainsAny(text, "('"):
		text = "a structured dtype"
	case text == "" || len(text) > 20 || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		text = "an unknown dtype"
	case strings.HasSuffix(text, "O"):
		text = "dtype object"
	default:
		text = "dtype " + text
	}
	return fmt.Errorf("found %s, expected %s", text, expected)
}

// bits decodes an element to its bit pattern.
func (t dtype) bits() func([]byte) uint64 {
	switch t.size {
	case 1:
		return func(b []byte) uint64 { return uint64(b[0]) }
	case 2:
		return func(b []byte) uint64 { return uint64(t.order.Uint16(b)) }
	case 4:
		return func(b []byte) uint64 { return uint64(t.order.Uint32(b)) }
	}
	return t.order.Uint64
}

// real decodes an element to the nearest float64.
func (t dtype) real() func([]byte) float64 {
	bits := t.bits()
	switch t.kind {
	case 'b':
		return func(b []byte) float64 {
			if b[0] != 0 {
				return 1
			}
			return 0
		}
	case 'i':
		shift := 64 - 8*t.size
		return func(b []byte) float64 { return float64(int64(bits(b)<<shift) >> shift) }
	case 'u':
		return func(b []byte) float64 { return float64(bits(b)) }
	}
	switch t.size {
	case 2:
		return func(b []byte) float64 { return float16(uint16(bits(b))) }
	case 4:
		return func(b []byte) float64 { return float64(math.Float32frombits(uint32(bits(b)))) }
	}
	return func(b []byte) float64 { return math.Float64frombits(bits(b)) }
}

// float16 is the value of an IEEE 754 binary16: 1 bit sign, 5 bits exponent,
// 10 bits fraction.
func float16(bits uint16) float64 {
	sign := 1.0
	if bits>>15 != 0 {
		sign = -1
	}
	exponent, fraction := int(bits>>10&0x1f), float64(bits&0x3ff)
	switch {
	case exponent == 0x1f && fraction != 0:
		return math.NaN()
	case exponent == 0x1f:
		return math.Inf(int(sign))
	case exponent == 0:
		return sign * math.Ldexp(fraction, -24)
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}

// shapeString is a shape in Python's notation.
func shapeString(shape []int) string {
	if len(shape) == 1 {
		return fmt.Sprintf("(%d,)", shape[0])
	}
	parts := make([]string, len(shape))
	for i, n := range shape {
		parts[i] = strconv.Itoa(n)
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

// placeString is the place of flat index i in an array of the given shape.
func placeString(i int, shape []int) string {
	place := make([]string, len(shape))
	for axis := len(shape) - 1; axis >= 0; axis-- {
		place[axis] = strconv.Itoa(i % shape[axis])
		i /= shape[axis]
	}
	return "[" + strings.Join(place, ", ") + "]"
}

// namedArray is an array to be written: its shape, empty for a scalar, and its
// values in C order, as float64s or else as int64s.
type namedArray struct {
	name     string
	shape    []int
	float64s []float64
	int64s   []int64
}

// writeNPZ writes the arrays as numpy.savez does. The same arrays give the same
// bytes. A file of that name is replaced when the new one is complete, or stays
// as it was.
func writeNPZ(path string, arrays []namedArray) (err error) {
	f, target, err := createBeside(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, bareError(err))
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = fmt.Errorf("%s: %w", path, bareError(err))
		}
	}()
	buffered := bufio.NewWriterSize(f, 1<<20)
	z := zip.NewWriter(buffered)
	for _, a := range arrays {
		// Stored, as numpy does: the noise in the data leaves nothing to compress.
		w, err := z.CreateHeader(&zip.FileHeader{Name: a.name + ".npy", Method: zip.Store})
		if err != nil {
			return err
		}
		if err := a.write(w); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), target)
}

// write writes the array as a .npy file of version 1.0. The writer of package
// npyio knows no shapes of three axes.
func (a namedArray) write(w io.Writer) error {
	descr, n := "<f8", len(a.float64s)
	at := func(i int) uint64 { return math.Float64bits(a.float64s[i]) }
	if a.int64s != nil {
		descr, n = "<i8", len(a.int64s)
		at = func(i int) uint64 { return uint64(a.int64s[i]) }
	}
	size := 1
	for _, k := range a.shape {
		size *= k
	}
	if size != n {
		panic(fmt.Sprintf("surepipe: array %q has %d values, expected shape %s", a.name, n, shapeString(a.shape)))
	}
	// The values begin at a multiple of 64 bytes; magic, version and length are 10.
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shapeString(a.shape))
	text += strings.Repeat(" ", 63-(10+len(text))%64) + "\n"
	buf := append([]byte(nil), npy.Magic[:]...)
	buf = append(buf, 1, 0)
	buf = binary.LittleEndian.AppendUint16(buf, uint16(len(text)))
	buf = append(buf, text...)
	for i := range n {
		buf = binary.LittleEndian.AppendUint64(buf, at(i))
		if len(buf) >= 64<<10 {
			if _, err := w.Write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
	}
	_, err := w.Write(buf)
	return err
}

// createBeside creates an empty file in the directory of path, to be renamed to
// target: path, or the file that path links to.
func createBeside(path string) (f *os.File, target string, err error) {
	target = path
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		target = resolved
	}
	// os.CreateTemp would leave the file readable for its owner alone.
	for i := range 100 {
		name := filepath.Join(filepath.Dir(target), fmt.Sprintf(".%s.%d-%d.tmp", filepath.Base(target), os.Getpid(), i))
		f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return f, target, err
}

// checkWritable refuses a path for --out that writeNPZ could not write, before the
// work starts. It leaves nothing behind.
func checkWritable(path string) error {
	refuse := func(reason any) error { return usagef("--out is %q: %v", path, reason) }
	if path == "" || os.IsPathSeparator(path[len(path)-1]) {
		return refuse("expected the name of a file")
	}
	dir := filepath.Dir(path)
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return refuse(fmt.Sprintf("directory %q does not exist", dir))
	case err != nil:
		return refuse(bareError(err))
	case !info.IsDir():
		return refuse(fmt.Sprintf("%q is not a directory", dir))
	}
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return refuse(bareError(err))
	case info.IsDir():
		return refuse("it is a directory")
	case !info.Mode().IsRegular():
		// The rename would put a file in the place of a device.
		return refuse("it is not a regular file")
	default:
		// Renaming onto a file asks for no right to write it.
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return refuse(bareError(err))
		}
		f.Close()
	}
	f, _, err := createBeside(path)
	if err != nil {
		return refuse(bareError(err))
	}
	f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return refuse(bareError(err))
	}
	return nil
}
