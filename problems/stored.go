package problems

import (
	"fmt"
	"slices"

	"surepipe/internal/stored"
	"surepipe/linops"
	"surepipe/linops/outofcore"
)

// linesOf is a stored matrix for package linops.
func linesOf(m *stored.Matrix) outofcore.Lines {
	l := outofcore.Lines{
		Rows: m.Rows, Cols: m.Cols, ByRows: m.ByRows, Size: m.Size, Block: m.Block(), Views: m.Views(),
		Read: m.Read, Pass: m.Pass, Guard: m.Guard, Drop: m.Drop, Products: m.Products, Nonzeros: m.Nonzeros(),
		Means: m.Means, Centered2: m.Centered2, Z: m.Z, Product: m.Product, Passes: 1,
	}
	if m.Sparse() {
		l.Entries = func(e *outofcore.LineEntries, from, to int) { m.Entries((*stored.Entries)(e), from, to) }
	}
	return l
}

// prepareStored is prepare for a matrix that is not in memory: its columns are centered and scaled
// in each product, by the statistics of the first pass.
func (p *Problem) prepareStored(a *outofcore.OutOfCore, intercept, standardize bool) {
	means, centered2 := a.Statistics()
	if intercept {
		a = a.Centered()
		p.Operator, p.means = a, means
	}
	if !standardize {
		return
	}
	p.scales = deviationsOf(centered2, means, p.D)
	inverse := slices.Clone(p.scales)
	for j, s := range p.scales {
		if s == 0 { // a constant column stays as it is
			p.scales[j], inverse[j] = 1, 1
			continue
		}
		inverse[j] = 1 / s
	}
	op := linops.ScaleColumns(p.dev, a, inverse)
	p.own(op.Release)
	p.Operator = op
}

// stored opens a matrix that is not to be in memory; nil where it is.
func (l *specLoader) stored(ref *arrayRef) (*loadedArray, error) {
	if src := l.data.arrays[ref.name]; src != nil && (src.inline != nil || src.column != "" || src.where != nil) &&
		l.override(ref.name) == "" {
		return nil, nil
	}
	p, err := l.find(ref.name)
	if err != nil || p.set == nil || p.set.IsSparse() || p.column != "" {
		return nil, err
	}
	if p.name == "" {
		if p.name, err = p.set.Only(); err != nil {
			return nil, nil // reading it says so
		}
	}
	m, err := l.files.Stored(p.set, p.name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.path, err)
	}
	if m == nil {
		return nil, nil
	}
	a := &loadedArray{mapped: m}
	a.Name = ref.name
	return a, nil
}

// sparse reads a sparse matrix. Where the array is dense, or missing, it returns nil if the
// reference allows a dense array, else an error.
func (l *specLoader) sparse(ref *arrayRef) (*loadedArray, error) {
	src := l.data.arrays[ref.name]
	inline := src != nil && src.inline != nil && l.override(ref.name) == ""
	if ref.form == anyForm && inline {
		return nil, nil
	}
	p, err := l.find(ref.name)
	switch {
	case err != nil:
		return nil, err
	case ref.form == anyForm && (p.set == nil || !p.set.IsSparse()):
		return nil, nil
	case p.set == nil:
		return nil, l.missing(ref.name, ref.line)
	case !p.set.IsSparse():
		return nil, fmt.Errorf("%s: array %q is dense, expected a sparse matrix; or dense or matrix in place of csr",
			p.path, ref.name)
	}
	a := &loadedArray{}
	a.Name = ref.name
	if ref == l.operator.matrix && l.files.Stored != nil {
		a.mapped, err = l.files.Stored(p.set, ref.name)
	}
	if err == nil && a.mapped == nil {
		a.sparse, err = p.set.Sparse()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.path, err)
	}
	return a, nil
}
