package denoise

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"surepipe/internal/dataio"
	"surepipe/internal/lists"
	"surepipe/series"
	"surepipe/study"
)

// input is a series in a file.
type input interface {
	series.Source
	// volume reads a map of one value a voxel from a file of the same kind.
	volume(path string) ([]float64, error)
	// create begins a file of the same kind, with the series' number of volumes or one.
	create(path string, volumes int, real bool) (output, error)
	// array is the output of an array with those axes, which goes to write.
	array(volumes int, real bool, write func(dataio.Array) error) output
	// place names a voxel as the file's user counts.
	place(voxel series.Extent) string
	Close() error
}

// output is a file that is written slice by slice, and is there when it is committed.
type output interface {
	Slice(z int, values []float64) error
	Commit() error
	Abort()
}

// open opens a series. last says that the volumes of an array are its last axis, not its first.
func open(files dataio.Files, path string, last bool) (input, error) {
	in, err := openScan(files, path, last)
	if s, is := in.(nifti); is && s.Volumes < 2 {
		s.Close()
		return nil, study.Errorf("%s: is one volume of %d x %d x %d voxels, expected a series of volumes along a "+
			"fourth axis", path, s.Size[0], s.Size[1], s.Size[2])
	}
	return in, err
}

// isScan reports whether a file is a NIfTI file or an MRtrix image by its name.
func isScan(path string) bool {
	path = strings.ToLower(path)
	return isMIF(path) || strings.HasSuffix(strings.TrimSuffix(path, ".gz"), ".nii")
}

func isMIF(path string) bool { return strings.HasSuffix(strings.ToLower(path), ".mif") }

// nifti is a NIfTI file, or an MRtrix image.
type nifti struct {
	*dataio.NIfTISeries
	files dataio.Files
}

func (n nifti) Shape() series.Shape {
	return series.Shape{Image: n.Size, Volumes: n.Volumes, Complex: n.Complex}
}

func (nifti) place(voxel series.Extent) string {
	return fmt.Sprintf("the voxel (%d, %d, %d)", voxel[0], voxel[1], voxel[2])
}

func (n nifti) volume(path string) ([]float64, error) {
	if !isScan(path) {
		return nil, study.Errorf("%s: expected a NIfTI file (.nii, .nii.gz) or an MRtrix image (.mif), as the series "+
			"is", path)
	}
	m, err := n.files.OpenNIfTI(path)
	if err != nil {
		return nil, study.Bad(err)
	}
	defer m.Close()
	if m.Volumes != 1 || m.Complex {
		return nil, study.Errorf("%s: has %d volumes, expected one, of real numbers", path, m.Volumes)
	}
	if err := n.SameSpace(m); err != nil {
		return nil, study.Bad(err)
	}
	area := m.Size[0] * m.Size[1]
	values := make([]float64, area*m.Size[2])
	for z := range m.Size[2] {
		if err := m.Slice(values[z*area:], z); err != nil {
			return nil, err
		}
	}
	return values, nil
}

func (n nifti) create(path string, volumes int, real bool) (output, error) {
	switch {
	case n.IsMIF() && !isMIF(path):
		return nil, study.Errorf("%s: expected a name that ends in .mif, as the series is an MRtrix image", path)
	case !n.IsMIF() && (!isScan(path) || isMIF(path)):
		return nil, study.Errorf("%s: expected a name that ends in .nii or .nii.gz, as the series is a NIfTI "+
			"file", path)
	}
	return dataio.CreateNIfTI(path, n.NIfTISeries, volumes, real)
}

// array has the volumes first, and then z, y and x.
func (n nifti) array(volumes int, real bool, write func(dataio.Array) error) output {
	s := arrays{axes: []int{n.Size[2], n.Size[1], n.Size[0]}}
	s.Of = n.Shape()
	return s.array(volumes, real, write)
}

// arrays is a series in memory, from a file of arrays or images.
type arrays struct {
	series.Memory
	files dataio.Files
	axes  []int // of one volume, as the file has it
	last  bool
}

func (arrays) Close() error { return nil }

func (s arrays) place(voxel series.Extent) string {
	index := voxel[:len(s.axes)]
	slices.Reverse(index)
	return strings.ReplaceAll(fmt.Sprint(index), " ", ", ")
}

func read(files dataio.Files, path string) (a dataio.Array, err error) {
	if a, err = dataio.ReadOne(path, dataio.TableOptions{Files: files}, (*dataio.Set).Numbers); err != nil {
		return a, study.Bad(err)
	}
	if a.Data == nil {
		a.Data = lists.Map(a.Ints, func(v int64) float64 { return float64(v) })
	}
	return a, nil
}

