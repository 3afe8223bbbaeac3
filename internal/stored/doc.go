// Package stored reads matrices where they lie on a disk, through a mapping of the file into
// memory, block by block and in the file's order. Only the block being read, and the one after it
// that the system fetches meanwhile, count as memory of the process: a block's pages are given back
// as soon as it is done. They may stay in the system's cache, which it takes back when memory is
// needed elsewhere.
//
// A [Matrix] is a sequence of lines: the rows of X, or its columns, whichever the file stores
// contiguously. Before it is used it is scanned once ([Matrix.Scan]), which finds the statistics of
// the columns, products X* z, NaN and Inf, and a hash of the file's values, all in one pass.
//
// Formats: the dense values of numpy's files, float64 or float32, in C or Fortran order (package
// dataio opens these), sparse matrices compressed by rows or by columns, as scipy writes them
// ([MapCompressed]), of which the pointers to the lines are held in memory, and the genotypes of PLINK 1 .bed
// files, at two bits each.
package stored
