package main

import (
	"context"

	"surepipe/internal/noise"
	"surepipe/problems"
	"surepipe/study"
)

// source says where the data of a problem are, and how to read them.
type source struct {
	// problem is the name of a problem, and specification one in its place, read from the file spec.
	problem, spec string
	specification *problems.Spec
	// command says that the estimator is a command, for which y is an array of any shape.
	command bool
	// data is the file of the data; x, y, mu and d are files of arrays that replace those of data.
	data, x, y, mu, d string
	table             tableFlags
	variant
	// storage is where X is: [storageAuto], [storageMemory], [storageMapped] or [storageSingle].
	storage string
	// limit, if not "", is the limit of the process's memory, such as 4GiB; collect is then called
	// with the bytes that it leaves for garbage and data.
	limit   string
	collect func(bytes int64)
	// sigma2Method says how to estimate sigma2, "" where it is given or not known.
	sigma2Method string

	ctx context.Context // of the reading under way
}

// variant is a variant of a problem.
type variant struct {
	intercept              bool
	loss                   problems.Loss
	effects                problems.Effects
	anisotropic, vectorial bool
	// degree is that of trend filtering, or the order of Whittaker's differences; nil for the default.
	degree *int
}

// variance is what was found of sigma2 when the data were read.
type variance struct {
	// estimate is nil where sigma2 was not estimated, or fits says that it takes fits.
	estimate *noise.Estimate
	fits     bool
}

// vary sets the variant of a problem.
func (f *source) vary(data *problems.Data) {
	v := f.variant
	data.Intercept, data.Standardize, data.Loss, data.Effects = v.intercept, f.table.standardize, v.loss, v.effects
	data.Anisotropic, data.Vectorial, data.Order = v.anisotropic, v.vectorial, v.degree
}

// note is something to know about the data, or the estimator, that is no reason to doubt the numbers.
type note struct {
	code string
	text error
}

// notes are several.
type notes []note

// add adds one; arguments may be of type [study.Option].
func (n *notes) add(code, format string, args ...any) {
	*n = append(*n, note{code, study.Errorf(format, args...)})
}
