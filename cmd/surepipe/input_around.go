package main

import (
	"context"
	"fmt"
	"slices"

	"surepipe/internal/dataio"
	"surepipe/problems"
	"surepipe/study"
)

// readAround reads all of the problem's data except y, which comes from a stack of samples.
func (f *source) readAround(ctx context.Context, s *study.SampleSource) (data fileData, err error) {
	f.ctx = ctx
	first, err := s.At(0)
	if err != nil {
		return fileData{}, err
	}
	sample := dataio.Array{Name: "y", Shape: s.Shape, Data: first}
	switch {
	case f.command:
		data, err = f.readExec(false, &sample)
	case f.specification != nil:
		data.Data, err = f.specification.Load(problems.SpecFiles{Context: f.ctx, Data: f.data, Table: f.table.options(), X: f.x, Mu: f.mu, Sample: &sample, Stored: f.storedX})
		if err != nil {
			err = f.tableError(err)
		}
	case f.x == "" && f.mu == "" && f.d == "" && f.table.response == "" && (f.data == "" || !f.mapsData() && isArchive(f.data)):
		data, err = readAroundNPZ(f.ctx, f.data, f.problem, s)
	case f.table.response != "":
		err = study.Errorf("%s is %q, but y comes from %s",
			study.Option("response"), f.table.response, study.Option("y"))
	default:
		data, err = f.readInputs(&sample, false)
	}
	if err != nil {
		return fileData{}, err
	}
	data.Y = first
	f.vary(&data.Data)
	if err := f.scan(&data); err != nil {
		return fileData{}, err
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
func readAroundNPZ(ctx context.Context, path, problem string, s *study.SampleSource) (fileData, error) {
	l, _ := layoutOf(problem)
	if len(s.Shape) != l.YRank {
		return fileData{}, study.Errorf("%s: sample 0 has shape %s, expected %s for %s",
			s.Name, dataio.ShapeString(s.Shape), l.YShape, problem)
	}
	if path == "" {
		return fileData{Data: problems.Data{YShape: s.Shape}}, nil
	}
	set, err := dataio.OpenArchive(ctx, path)
	if err != nil {
		return fileData{}, study.Bad(err)
	}
	defer set.Close()
	data, err := readSetAround(arrays{Set: set}, problem, s.Shape)
	if err != nil {
		return fileData{}, study.Errorf("%s: %w", path, err)
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
		return fileData{}, study.Errorf("%s: sample 0 has shape %s, expected %s %s",
			s.Name, dataio.ShapeString(s.Shape), dataio.ShapeString(expected), why)
	}
	return data, nil
}
