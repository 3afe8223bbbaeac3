package spec

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

	"surepipe/input"
	"surepipe/internal/dataio"
	"surepipe/internal/lists"
	"surepipe/internal/stored"
)

// haveY says that y does not come from the file of data.
func (l *loader) haveY() bool { return l.files.Y != "" || l.files.Sample != nil }

// single is what the only array of the file of data is.
func (l *loader) single() string {
	path, _ := l.dataFile()
	design := l.Regression() || l.layout.Design
	if isBED(path) || l.dataSet.IsSparse() || design && l.haveY() && l.files.X == "" {
		return "X"
	}
	return "y"
}

// alone reports whether the one array of an archive is y under another name.
func (l *loader) alone(set *dataio.Set) bool {
	names := set.Names()
	return l.Layout != nil && !l.layout.Design && !l.layout.Selection && !l.haveY() && len(names) == 1 &&
		!slices.Contains(dataNames, names[0])
}

// in names the file of an error about an array, and from names that file.
func (l *loader) in(name string, err error) error {
	f := &l.files
	return l.from(name, cmp.Or(l.override(name), f.Data, f.Y, f.X, f.Mu), err)
}

func (l *loader) from(name, path string, err error) error {
	switch {
	case err == nil || path == "":
		return err
	case path == l.override(name):
		return input.Errorf("%s: %s: %w", input.Option(name), path, err)
	}
	return input.Errorf("%s: %w", path, err)
}

// has reports whether there is an array of that name, or an error that reading it returns.
func (l *loader) has(name string) bool {
	p, err := l.find(name)
	return p.set != nil || err != nil
}

// with opens an array for a function, whose errors are about it; expected is its shape, for the error where it is
// missing. A file's only array may have any name: it is read, and held under its own.
func (l *loader) with(name, expected string, use func(r *dataio.Reader) error) error {
	p, err := l.find(name)
	switch {
	case err != nil:
		return err
	case p.set == nil:
		return l.missing(name, expected, 0)
	case p.set.IsSparse():
		return l.in(name, errors.New("holds a sparse matrix, expected a dense array"))
	case p.name != name:
		a, err := l.whole(name, p.set)
		if err != nil {
			return l.in(name, err)
		}
		l.held.Hold(a)
		p.set = l.held
	}
	r, err := p.set.Open(name)
	if err != nil {
		return l.in(name, err)
	}
	defer r.Close()
	return l.in(name, use(r))
}

// whole reads the only array of a set: the frames of a video as the columns of a matrix, integers of an image as
// numbers, and a single row or column of a format that has only matrices as a vector.
func (l *loader) whole(name string, set *dataio.Set) (a dataio.Array, err error) {
	array, err := set.Only()
	if err != nil {
		return a, err
	}
	o, observed := l.layout, name == "y" || name == "mu"
	if o.Frames && observed && !l.files.Many {
		var frames []int
		if a, frames, err = set.Frames(array); err == nil && frames != nil {
			if l.frames = frames; !set.IsImage() {
				a.ScaleToUnit()
			}
		}
	} else {
		a, err = set.Floats(array)
	}
	if a.Name = name; o.Colours && observed {
		set.Image(&a)
	}
	if name == "y" && (set.IsImage() || a.Depth.Scaled) {
		l.depth = a.Depth
	}
	if name != "X" && name != "D" && o.YRank <= 1 {
		a = set.Vector(a)
	}
	return a, err
}

// opener opens an array as a matrix that stays where it is; nil where it is to be read.
type opener = func(set *dataio.Set, array string) (*stored.Matrix, error)

// kept is a matrix that is sparse, or stays in its file; the zero Matrix where it is dense.
func (l *loader) kept(name string, p place, open opener) (m Matrix, err error) {
	if open != nil && isBED(p.path) {
		m.Stored, err = stored.OpenBED(l.files.FS, p.path)
		return m, err
	}
	array := p.name
	if array == "" && !p.set.IsSparse() {
		if array, err = p.set.Only(); err != nil {
			return m, nil // reading it says so
		}
	}
	if _, held := p.set.Held(array); held && p.set == l.dataSet {
		open = nil // it is in memory
	}
	m, err = StoredOrSparse(p.set, array, open)
	return m, l.from(name, p.path, err)
}

func isBED(path string) bool { return strings.HasSuffix(path, ".bed") }

func (l *loader) matrixOf(name, expected string, open opener) (x mat.Matrix, err error) {
	if p, err := l.find(name); err == nil && p.set != nil {
		if m, err := l.kept(name, p, open); err != nil || m != (Matrix{}) {
			return m, err
		}
	}
	err = l.with(name, expected, func(r *dataio.Reader) (err error) {
		x, err = r.Matrix(expected)
		return err
	})
	return x, err
}

// vector reads an array of one axis.
func (l *loader) vector(name, expected string, read func(*dataio.Reader) (dataio.Array, error)) (a dataio.Array,
	err error) {
	err = l.with(name, expected, func(r *dataio.Reader) error {
		if len(r.Shape()) != 1 {
			return r.ShapeError(expected)
		}
		a, err = read(r)
		return err
	})
	return a, err
}

func (l *loader) integers(name, expected string) ([]int, error) {
	a, err := l.vector(name, expected, (*dataio.Reader).Ints)
	return lists.Map(a.Ints, func(v int64) int { return int(v) }), err
}

// vectors are those of the names that there are.
func (l *loader) vectors(expected string, names ...string) (all map[string][]float64, err error) {
	all = map[string][]float64{}
	for _, name := range names {
		if !l.has(name) {
			continue
		}
		a, err := l.vector(name, expected, (*dataio.Reader).Floats)
		if err != nil {
			return nil, err
		}
		all[name] = a.Data
	}
	return all, nil
}
