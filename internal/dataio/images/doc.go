// Package images reads and writes images as arrays: PNG, JPEG (upright by its EXIF orientation) and TIFF, of 8 or 16
// bits in [0, 1], TIFF also of floating-point numbers as they are. An image is an array of shape (rows, columns), or
// (rows, columns, 3) in colours. The table of formats (package dataio) names these functions.
package images
