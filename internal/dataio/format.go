package dataio

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sbinet/npyio/npy"

	"surepipe/internal/dataio/images"
	"surepipe/internal/hdf5"
	"surepipe/internal/lists"
	"surepipe/internal/stored"
)

// Format is a format of files: how one is recognized, read and written. Help and errors read it.
type Format struct {
	// Name is that of [Set.Format].
	Name string
	// Extensions are those of its files, in lower case; the first stands for all.
	Extensions []string
	// Help says what a file holds, in lines of at most 80 columns; "" for what another format's says.
	Help string
	// Is recognizes a file by its first bytes, up to 132, of what is compressed where gzip did, and by the name's
	// extension in lower case without .gz.
	Is func(head []byte, extension string) bool
	// Read reads a file of one array to its end.
	Read func(r io.Reader, o TableOptions) (Array, error)
	// open takes the place of Read for formats that are read on demand; set for others than one array.
	open func(s source) (*Set, error)
	set  func(r io.Reader) (*Set, error)
	// Refusal is why a file is not read that this recognizes.
	Refusal string
	// Write writes one array; nil where none can be written. depth is that of the file of y, and eight says that
	// all values of y are pixels of 8 bits. clamped is the number of values that the format cannot hold.
	Write func(w io.Writer, a Array, depth Depth, eight bool) (clamped int, err error)
	// Archive says that a file holds several arrays, by name, and WriteArrays writes them; nil where they cannot be
	// written.
	Archive     bool
	WriteArrays func(w io.Writer, arrays ...Array) error
	// Image says that a file is an image, Pages that it may be a series of them, and Lossy that
	// values change.
	Image, Pages, Lossy bool
	// Matrices says that a file holds no vectors: one row or column stands for one. Levels says that unsigned integers
	// of the shape of an image are one.
	Matrices, Levels bool
	// Axes is the largest number of axes of an array that is written; 0 for any.
	Axes int
	// Best is the depth that keeps most of a number.
	Best Depth
}

type source struct {
	files      Files
	path, name string
	file
}

func starts(magic ...string) func([]byte, string) bool {
	return func(head []byte, _ string) bool {
		return slices.ContainsFunc(magic, func(m string) bool { return bytes.HasPrefix(head, []byte(m)) })
	}
}

func ends(extensions ...string) func([]byte, string) bool {
	return func(_ []byte, extension string) bool { return slices.Contains(extensions, extension) }
}

const (
	gzipMagic = "\x1f\x8b"
	// dicomMagic stands behind 128 bytes that are free, and may be those of a TIFF.
	dicomMagic, dicomAt = "DICM", 128
	headBytes           = dicomAt + len(dicomMagic)
	// saveArray makes an array of a file that is not read.
	saveArray = "save its values as an array, for instance with python3 -c 'import numpy, %s; numpy.save(" +
		"\"out.npy\", %s.astype(float))'"
)

// tableExtensions are those of text tables.
var tableExtensions = []string{".csv", ".tsv", ".txt"}

