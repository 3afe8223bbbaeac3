package dataio

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"surepipe/internal/dataio/mif"
	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/stored"
)

// NIfTISeries is a NIfTI file, or an MRtrix image, whose values are read slice by slice. The header is kept to be
// written again.
type NIfTISeries struct {
	niftiHeader
	// Size is the number of voxels along x, y and z, and Volumes that of volumes.
	Size    [3]int
	Volumes int
	Complex bool

	path   string
	header []byte      // all before the values, with extensions
	mif    *mif.Header // in its place
	f      interface {
		readable
		io.Closer
	}
	length int64 // of the file
	buf    []byte
	plane  []float64
}

// OpenNIfTI opens a file (.nii, .nii.gz, .mif) of up to four axes: x, y, z and the volumes. A compressed one is
// unpacked to a temporary file, which has no name; a .mif with another order of axes is put in order in memory. Errors
// begin with the path.
func (f Files) OpenNIfTI(path string) (*NIfTISeries, error) {
	in, err := f.open(path, "an image (.nii, .nii.gz, .mif)")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s := &NIfTISeries{path: path, f: in, length: in.size}
	if err := s.open(); err != nil {
		s.Close()
		if ended := f.ctx().Err(); ended != nil {
			return nil, ended
		}
		return nil, fmt.Errorf("%s: %w", path, stored.Bare(err))
	}
	return s, nil
}

func (s *NIfTISeries) open() error {
	magic := make([]byte, len(gzipMagic))
	if _, err := s.f.ReadAt(magic, 0); err != nil {
		return errInHeader
	}
	if string(magic) == mif.Magic[:len(magic)] {
		return s.openMIF()
	}
	if string(magic) == gzipMagic {
		if err := s.unpack(); err != nil {
			return err
		}
	}
	return s.read()
}

// unpack replaces the file by its contents, as many bytes as its header asks for.
func (s *NIfTISeries) unpack() error {
	z, err := gzip.NewReader(s.f)
	if err != nil {
		return errors.New("is truncated or corrupt (it is no gzip file)")
	}
	head, err := io.ReadAll(io.LimitReader(z, int64(niftiLayouts[1].size)))
	if err != nil {
		return errors.New("is truncated or corrupt (its compressed data end early, or are damaged)")
	}
	h, err := readNIfTIHeader(bytes.NewReader(head))
	if err != nil {
		return err
	}
	values := h.bytes()
	if !(values > 0 && values < 1<<53) {
		return h.wrongAxes()
	}
	size := h.begin + int64(values)
	out, err := os.CreateTemp("", "surepipe-*.nii")
	if err != nil {
		return err
	}
	os.Remove(out.Name())
	all := io.MultiReader(bytes.NewReader(head), z)
	n, err := io.CopyN(out, all, size)
	if err != nil {
		out.Close()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) {
			return fmt.Errorf("is truncated or corrupt (it unpacks to %d bytes, its header states %d)", n, size)
		}
		return err
	}
	if _, err := io.Copy(io.Discard, z); err != nil { // to the checksum
		out.Close()
		return errors.New("is truncated or corrupt (its compressed data are damaged)")
	}
	s.f.Close()
	s.f, s.length = out, n
	return nil
}

func (s *NIfTISeries) read() (err error) {
	if s.niftiHeader, err = readNIfTIHeader(io.NewSectionReader(s.f, 0, 1<<20)); err != nil {
		return err
	}
	s.header = make([]byte, s.begin)
	if _, err := s.f.ReadAt(s.header, 0); err != nil {
		return errInHeader
	}
	return s.check()
}

// mifCodes are the types of MRtrix images by those of NIfTI files.
var mifCodes = map[string]uint16{"bit": 2, "uint8": 2, "int16": 4, "int32": 8, "float32": 16, "float64": 64,
	"int8": 256, "uint16": 512, "uint32": 768, "int64": 1024, "uint64": 1280, "cfloat32": 32, "cfloat64": 1792}

func (s *NIfTISeries) openMIF() error {
	head := make([]byte, min(s.length, 1<<20))
	if _, err := s.f.ReadAt(head, 0); err != nil {
		return err
	}
	h, err := mif.Read(head)
	if err != nil {
		return err
	}
	code, ok := mifCodes[h.Type]
	if !ok {
		return fmt.Errorf("holds values of type %q, expected integers, floating point or complex numbers", h.Type)
	}
	s.mif = h
	s.niftiHeader = niftiHeader{lengths: h.Dims, begin: h.Offset, slope: h.Slope, shift: h.Shift}
	s.t, _ = niftiTypeOf(code, h.Order)
	if h.Plain() {
		return s.check()
	}
	size := s.bytes()
	if h.Type == "bit" {
		size = math.Ceil(size / 8)
	}
	if need := float64(h.Offset) + size; float64(s.length) < need {
		return s.short(need)
	}
	what := fmt.Sprintf("an image of %v values in another order than x, y, z, volumes", h.Dims)
	if err := ndarray.Fits(what, 2*size, 1); err != nil {
		return err
	}
	data := make([]byte, int(size))
	if _, err := s.f.ReadAt(data, h.Offset); err != nil {
		return err
	}
	in := bytes.NewReader(h.Reordered(data, s.t.bytes()))
	s.f.Close()
	s.f, s.length, s.begin = struct {
		readable
		io.Closer
	}{in, io.NopCloser(nil)}, in.Size(), 0
	return s.check()
}

