// Package draw draws what package study computes: the points of a sweep, the samples of a Monte Carlo run, and y and an
// estimate as images.
package draw

import (
	"surepipe/internal/figure"
	"surepipe/study"
)

// Origin is what a figure's file carries: the command that makes it again, and the hash of its data. The zero value
// stands for nothing.
type Origin struct{ Command, Data string }

// Formats are the extensions of the files of figures.
func Formats() []string { return figure.Formats() }

// CheckPath rejects a file whose name is that of no format; "" is none.
func CheckPath(path string) error {
	if path == "" {
		return nil
	}
	_, err := figure.Format(path)
	return err
}

func (o Origin) save(path string, f figure.Figure) error {
	if o == (Origin{}) {
		return figure.Save(path, f)
	}
	return figure.Save(path, f, figure.Note{Key: "Software", Text: "surepipe " + study.Version()},
		figure.Note{Key: "Command", Text: o.Command}, figure.Note{Key: "Data", Text: o.Data})
}

// IsImage reports whether an array of the shape can be written as an image.
func IsImage(shape []int) bool {
	return len(shape) == 2 || len(shape) == 3 && (shape[2] == 1 || shape[2] == 3)
}

// HasImages reports whether an array of the shape is a series of images, or one.
func HasImages(shape []int) bool { return newView(shape, false) != nil }
