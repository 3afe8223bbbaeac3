package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/gonum/stat"

	"surepipe/internal/dataio"
	"surepipe/internal/stored"
	"surepipe/problems"
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

const storageFlag = "where the matrix X of a regression is: memory, as float64; mapped, on the disk, of which the columns that matter are held in memory (a .npy file, or a member of a .npz file that is not compressed, of float64 or float32; a sparse matrix of scipy's save_npz with compressed=False; a PLINK .bed file always is); float32, in half the memory, see surepipe run --help; auto: mapped if X takes more than half of the machine's memory, and can be mapped"

// storageHelp says what --storage does.
const storageHelp = `A matrix X that is larger than memory is read where it lies, with --storage mapped, by the
solver active-set: it holds the columns that matter in memory, up to the bytes of --memory for
each sample or chain of weights in flight, solves for several weights of a path on them, and
takes one pass over the file to verify these solutions for all columns. The result says how many
passes it took (storage in the JSON, and --explain). Files in C order are read row by row, those
in Fortran order column by column. Means, standard deviations, products with y and the hash of
the data come from a first pass. Other solvers work too, by a pass for every product with X; a
loss other than the squared one takes some passes for each of its Newton steps, and --verify
hundreds of passes.

A sparse X, as scipy.sparse.save_npz writes it with compressed=False, in the formats csr and csc,
is read in the same way, and the columns that matter are held in memory as a sparse matrix. The
places of the rows or columns in the file (indptr) are in memory, 8 bytes each. Indices increase
in each row or column (scipy's sum_duplicates).

X of a .bed file (PLINK 1, with its .bim and .fam beside it) are the numbers of copies of the
first allele; missing genotypes are the mean of the column. --standardize and --intercept need no
other file. y comes from --y, in the order of the .fam.

With --storage float32, or a file of float32, the values of X are rounded to 24 bits, a relative
error of 6e-8 each; all sums are in float64. The estimates are exact for the rounded X. In
measurements on 300 x 2000 columns with correlations of 0 to 0.99999 between neighbours mu_hat
moved by 1e-8 to 2e-8 ||y||, and SURE by less than 1e-7 of its error bar.

`

// maps reports whether an array for X stays in its file, or is held as float32s: see --storage.
func (f *estimatorFlags) maps(set *dataio.Set, array string) bool {
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
func (f *estimatorFlags) storedX(set *dataio.Set, array string) (*stored.Matrix, error) {
	if !f.maps(set, array) {
		return nil, nil
	}
	if f.storage == storageSingle && set.IsSparse() {
		return nil, errors.New("holds a sparse matrix, expected a dense one with --storage float32")
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
func (f *estimatorFlags) asksStorage() bool {
	return f.storage != storageMemory && f.storage != "" && !f.exec.given()
}

// checkStorage rejects other values of --storage, and problems without a matrix.
func (f *estimatorFlags) checkStorage(changed func(flag string) bool) error {
	named, known := problems.Lookup(f.problem)
	switch {
	case !slices.Contains(storages, f.storage):
		return usagef("--storage is %q, expected %s%s", f.storage, strings.Join(storages, ", "), dataio.Meant(f.storage, storages))
	case changed("storage") && f.specification == nil && known && !named.Design:
		return usagef("--storage is for %s and specifications, found --problem %s", strings.Join(problems.Regressions(), ", "), f.problem)
	case changed("storage") && f.table.response != "":
		return usagef("--storage is for matrices, found --response: the columns of a table are made in memory")
	}
	return nil
}

// isBED reports whether a file is named as one of genotypes.
func isBED(path string) bool { return strings.HasSuffix(path, ".bed") }

// mapsData reports whether X of the file of --data is not to be in memory.
func (f *estimatorFlags) mapsData() bool {
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
		return usagef("--data: %s holds X, and so does --X", path)
	}
	if in.mapped, err = stored.OpenBED(path); err != nil {
		return usagef("--%s: %w", flag, err)
	}
	return nil
}

// scan reads a stored X once: see [stored.Matrix.Scan]. The solver begins with the product of X and
// y.
func (f *estimatorFlags) scan(data *fileData) error {
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
	bar := newProgress(f.cmd)
	defer bar.close()
	report := reports.From(bar.preparing(f.cmd.Context()))
	read := func(bytes int64) {
		report(reports.Report{Stage: reports.Pass, Step: int(bytes), Steps: int(m.Bytes())})
	}
	if err := m.Scan(f.cmd.Context(), z, read); err != nil {
		if f.cmd.Context().Err() != nil {
			return err
		}
		return usagef("%s: array \"X\" %w", cmp.Or(m.Name(), f.x, f.source()), err)
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
func (f *estimatorFlags) limitMemory(m *stored.Matrix) error {
	memory, err := f.memoryBytes()
	if err != nil || !f.cmd.Flags().Changed("memory") {
		return err
	}
	vectors, blocks, held := m.Beside()
	if vectors = vectors * vectorsBeside; vectors+blocks > memory/2+processBytes {
		return usagef("--memory is %s: half of it is for columns of X, and beside them the vectors of a %d x %d matrix take %s and the blocks that are read %s", f.memory, m.Rows, m.Cols, humanize.Bytes(uint64(vectors)), humanize.Bytes(uint64(blocks)))
	}
	limitGarbage(max(memory, processBytes) + held)
	return nil
}

// text is the numbers in words.
func storageText(s *study.StorageNumbers) string {
	return fmt.Sprintf("%d passes, %.3g GB of %.3g GB read", s.Passes, float64(s.BytesRead)/1e9, float64(s.Bytes)/1e9)
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