// bytes is the size of the values, 0 or less where the header states no values.
func (h *niftiHeader) bytes() float64 {
	size := float64(h.t.bytes())
	for _, k := range h.lengths {
		size *= float64(max(k, 0))
	}
	return size
}

func (s *NIfTISeries) short(need float64) error {
	return fmt.Errorf("is truncated or corrupt (it has %d bytes, its header states %.0f)", s.length, need)
}

func (s *NIfTISeries) check() error {
	s.Complex = s.t.parts == 2
	if s.slope == 0 { // not scaled
		s.slope, s.shift = 1, 0
	}
	s.Size, s.Volumes = [3]int{1, 1, 1}, 1
	for i, k := range s.lengths {
		switch {
		case k < 1:
			return s.wrongAxes()
		case i < 3:
			s.Size[i] = k
		case i == 3:
			s.Volumes = k
		case k > 1:
			return fmt.Errorf("has %d axes (%v), expected up to four: x, y, z and the volumes", len(s.lengths),
				s.lengths)
		}
	}
	if need := float64(s.begin) + s.bytes(); float64(s.length) < need {
		return s.short(need)
	}
	return ndarray.Fits(fmt.Sprintf("a slice of %d volumes of %d x %d values", s.Volumes, s.Size[0], s.Size[1]),
		float64(s.Volumes*s.t.parts)*float64(s.Size[0])*float64(s.Size[1]), 8)
}

// IsMIF reports whether the file is an MRtrix image.
func (s *NIfTISeries) IsMIF() bool { return s.mif != nil }

func (s *NIfTISeries) Close() error { return s.f.Close() }

// Slice sets dst to slice z, with the values of a voxel together: voxel (x, y) begins at (y nx + x) volumes, twice that
// of complex numbers.
func (s *NIfTISeries) Slice(dst []float64, z int) error {
	area, parts := s.Size[0]*s.Size[1], s.t.parts
	if s.plane == nil {
		s.plane, s.buf = make([]float64, area*parts), make([]byte, area*s.t.bytes())
	}
	decode := s.t.Floats()
	for t := range s.Volumes {
		at := s.begin + int64(len(s.buf))*(int64(t)*int64(s.Size[2])+int64(z))
		if _, err := s.f.ReadAt(s.buf, at); err != nil {
			return fmt.Errorf("%s: volume %d, slice %d: %w", s.path, t, z, stored.Bare(err))
		}
		decode(s.plane, s.buf)
		for i := range area {
			for p := range parts {
				v := s.plane[i*parts+p] * s.slope
				if p == 0 {
					v += s.shift
				}
				dst[(i*s.Volumes+t)*parts+p] = v
			}
		}
	}
	return nil
}

// SameSpace returns an error unless a map of one volume has the voxels of a series, and the same place in space.
func (s *NIfTISeries) SameSpace(m *NIfTISeries) error {
	if m.Size != s.Size {
		return fmt.Errorf("%s: has %d x %d x %d voxels, expected %d x %d x %d as in %s", m.path, m.Size[0], m.Size[1],
			m.Size[2], s.Size[0], s.Size[1], s.Size[2], s.path)
	}
	a, b := s.affine(), m.affine()
	for i, v := range a {
		if d := math.Abs(v - b[i]); d > 1e-3*(1+math.Abs(v)) {
			return fmt.Errorf("%s: lies elsewhere in space than %s: entry (%d, %d) of its affine is %g, expected %g",
				m.path, s.path, i/4, i%4, b[i], v)
		}
	}
	return nil
}

// affine is the matrix from voxels to space of the header's first valid form, sform or qform, by rows; of neither it is
// the sizes of voxels.
func (s *NIfTISeries) affine() (a [12]float64) {
	if s.mif != nil {
		return s.mif.Affine
	}
	number := func(f niftiField, i int) float64 { return f.get(s.t.Order, s.header, i) }
	switch {
	case number(s.sform, 0) > 0:
		for i := range a {
			a[i] = number(s.rows, i)
		}
	case number(s.qform, 0) > 0:
		b, c, d := number(s.quaternion, 0), number(s.quaternion, 1), number(s.quaternion, 2)
		w := math.Sqrt(max(0, 1-b*b-c*c-d*d))
		flip := 1.0
		if number(s.sizes, 0) < 0 {
			flip = -1
		}
		turn := [9]float64{
			w*w + b*b - c*c - d*d, 2 * (b*c - w*d), 2 * (b*d + w*c),
			2 * (b*c + w*d), w*w + c*c - b*b - d*d, 2 * (c*d - w*b),
			2 * (b*d - w*c), 2 * (c*d + w*b), w*w + d*d - c*c - b*b,
		}
		for i := range 3 {
			for j := range 3 {
				scale := number(s.sizes, 1+j)
				if j == 2 {
					scale *= flip
				}
				a[4*i+j] = turn[3*i+j] * scale
			}
			a[4*i+3] = number(s.quaternion, 3+i)
		}
	default:
		for i := range 3 {
			a[5*i] = number(s.sizes, 1+i)
		}
	}
	return a
}

