package problems

import (
	"surepipe/internal/dataio"
	"surepipe/internal/design"
	"surepipe/internal/stored"
)

// Types of data as the readers of files have them, under names that others can say.
type (
	// Array is an array of numbers or texts; Labels are the names of its rows and columns, and Depth says how
	// exactly an image has its numbers.
	Array  = dataio.Array
	Labels = dataio.Labels
	Depth  = dataio.Depth
	// Set are the arrays of a file. Sparse is a sparse matrix, Triplets one by its entries, and Stored a matrix
	// that stays in its file.
	Set      = dataio.Set
	Sparse   = dataio.Sparse
	Triplets = dataio.Triplets
	Stored   = stored.Matrix
	// Table is a table with a response, TableOptions say how it is read, Design how its columns are coded, and Observed
	// are the entries of a matrix in a table.
	Table        = design.Data
	TableOptions = design.Options
	Design       = design.Design
	Observed     = design.Entries
	// Format is a format of files.
	Format = dataio.Format
)
