package load

import (
	"cmp"
	"fmt"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/internal/stored"
	"surepipe/problems/spec"
	reports "surepipe/progress"
	"surepipe/study"
)

// The values of Source.Storage.
const (
	StorageAuto   = "auto"
	StorageMemory = "memory"
	StorageMapped = "mapped"
	StorageSingle = "float32"
)

var Storages = []string{StorageAuto, StorageMemory, StorageMapped, StorageSingle}

// sparseBytes is about what an entry of a sparse matrix takes in memory.
const sparseBytes = 64

// vectorsBeside is about the number of vectors of d and of p, beside columns of X, that are in memory
// where X is not: statistics, weights, gradients and those of one pass.
const vectorsBeside = 24

// processBytes is about what the process takes for itself, which --memory does not count.
const processBytes = 128 << 20

// maps reports whether an array for X stays in its file, or is held as float32s: see --storage.
func (f *Source) maps(set *dataio.Set, array string) bool {
	switch f.Storage {
	case StorageMapped, StorageSingle:
		return true
	case StorageMemory, "":
		return false
	}
	return stored.Memory() > 0 && bytesOf(set, array) > float64(stored.Memory())/2
}

// bytesOf is about what an array for X takes in memory; 0 where it is there already, or cannot be opened.
func bytesOf(set *dataio.Set, array string) float64 {
	bytes := 8.0
	if set.IsSparse() {
		array, bytes = "data", sparseBytes
		if !set.Has(array) { // it is in memory already
			return 0
		}
	}
	r, err := set.Open(array)
	if err != nil {
		return 0
	}
	defer r.Close()
	for _, n := range r.Shape() {
		bytes *= float64(n)
	}
	return bytes
}

// storedX opens an array as a matrix that stays where it is; nil where it is to be read into memory.
func (f *Source) storedX(set *dataio.Set, array string) (*stored.Matrix, error) {
	if !f.maps(set, array) {
		return nil, nil
	}
	if f.Storage == StorageSingle && set.IsSparse() {
		return nil, study.Errorf("holds a sparse matrix, expected a dense one with --storage float32")
	}
	if f.Storage == StorageSingle {
		return set.Single(array)
	}
	open := func() (*stored.Matrix, error) { return set.Map(array) }
	if set.IsSparse() {
		open = set.MapSparse
	}
	m, err := open()
	if err == nil || f.Storage != StorageAuto {
		return m, err
	}
	if fault := stored.Fits("X", bytesOf(set, array)); fault != nil {
		return nil, fmt.Errorf("%w, and cannot stay in its file: %w", fault, err)
	}
	return nil, nil // it is read
}

// scan reads a stored X once: see [stored.Matrix.Scan]. The solver begins with the product of X and
// y.
func (f *Source) scan(data *Contents) error {
	m := spec.MatrixOf(data.X).Stored
	if m == nil || m.Product != nil { // it has been read, with another response
		return nil
	}
	if err := f.limitMemory(m); err != nil {
		return err
	}
	if err := array.UseNative(); err != nil { // the scan multiplies columns
		return study.Bad(err)
	}
	z := make([]float64, m.Rows)
	if len(data.Y) == m.Rows {
		copy(z, data.Y)
		if f.Intercept {
			floats.AddConst(-stat.Mean(z, nil), z)
		}
	}
	report := reports.From(f.ctx)
	read := func(bytes int64) {
		report(reports.Report{Stage: reports.Pass, Step: int(bytes), Steps: int(m.Bytes())})
	}
	if err := m.Scan(f.ctx, z, read); err != nil {
		if f.ctx.Err() != nil {
			return err
		}
		return study.Errorf("%s: array \"X\" %w", cmp.Or(m.Name(), f.X, f.Name()), err)
	}
	return nil
}

// limitMemory keeps the process within --memory, where that is given, by collecting garbage in time. It
// refuses a limit into which what must be in memory does not fit.
func (f *Source) limitMemory(m *stored.Matrix) error {
	if f.Limit == "" {
		return nil
	}
	bytes, err := humanize.ParseBytes(f.Limit)
	if err != nil {
		return study.Bad(err)
	}
	memory := int64(bytes)
	vectors, blocks, held := m.Beside()
	if vectors = vectors * vectorsBeside; vectors+blocks > memory/2+processBytes {
		return study.Errorf("--memory is %s: half of it is for columns of X, and beside them the vectors of a %d x "+
			"%d matrix take %s and the blocks that are read %s", f.Limit, m.Rows, m.Cols,
			humanize.Bytes(uint64(vectors)), humanize.Bytes(uint64(blocks)))
	}
	if f.Collect == nil {
		return nil
	}
	f.Collect(max(memory, processBytes) + held)
	return nil
}
