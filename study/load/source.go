// Package load reads the data of a problem from files of any format: arrays, tables with a response,
// sparse matrices, images, matrices that stay where they are, and the files that a specification names.
// [Source] says where they are. It also estimates the variance of the noise from them, and says what
// was left out or replaced ([study.Notes]). Errors are bad input ([study.Error]) and name the file, and the
// array or column.
package load

import (
	"context"
	"io/fs"

	"surepipe/internal/design"
	"surepipe/internal/noise"
	"surepipe/problems"
)

// Source says where the data of a problem are, and how to read them.
type Source struct {
	// Problem is the name of a problem, and Specification one in its place, read from the file Spec.
	Problem, Spec string
	Specification *problems.Spec
	// Command says that the estimator is a command, for which y is an array of any shape.
	Command bool
	// Files has all files of the data, and those that a specification names, by their names; nil has none.
	// [problems.Disk] has those of the operating system.
	Files fs.FS
	// Data is the file of the data; X, Y, Mu and D are files of arrays that replace those of Data.
	Data, X, Y, Mu, D string
	// Names are those of the columns of X, where it is an array, or of a matrix without one; nil for none.
	Names []string
	Table Table
	Variant
	// Storage is where X is: [StorageAuto], [StorageMemory], [StorageMapped] or [StorageSingle].
	Storage string
	// Limit, if not "", is the limit of the process's memory, such as 4GiB; Collect is then called
	// with the bytes that it leaves for garbage and data.
	Limit   string
	Collect func(bytes int64)
	// Sigma2Method says how to estimate sigma2, "" where it is given or not known.
	Sigma2Method string

	ctx context.Context // of the reading under way
	// several says that y may have a column for each of several responses; table is that of one of them, as it is read.
	several bool
	table   *design.Data
}

// Variant is a variant of a problem.
type Variant struct {
	Intercept, Standardize bool
	Loss                   problems.Loss
	Effects                problems.Effects
	Anisotropic, Vectorial bool
	// EffectsOpen says that nothing was said of effects: those of a completion are then chosen.
	EffectsOpen bool
	// StandardizeAuto asks for columns of a completion that are divided by their standard deviations where these
	// differ by more than a factor of 10, and StandardizeOpen for those of a table.
	StandardizeAuto, StandardizeOpen bool
	// Degree is that of trend filtering, or the order of Whittaker's differences; nil for the default.
	Degree *int
	// Mix is alpha of the elastic net, nil for one with two weights.
	Mix *float64
	// ColumnGroups is a file of the groups of columns.
	ColumnGroups string
}

// Variance is what was found of sigma2 when the data were read.
type Variance struct {
	// Estimate is nil where sigma2 was not estimated, or Fits says that it takes fits: [Source.VarianceOfFits].
	Estimate *noise.Estimate
	Fits     bool
}

// LossOf is the loss of the variant, or else of the specification.
func (f *Source) LossOf() problems.Loss {
	if f.Loss.Name == "" && f.Specification != nil {
		return f.Specification.Loss
	}
	return f.Loss
}

func (f *Source) vary(data *problems.Data) {
	v := f.Variant
	data.Intercept, data.Loss, data.Effects = v.Intercept, v.Loss, v.Effects
	if l, _ := LayoutOf(f.Problem); !l.Selection || f.Specification != nil { // see standardize
		data.Standardize = v.Standardize
	}
	data.Anisotropic, data.Vectorial, data.Order = v.Anisotropic, v.Vectorial, v.Degree
	data.Mix = v.Mix
}

// Contents is the content of data files.
type Contents struct {
	problems.Data
	Variance
	// Together are labels of the observations: those of one label are left out together. Nil where none were asked for.
	Together []int
	// Each is the number of columns of y where it has several for an observation, else 0.
	Each int
	// Response is the name of y where it is one of several responses, else "".
	Response string
}

// LayoutOf is the layout of a named problem; known is false for other names.
func LayoutOf(problem string) (l problems.Layout, known bool) {
	n, known := problems.Lookup(problem)
	return n.Layout, known
}
