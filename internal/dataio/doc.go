// Package dataio reads and writes arrays in the usual file formats.
//
//	format                   read                     write       values
//	numpy .npz               [Open], [OpenNPZ]        [WriteNPZ]  any real type, either byte order,
//	                                                              C or Fortran order
//	numpy .npy               [Open]                   [WriteNPY]  the same, and complex numbers
//	                                                              ([Set.Numbers])
//	numpy .npy too large for [OpenStack],             -           the same, in C order
//	memory, members of .npz  [NewStack], [Set.Stack]
//	.csv, .tsv, .csv.gz      [Open], [ReadCSV]        [WriteCSV]  finite decimal numbers, with or
//	                                                              without a header line
//	tables with texts and    [OpenTable],            [WriteRecords] numbers and texts by column, missing
//	missing values           [ReadTable]                          values
//	Matrix Market .mtx,      [Open],                  -           real, integer, pattern; general,
//	.mtx.gz                  [ReadMatrixMarket]                   symmetric, skew-symmetric;
//	                                                              coordinate and array
//	sparse .npz, written by  [Set.Sparse]             -           csr, csc, coo
//	scipy.sparse.save_npz
//	MATLAB .mat, 5 to 7.3,   [Open]                   -           integers, floating point, complex
//	HDF5 .h5                                                      numbers; deflate, shuffle; package
//	                                                              internal/hdf5
//	NIfTI .nii, .nii.gz      [Open], [ReadNIfTI]      -           the same, scaled by the header
//	BART .cfl with .hdr      [Open], [ReadBART]       -           complex numbers of 32 bits
//	.png                     [Open]                    [WriteImage]  grey or RGB, 1 to 16 bits, as
//	                                                              numbers in [0, 1]
//	.jpg                     [Open]                    [WriteImage] grey or RGB, the same
//	.tif                     [Open]                    [WriteImage] grey or RGB, also several, 8, 16 or 32 bits, the
//	                                                              same; floating point numbers of 32
//	                                                              or 64 bits, as they are
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
