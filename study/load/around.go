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
func (f *Source) ReadAround(ctx context.Context, s *study.SampleSource) (Contents, error) {
	return f.read(ctx, s, false)
}

func (f *Source) firstOf(s *study.SampleSource) (*dataio.Array, error) {
	first, err := s.At(0)
	if err != nil {
		return nil, err
	}
	if named := !f.Command && f.Specification == nil; named && !f.samplesMayHave(len(s.Shape)) {
		l, _ := LayoutOf(f.Problem)
		return nil, study.Errorf("%s: sample 0 has shape %s, expected %s for %s",
			s.Name, ndarray.ShapeString(s.Shape), l.YShape, f.Problem)
	} else if named && f.Table.Response != "" {
		return nil, study.Errorf("--response is %q, but y comes from --y", f.Table.Response)
	}
	return &dataio.Array{Name: "y", Shape: s.Shape, Data: first}, nil
}

// samplesMayHave reports whether samples of the problem may have so many axes.
func (f *Source) samplesMayHave(axes int) bool {
	l, known := LayoutOf(f.Problem)
	return !known || axes == l.YRank || axes == l.YRank+1 && (l.Rows || l.Colours)
}

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