// NIfTIWriter writes a NIfTI file slice by slice, beside its path; [NIfTIWriter.Commit] renames it into place.
type NIfTIWriter struct {
	like    *NIfTISeries
	path    string
	f       *os.File
	target  string
	volumes int
	t       niftiType
	plane   []byte
	offset  int64 // of the values
}

// CreateNIfTI creates a file with the header of a series, of as many volumes; a map has one, and is real. Values
// are float64 where the series' are, else float32, and not scaled: affine, units, byte order, descriptions and
// extensions are the series' own.
func CreateNIfTI(path string, like *NIfTISeries, volumes int, real bool) (*NIfTIWriter, error) {
	f, target, err := createBeside(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, stored.Bare(err))
	}
	w := &NIfTIWriter{like: like, path: path, f: f, target: target, volumes: volumes}
	w.t = niftiType{ndarray.Number{Kind: 'f', Size: 4, Order: like.t.Order}, 1}
	if !real {
		w.t.parts = like.t.parts
	}
	if like.t.Kind == 'f' {
		w.t.Size = like.t.Size
	}
	w.plane = make([]byte, like.Size[0]*like.Size[1]*w.t.bytes())
	header := w.header()
	w.offset = int64(len(header))
	if _, err := f.WriteAt(header, 0); err != nil {
		w.Abort()
		return nil, fmt.Errorf("%s: %w", path, stored.Bare(err))
	}
	return w, nil
}

func (w *NIfTIWriter) header() []byte {
	if w.like.mif != nil {
		dims, of := append(w.like.Size[:], w.volumes), fmt.Sprintf("Float%d", 8*w.t.Size)
		if w.t.parts == 2 {
			of = "C" + of
		}
		if w.volumes == 1 {
			dims = dims[:3]
		}
		return w.like.mif.Text(dims, of)
	}
	h, order, l := bytes.Clone(w.like.header), w.t.Order, &w.like.niftiLayout
	dims := []float64{4, float64(w.like.Size[0]), float64(w.like.Size[1]), float64(w.like.Size[2]), float64(w.volumes)}
	if w.volumes == 1 {
		dims[0] = 3
	}
	l.dims.put(order, h, dims...)
	codes := map[int]float64{4: 16, 8: 64}
	if w.t.parts == 2 {
		codes = map[int]float64{4: 32, 8: 1792}
	}
	l.code.put(order, h, codes[w.t.Size])
	l.bits.put(order, h, float64(8*w.t.bytes()))
	l.scale.put(order, h, 1, 0)
	if w.volumes != w.like.Volumes {
		l.span.put(order, h, 0, 0) // that of another quantity
	}
	return h
}

func (w *NIfTIWriter) Slice(z int, values []float64) error {
	area := w.like.Size[0] * w.like.Size[1]
	for t := range w.volumes {
		for i := range area {
			for p := range w.t.parts {
				w.t.Put(w.plane[(i*w.t.parts+p)*w.t.Size:], values[(i*w.volumes+t)*w.t.parts+p])
			}
		}
		at := w.offset + int64(len(w.plane))*(int64(t)*int64(w.like.Size[2])+int64(z))
		if _, err := w.f.WriteAt(w.plane, at); err != nil {
			return fmt.Errorf("%s: %w", w.path, stored.Bare(err))
		}
	}
	return nil
}

// Commit makes the file the one at its path, compressed where that ends in .gz.
func (w *NIfTIWriter) Commit() (err error) {
	defer func() {
		if err != nil {
			w.Abort()
			err = fmt.Errorf("%s: %w", w.path, stored.Bare(err))
		}
	}()
	if strings.HasSuffix(strings.ToLower(w.path), ".gz") {
		plain, err := os.Open(w.f.Name())
		if err != nil {
			return err
		}
		defer plain.Close()
		defer w.Abort()
		return WriteFile(w.target, func(out io.Writer) error {
			z := gzip.NewWriter(out)
			if _, err := io.Copy(z, plain); err != nil {
				return err
			}
			return z.Close()
		})
	}
	if err := w.f.Sync(); err != nil {
		return err
	}
	if err := w.f.Close(); err != nil {
		return err
	}
	return os.Rename(w.f.Name(), w.target)
}

// Abort removes what was written.
func (w *NIfTIWriter) Abort() {
	w.f.Close()
	os.Remove(w.f.Name())
}
