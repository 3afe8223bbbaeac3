package load

import (
	"context"
	"fmt"
	"slices"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/study"
)

// ReadAround reads all of the problem's data except y, which comes from a stack of samples.
func (f *Source) ReadAround(ctx context.Context, s *study.SampleSource) (data Contents, err error) {
	f.ctx = ctx
	first, err := s.At(0)
	if err != nil {
		return Contents{}, err
	}
	sample := dataio.Array{Name: "y", Shape: s.Shape, Data: first}
	switch {
	case f.Command:
		data, err = f.readExec(false, &sample)
	case f.Specification != nil:
		files := f.specFiles()
		files.Y, files.Sample = "", &sample
		data.Data, err = f.Specification.Load(files)
		if err != nil {
			err = f.tableError(err)
		}
	case !f.samplesMayHave(len(s.Shape)):
		l, _ := LayoutOf(f.Problem)
		err = study.Errorf("%s: sample 0 has shape %s, expected %s for %s",
			s.Name, ndarray.ShapeString(s.Shape), l.YShape, f.Problem)
	case f.Table.Response != "":
		err = study.Errorf("--response is %q, but y comes from --y", f.Table.Response)
	default:
		if data, err = f.readInputs(&sample, false); err == nil {
			err = f.checkSample(s, data)
		}
	}
	if err != nil {
		return Contents{}, err
	}
	data.Y = first
	f.vary(&data.Data)
	if err := f.scan(&data); err != nil {
		return Contents{}, err
	}
	return data, f.estimateNoise(&data)
}

// samplesMayHave reports whether samples of the problem may have so many axes.
func (f *Source) samplesMayHave(axes int) bool {
	l, known := LayoutOf(f.Problem)
	return !known || axes == l.YRank || axes == l.YRank+1 && (l.Rows || l.Colours)
}

// checkSample rejects samples that do not fit the other arrays.
func (f *Source) checkSample(s *study.SampleSource, data Contents) error {
	expected, why := s.Shape, ""
	switch l, _ := LayoutOf(f.Problem); {
	case l.Design:
		d, _ := data.X.Dims()
		expected, why = []int{d}, fmt.Sprintf("as \"X\" of %s has %d rows", f.Name(), d)
	case l.Selection:
		n := len(data.Indices)
		expected, why = []int{n}, fmt.Sprintf("as \"indices\" of %s has %d", f.Name(), n)
	}
	if slices.Equal(s.Shape, expected) {
		return nil
	}
	return study.Errorf("%s: sample 0 has shape %s, expected %s %s",
		s.Name, ndarray.ShapeString(s.Shape), ndarray.ShapeString(expected), why)
}