// openArray reads an array of three or four axes: the series, and rows and columns of images or z, y and x of volumes.
func openArray(files dataio.Files, path string, last bool) (input, error) {
	a, err := read(files, path)
	if err != nil {
		return nil, err
	}
	shape, parts := a.Shape, 1
	if a.Complex {
		shape, parts = shape[:len(shape)-1], 2
	}
	if len(shape) != 3 && len(shape) != 4 {
		return nil, study.Errorf("%s: has %d axes, expected 3 or 4: the series, and the axes of its "+
			"images", path, len(shape))
	}
	s := arrays{files: files, last: last}
	n := shape[0]
	s.axes = slices.Clone(shape[1:])
	if last {
		n, s.axes = shape[len(shape)-1], slices.Clone(shape[:len(shape)-1])
	}
	at := len(s.axes)
	s.Of = series.Shape{Image: series.Extent{s.axes[at-1], s.axes[at-2], 1}, Volumes: n, Complex: a.Complex}
	if at == 3 {
		s.Of.Image[2] = s.axes[0]
	}
	if n < 2 {
		return nil, study.Errorf("%s: is a series of %d volume along its %s axis, expected 2 or "+
			"more", path, n, s.axis())
	}
	s.Data = a.Data
	if !last {
		s.Data = turned(a.Data, n, parts)
	}
	return s, nil
}

func (s arrays) axis() string {
	if s.last {
		return "last"
	}
	return "first"
}

// turned makes series first into voxels first: n rows of equal length into that many columns, of values with parts.
func turned(values []float64, n, parts int) []float64 {
	out, m := make([]float64, len(values)), len(values)/n/parts
	for i := range n {
		for j := range m {
			copy(out[(j*n+i)*parts:][:parts], values[(i*m+j)*parts:][:parts])
		}
	}
	return out
}

func (s arrays) volume(path string) ([]float64, error) {
	a, err := read(s.files, path)
	if err != nil {
		return nil, err
	}
	if a.Complex || !slices.Equal(a.Shape, s.axes) {
		return nil, study.Errorf("%s: has the shape %v, expected real numbers of the shape %v of a "+
			"volume", path, a.Shape,
			s.axes)
	}
	return a.Data, nil
}

func (s arrays) create(path string, volumes int, real bool) (output, error) {
	f, ok := dataio.FormatFor(path)
	if !ok || f.Write == nil {
		return nil, study.Errorf("%s: expected a name that ends in %s", path, dataio.Extensions(dataio.Written()))
	}
	return s.array(volumes, real, func(a dataio.Array) error {
		_, err := f.WriteArray(path, a, f.Best, false)
		return err
	}), nil
}

func (s arrays) array(volumes int, real bool, write func(dataio.Array) error) output {
	w := &arrayOutput{series: s, write: write, volumes: volumes, parts: 1}
	if s.Of.Complex && !real {
		w.parts = 2
	}
	w.values = make([]float64, s.Of.Image[0]*s.Of.Image[1]*s.Of.Image[2]*volumes*w.parts)
	return w
}

// arrayOutput is one array, in memory until it is committed.
type arrayOutput struct {
	series         arrays
	write          func(dataio.Array) error
	volumes, parts int
	values         []float64
}

func (w *arrayOutput) Slice(z int, values []float64) error {
	n := w.series.Of.Image[0] * w.series.Of.Image[1] * w.volumes * w.parts
	copy(w.values[z*n:], values[:n])
	return nil
}

func (w *arrayOutput) Commit() error {
	a := dataio.Array{Name: "y", Shape: slices.Clone(w.series.axes), Data: w.values, Complex: w.parts == 2}
	if w.volumes > 1 {
		if w.series.last {
			a.Shape = append(a.Shape, w.volumes)
		} else {
			a.Shape = append([]int{w.volumes}, a.Shape...)
			a.Data = turned(w.values, len(w.values)/w.volumes/w.parts, w.parts)
		}
	}
	if w.parts == 2 {
		a.Shape = append(a.Shape, 2)
	}
	return w.write(a)
}

func (w *arrayOutput) Abort() {}

// pair is a complex series from two files: its real and imaginary parts, or magnitudes and phases.
type pair struct {
	input
	second input
	polar  bool
	a, b   []float64
}

func (p *pair) Shape() series.Shape {
	s := p.input.Shape()
	s.Complex = true
	return s
}

func (p *pair) Close() error { return errors.Join(p.input.Close(), p.second.Close()) }

func (p *pair) Slice(dst []float64, z int) error {
	n := len(dst) / 2
	if p.a == nil {
		p.a, p.b = make([]float64, n), make([]float64, n)
	}
	if err := errors.Join(p.input.Slice(p.a, z), p.second.Slice(p.b, z)); err != nil {
		return err
	}
	for i, v := range p.a {
		if w := p.b[i]; !p.polar {
			dst[2*i], dst[2*i+1] = v, w
		} else if math.Abs(w) > 1.001*2*math.Pi {
			return study.Errorf("--phase holds %g at slice %d, expected radians, of -2 pi to 2 pi: scale it "+
				"first", w, z)
		} else {
			dst[2*i], dst[2*i+1] = v*math.Cos(w), v*math.Sin(w)
		}
	}
	return nil
}
