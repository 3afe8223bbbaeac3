// Package dataio reads and writes arrays in the usual file formats.
//
// [Formats] lists them; a format is a row of a table that recognizes, opens, reads and writes its files. Beside
// [Open] and the functions that write there are
//
//	[OpenTable], [ReadTable]    tables of numbers and texts by column, with missing values
//	[OpenStack], [Set.Stack]    samples of a numpy array too large for memory, one at a time, also from a pipe
//	[Set.Map], [Set.MapSparse]  matrices that stay where they lie
//	[Set.Sparse]                sparse matrices of Matrix Market, or as scipy.sparse.save_npz writes them
//	[Set.Numbers]               complex numbers too, of numpy, MATLAB, HDF5, NIfTI and BART
//
// Images are package images', and arrays in memory package ndarray's. [Open] detects the format from the file's
// first bytes and returns a [Set] of named arrays. Of numpy's files only the directory and the headers are read
// until an array is asked for:
//
//	s, err := dataio.Open("data.npz")
//	...
//	defer s.Close()
//	y, err := s.Floats("y")      // y.Shape, y.Data in C order
//
// All arrays are float64 in C order, or int64 where [Set.Ints] asks for integers. An
// integer beyond 2^53 is rounded to the nearest float64.
//
// # Malformed input
//
// Files are not trusted. A header is accepted only as far as the file's length allows, checksums
// are compared, and no input makes a reader panic (a fuzz test checks this). Memory is a small
// multiple of the file's length; for deflated data up to 1032 times the length, the format's own
// limit; and for a sparse matrix in addition the pointers of up to 2^24 rows, or of 64 for every
// entry if that is more. Errors name what was found, where, and what was expected. Errors of
// functions that take a path also name the file.
//
// # Writing
//
// Files are written under a temporary name and renamed when they are complete: a reader sees either
// the old file or the new one, whole. [CheckWritable] reports beforehand whether that can work. The
// Encode functions write to a stream.
package dataio