// formatTable has the formats in the order in which a file is tried.
var formatTable = []Format{
	{Is: func(head []byte, _ string) bool { return string(head[min(len(head), dicomAt):]) == dicomMagic },
		Refusal: "is a DICOM file: " + fmt.Sprintf(saveArray, "pydicom", `pydicom.dcmread("in.dcm").pixel_array`)},
	{Is: starts("SIMPLE  ="),
		Refusal: "is a FITS file: " + fmt.Sprintf(saveArray, "astropy.io.fits", `astropy.io.fits.getdata("in.fits")`)},
	{
		Name: "npz", Extensions: []string{".npz"}, Archive: true, WriteArrays: EncodeNPZ, Is: starts("PK"),
		Help: `numpy's arrays by name, or a sparse matrix of scipy's save_npz: X of a
regression, or the observed entries of a matrix`,
		open: func(s source) (*Set, error) { return NewNPZ(s.file, s.size) },
	},
	{
		Name: "npy", Extensions: []string{".npy"}, Levels: true, Is: starts(string(npy.Magic[:])),
		Help: `one array: y, or X where --y gives y. Of uint8 or uint16 it is an image too, for a
specification whose y has 2 or 3 axes: scaled to [0, 1]. So are frames for
robust-pca; a matrix for svt or robust-pca is taken as the numbers that it holds`,
		open:  func(s source) (*Set, error) { return newNPY(s.name, s.file, s.size), nil },
		Write: writeNumpy,
	},
	{
		Name: "mat", Extensions: []string{".mat"}, Archive: true, Is: starts("MATLAB 5.0 MAT"),
		Help: `arrays by name, of MATLAB 5 to 7.3; n x 1 and 1 x n arrays are vectors`,
		open: func(s source) (*Set, error) { return newMAT(s.file, s.size) },
	},
	{
		Name: "hdf5", Extensions: []string{".h5", ".hdf5"}, Archive: true, Is: starts(hdf5.Magic),
		Help: `arrays by name, of HDF5`,
		open: func(s source) (*Set, error) { return newHDF5(s.file, s.size, false) },
	},
	{
		Name: "mat", Archive: true, Is: starts("MATLAB 7.3 MAT"),
		open: func(s source) (*Set, error) { return newHDF5(s.file, s.size, true) },
	},
	{Is: ends(".mat"), Refusal: "is no MATLAB file of version 5 to 7.3: save it with save -v7"},
	{Is: ends(".h5", ".hdf5"), Refusal: "is not an HDF5 file"},
	{
		Name: "bart", Extensions: []string{".cfl"},
		Help: `one array of BART, with its .hdr: the axes in the order of the file`,
		Is: func(head []byte, extension string) bool {
			return extension == ".cfl" || extension == ".hdr" && bytes.HasPrefix(head, []byte("# Dim"))
		},
		open: openBART,
	},
	{
		Name: "png", Extensions: []string{".png"}, Image: true, Matrices: true, Is: starts("\x89PNG"),
		Best: Depth{Bits: 16},
		Help: `an image, grey or (rows, columns, 3), pixels as numbers in [0, 1]: y. Where noise
is clipped at black or white it is not normal, and SURE is biased`,
		Read: whole(images.ReadPNG),
		Write: func(w io.Writer, a Array, depth Depth, eight bool) (int, error) {
			return images.EncodePNG(w, a, min(depth.PixelBits(eight), 16))
		},
	},
	{
		Name: "jpeg", Extensions: []string{".jpg", ".jpeg"}, Image: true, Lossy: true, Matrices: true,
		Is:    starts("\xff\xd8\xff"),
		Help:  `an image too; its compression removes a part of the noise`,
		Read:  whole(images.ReadJPEG),
		Write: func(w io.Writer, a Array, _ Depth, _ bool) (int, error) { return images.EncodeJPEG(w, a) },
	},
	{
		Name: "tiff", Extensions: []string{".tif", ".tiff"}, Image: true, Pages: true, Matrices: true,
		Is: starts("II*\x00", "MM\x00*"), Best: Depth{Bits: 32, Float: true},
		Help:  `an image too, floating point pixels as they are`,
		Read:  whole(images.ReadTIFF),
		Write: writeTIFF,
	},
	{
		Name: "nifti", Extensions: []string{".nii"},
		Help: `one array, of NIfTI: the last axis varies fastest, (time, z, y, x)`,
		Is: func(head []byte, extension string) bool {
			_, _, ok := isNIfTI(head)
			return ok && extension == ".nii"
		},
		Read: whole(ReadNIfTI),
	},
	{
		Name: "mtx", Extensions: []string{".mtx"}, Matrices: true, set: readMatrixMarket,
		Help: `a sparse matrix of Matrix Market, as of save_npz, or a dense one: one array`,
		Is: func(head []byte, extension string) bool {
			return bytes.HasPrefix(bytes.ToLower(head), []byte("%%matrixmarket")) || extension == ".mtx"
		},
	},
	{
		Name: "csv", Extensions: []string{".csv"}, Axes: 2, Matrices: true, Is: ends(".csv"),
		Help: `a table: y and X of a regression, with --response NAME for y (see Tables below);
or a table of numbers: one array`,
		Read:  readTable,
		Write: func(w io.Writer, a Array, _ Depth, _ bool) (int, error) { return 0, EncodeCSV(w, a) },
	},
	{Name: "csv", Extensions: []string{".tsv", ".txt"}, Matrices: true,
		Help: `a table too, with tabs, semicolons or blanks`, Is: ends(".tsv", ".txt"), Read: readTable},
	{Is: starts("GIF8", "BM", "RIFF", "II+\x00", "MM\x00+"),
		Refusal: "is a GIF, BMP, WebP or BigTIFF image, expected a .png, .jpg or .tif; " +
			"convert it, for instance with " + images.ConvertHint},
}

// Register adds a format, which is tried after the others, and which help, errors and --out then have too. It is for
// init functions: nothing may read the table at the same time. It panics at a row without a name, an extension, Is or
// Read, and at a name or an extension that is taken.
func Register(f Format) {
	if f.Name == "" || len(f.Extensions) == 0 || f.Help == "" || f.Is == nil || f.Read == nil {
		panic(fmt.Sprintf("dataio: format %q without a name, an extension, help, Is or Read", f.Name))
	}
	for _, other := range formatTable {
		if other.Name == f.Name || slices.ContainsFunc(f.Extensions,
			func(e string) bool { return slices.Contains(other.Extensions, e) }) {
			panic(fmt.Sprintf("dataio: a second format %q or %v", f.Name, f.Extensions))
		}
	}
	formatTable = append(formatTable, f)
}

func Formats() []Format {
	return slices.DeleteFunc(slices.Clone(formatTable), func(f Format) bool { return len(f.Extensions) == 0 })
}

