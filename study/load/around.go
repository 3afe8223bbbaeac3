package load

import (
	"context"
	"fmt"
	"slices"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/problems"
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
		data.Data, err = f.Specification.Load(problems.SpecFiles{Context: f.ctx, Data: f.Data,
			Table: f.Table.options(), X: f.X, Mu: f.Mu, Sample: &sample, Stored: f.storedX})
		if err != nil {
			err = f.tableError(err)
		}
	case f.X == "" && f.Mu == "" && f.D == "" && f.Table.Response == "" &&
		(f.Data == "" || !f.mapsData() && isArchive(f.Data)):
		data, err = readAroundNPZ(f.ctx, f.Data, f.Problem, s)
	case f.Table.Response != "":
		err = study.Errorf("--response is %q, but y comes from --y", f.Table.Response)
	default:
		data, err = f.readInputs(&sample, false)
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

// isArchive reports whether the file is an archive of dense arrays; false where it cannot be opened,
// and the next attempt to open it returns the error.
func isArchive(path string) bool {
	set, err := dataio.Open(path)
	if err != nil {
		return false
	}
	defer set.Close()
	return set.Archive()
}

// readAroundNPZ is readAround of an .npz file, or of none.
func readAroundNPZ(ctx context.Context, path, problem string, s *study.SampleSource) (Contents, error) {
	l, _ := LayoutOf(problem)
	if len(s.Shape) != l.YRank {
		return Contents{}, study.Errorf("%s: sample 0 has shape %s, expected %s for %s",
			s.Name, ndarray.ShapeString(s.Shape), l.YShape, problem)
	}
	if path == "" {
		return Contents{Data: problems.Data{YShape: s.Shape}}, nil
	}
	set, err := dataio.OpenArchive(ctx, path)
	if err != nil {
		return Contents{}, study.Bad(err)
	}
	defer set.Close()
	data, err := readSetAround(arrays{Set: set}, problem, s.Shape)
	if err != nil {
		return Contents{}, study.Errorf("%s: %w", path, err)
	}
	data.Ignored = slices.DeleteFunc(set.Unread(), func(name string) bool { return name == "y" })
	expected, why := s.Shape, ""
	switch {
	case l.Design:
		d, _ := data.X.Dims()
		expected, why = []int{d}, fmt.Sprintf("as \"X\" of %s has %d rows", path, d)
	case l.Selection:
		expected, why = []int{len(data.Indices)}, fmt.Sprintf("as \"indices\" of %s has %d", path, len(data.Indices))
	}
	if !slices.Equal(s.Shape, expected) {
		return Contents{}, study.Errorf("%s: sample 0 has shape %s, expected %s %s",
			s.Name, ndarray.ShapeString(s.Shape), ndarray.ShapeString(expected), why)
	}
	return data, nil
}
