package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/gonum/stat"

	"surepipe/internal/dataio"
	"surepipe/internal/stored"
	reports "surepipe/progress"
	"surepipe/study"
)

// The values of --storage.
const (
	storageAuto   = "auto"
	storageMemory = "memory"
	storageMapped = "mapped"
	storageSingle = "float32"
)

var storages = []string{storageAuto, storageMemory, storageMapped, storageSingle}

// maps reports whether an array for X stays in its file, or is held as float32s: see --storage.
func (f *source) maps(set *dataio.Set, array string) bool {
	switch f.storage {
	case storageMapped, storageSingle:
		return true
	case storageMemory:
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

// sparseBytes is about what an entry of a sparse matrix takes in memory.
const sparseBytes = 64

// storedX opens an array as a matrix that stays where it is; nil where it is to be read into memory.
func (f *source) storedX(set *dataio.Set, array string) (*stored.Matrix, error) {
	if !f.maps(set, array) {
		return nil, nil
	}
	if f.storage == storageSingle && set.IsSparse() {
		return nil, study.Errorf("holds a sparse matrix, expected a dense one with %s float32", study.Option("storage"))
	}
	if f.storage == storageSingle {
		return set.Single(array)
	}
	open := func() (*stored.Matrix, error) { return set.Map(array) }
	if set.IsSparse() {
		open = set.MapSparse
	}
	m, err := open()
	if err == nil || f.storage != storageAuto {
		return m, err
	}
	if fault := stored.Fits("X", bytesOf(set, array)); fault != nil {
		return nil, fmt.Errorf("%w, and cannot stay in its file: %w", fault, err)
	}
	return nil, nil // it is read
}

// asksStorage reports whether X may be stored in another way than as float64 in memory.
func (f *source) asksStorage() bool {
	return f.storage != storageMemory && f.storage != "" && !f.command
}

// isBED reports whether a file is named as one of genotypes.
func isBED(path string) bool { return strings.HasSuffix(path, ".bed") }

// mapsData reports whether X of the file of --data is not to be in memory.
func (f *source) mapsData() bool {
	l, _ := layoutOf(f.problem)
	if !f.asksStorage() || !l.Design || isBED(f.data) {
		return isBED(f.data)
	}
	set, err := dataio.Open(f.data)
	if err != nil {
		return false
	}
	defer set.Close()
	return !set.IsSparse() && set.Has("X") && f.maps(set, "X")
}

// mapNamed opens X of an archive, where no other file gives it and it is not to be in memory.
func (in *inputs) mapNamed(set *dataio.Set) (err error) {
	if set == nil || in.mapped != nil || in.sparse != nil || in.more["X"].Data != nil || !in.layout.Design || !in.asksStorage() || !set.Has("X") {
		return nil
	}
	in.mapped, err = in.storedX(set, "X")
	return err
}

// fromBED takes X from genotypes.
func (in *inputs) fromBED(flag, path string) (err error) {
	if in.x != "" && flag == "data" {
		return study.Errorf("%s: %s holds X, and so does %s",
			study.Option("data"), path, study.Option("X"))
	}
	if in.mapped, err = stored.OpenBED(path); err != nil {
		return study.Errorf("%s: %w", study.Option(flag), err)
	}
	return nil
}

// scan reads a stored X once: see [stored.Matrix.Scan]. The solver begins with the product of X and
// y.
func (f *source) scan(data *fileData) error {
	m := data.Mapped
	if m == nil {
		return nil
	}
	if err := f.limitMemory(m); err != nil {
		return err
	}
	z := make([]float64, m.Rows)
	if len(data.Y) == m.Rows {
		copy(z, data.Y)
		if f.intercept {
			mean := stat.Mean(z, nil)
			for i := range z {
				z[i] -= mean
			}
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
		return study.Errorf("%s: array \"X\" %w", cmp.Or(m.Name(), f.x, f.name()), err)
	}
	return nil
}

// vectorsBeside is about the number of vectors of d and of p, beside columns of X, that are in memory
// where X is not: statistics, weights, gradients and those of one pass.
const vectorsBeside = 24

// processBytes is about what the process takes for itself, which --memory does not count.
const processBytes = 128 << 20

// limitMemory keeps the process within --memory, where that is given, by collecting garbage in time. It
// refuses a limit into which what must be in memory does not fit.
func (f *source) limitMemory(m *stored.Matrix) error {
	if f.limit == "" {
		return nil
	}
	bytes, err := humanize.ParseBytes(f.limit)
	if err != nil {
		return study.Bad(err)
	}
	memory := int64(bytes)
	vectors, blocks, held := m.Beside()
	if vectors = vectors * vectorsBeside; vectors+blocks > memory/2+processBytes {
		return study.Errorf("%s is %s: half of it is for columns of X, and beside them the vectors of a %d x %d matrix take %s and the blocks that are read %s",
			study.Option("memory"), f.limit, m.Rows, m.Cols, humanize.Bytes(uint64(vectors)), humanize.Bytes(uint64(blocks)))
	}
	if f.collect == nil {
		return nil
	}
	f.collect(max(memory, processBytes) + held)
	return nil
}

// hasConstantStored is hasConstantColumn of a matrix in a file.
func hasConstantStored(m *stored.Matrix) bool {
	for j, v := range m.Centered2 {
		if v == 0 && m.Means[j] != 0 {
			return true
		}
	}
	return false
}