// Written lists the formats that can be written, of one array or several.
func Written() []Format {
	return slices.DeleteFunc(Formats(), func(f Format) bool { return f.Write == nil && f.WriteArrays == nil })
}

// FormatFor is the format that a file of the name is written in.
func FormatFor(path string) (Format, bool) {
	extension := strings.ToLower(filepath.Ext(path))
	return lists.Find(Written(), func(f Format) bool { return slices.Contains(f.Extensions, extension) })
}

// Extensions names the formats by their extensions: ".npz, .npy or .csv".
func Extensions(formats []Format) string {
	names := lists.Map(formats, func(f Format) string { return f.Extensions[0] })
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func (s *Set) row() Format {
	f, _ := lists.Find(formatTable, func(f Format) bool { return f.Name == s.format })
	return f
}

// openFormat opens the file by the first format that recognizes it. Files of formats that are read on demand stay open.
func openFormat(s source, extension string, o TableOptions) (*Set, error) {
	head, err := s.head()
	if err != nil {
		return nil, err
	}
	for _, f := range formatTable {
		if f.open == nil || !f.Is(head, extension) {
			continue
		}
		set, err := f.open(s)
		if err == nil && set.file == nil {
			set.file = s.file
		}
		return set, err
	}
	var r io.Reader = bufio.NewReaderSize(s.file, 64<<10)
	packed := bytes.HasPrefix(head, []byte(gzipMagic))
	if packed {
		z, err := unpack(r)
		if err != nil {
			return nil, err
		}
		unzipped := bufio.NewReaderSize(z, 64<<10)
		if head, err = unzipped.Peek(headBytes); err != nil && err != io.EOF {
			return nil, fmt.Errorf("is truncated or corrupt (%w)", err)
		}
		r = unzipped
	}
	set, err := readFormat(r, head, s.name, extension, o)
	if err == nil && packed {
		if _, err := io.Copy(io.Discard, r); err != nil { // to the checksum
			return nil, errors.New("is truncated or corrupt (its compressed data are damaged)")
		}
	}
	s.Close()
	return set, err
}

func (s source) head() ([]byte, error) {
	head := make([]byte, headBytes)
	n, err := s.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil, stored.Bare(err)
	}
	return head[:n], nil
}

// readFormat reads a file whole by the first format that recognizes it.
func readFormat(r io.Reader, head []byte, name, extension string, o TableOptions) (*Set, error) {
	for _, f := range formatTable {
		if !f.Is(head, extension) {
			continue
		}
		switch {
		case f.Refusal != "":
			return nil, errors.New(f.Refusal)
		case f.open != nil:
			return nil, fmt.Errorf("is a %s file compressed with gzip: decompress it first", f.Extensions[0])
		case f.set != nil:
			set, err := f.set(r)
			if err != nil {
				return nil, err
			}
			return set.named(name), nil
		}
		a, err := f.Read(r, o)
		if err != nil {
			return nil, err
		}
		return setOf(f.Name, a).named(name), nil
	}
	return nil, fmt.Errorf("has an unknown format, expected %s", Extensions(Formats()))
}

func setOf(format string, a Array) *Set {
	return &Set{format: format, names: []string{a.Name}, entries: map[string]entry{a.Name: {held: &a}}}
}

// named gives the one array of a set, if there is one, its name.
func (s *Set) named(name string) *Set {
	if len(s.names) == 1 {
		a := *s.entries[s.names[0]].held
		a.Name = name
		return setOf(s.format, a)
	}
	return s
}

func whole(read func(io.Reader) (Array, error)) func(io.Reader, TableOptions) (Array, error) {
	return func(r io.Reader, _ TableOptions) (Array, error) { return read(r) }
}

func readTable(r io.Reader, o TableOptions) (Array, error) {
	return ReadCSV(r, TableOptions{NA: o.NA, Missing: o.Missing})
}

func readMatrixMarket(r io.Reader) (*Set, error) {
	dense, sparse, err := ReadMatrixMarket(r)
	switch {
	case err != nil:
		return nil, err
	case dense != nil:
		return setOf("mtx", *dense), nil
	}
	return &Set{format: "mtx", triplets: sparse}, nil
}

func writeNumpy(w io.Writer, a Array, depth Depth, _ bool) (int, error) {
	if depth.Scaled {
		return EncodeNPYOfDepth(w, a, depth.Bits)
	}
	return 0, EncodeNPY(w, a)
}

func writeTIFF(w io.Writer, a Array, depth Depth, eight bool) (int, error) {
	to := Depth{Bits: depth.PixelBits(eight), Float: depth.Float}
	if !depth.IsImage() && to.Bits > 8 {
		to = Depth{Bits: 32, Float: true}
	}
	return images.EncodeTIFF(w, a, to)
}

// WriteArray writes one array to a file by the format, see [Format].Write.
func (f Format) WriteArray(path string, a Array, depth Depth, eight bool) (clamped int, err error) {
	return WriteImage(path, func(w io.Writer) (int, error) { return f.Write(w, a, depth, eight) })
}
