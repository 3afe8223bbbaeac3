package load

import (
	"bufio"
	"bytes"
	"context"
	"math"

	"surepipe/internal/dataio"
	"surepipe/study"
)

// Sizes are about what there is to read, found without reading it.
type Sizes struct {
	// Numbers is how many numbers all arrays have; of a table at most. Signal is how many of them are not in a design
	// matrix.
	Numbers, Signal float64
	// Rows and Columns are those of the largest matrix, 0 where there is none; of a completion those of the rows and
	// columns that can have entries, of which there are so many.
	Rows, Columns, Entries float64
	// Read is how many numbers reading takes beside them.
	Read float64
}

// Sizes are those of the source's files, of which headers are read, and images.
func (f *Source) Sizes(ctx context.Context) (s Sizes, err error) {
	f.ctx = ctx
	for _, path := range []string{f.Data, f.X, f.Y, f.Mu, f.D} {
		switch {
		case path == "":
		case dataio.IsTable(path):
			if err := f.sizeOfTable(&s, path); err != nil {
				return s, study.Errorf("%s: %w", path, err)
			}
		default:
			if err := f.size(&s, path); err != nil {
				return s, study.Bad(err)
			}
		}
	}
	return s, nil
}

// sizeOfTable adds a table, by its length and its first line.
func (f *Source) sizeOfTable(s *Sizes, path string) error {
	file, err := f.files().FS.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	line, _ := bufio.NewReaderSize(file, 1<<20).ReadSlice('\n')
	columns := 1 + float64(max(bytes.Count(line, []byte(",")), bytes.Count(line, []byte("\t"))))
	n := float64(info.Size()) / 4 // three digits and a comma
	s.Numbers += n
	s.Read += 3 * n
	s.Rows, s.Columns = max(s.Rows, n/columns), max(s.Columns, columns)
	if l, _ := LayoutOf(f.Problem); l.Selection && f.Table.Response != "" { // an entry a line
		s.Entries = n / columns
		s.Rows, s.Columns = s.Entries, math.Sqrt(2*s.Entries)
	}
	if s.Signal += n / columns; f.Table.Response == "" {
		s.Signal += n
	}
	return nil
}

func (f *Source) size(s *Sizes, path string) error {
	set, err := dataio.OpenAs(path, f.reading())
	if err != nil {
		return err
	}
	defer set.Close()
	if set.IsSparse() {
		m, err := set.Triplets()
		if err != nil {
			return err
		}
		s.Entries = float64(len(m.Values))
		s.Numbers += 3 * s.Entries
		s.Rows, s.Columns = max(s.Rows, float64(m.Rows)), max(s.Columns, float64(m.Cols))
		if l, _ := LayoutOf(f.Problem); l.Selection {
			s.Rows, s.Columns, s.Signal = min(s.Rows, s.Entries), min(s.Columns, s.Entries), s.Entries
		}
		return nil
	}
	for _, name := range set.Names() {
		r, err := set.Open(name)
		if err != nil {
			continue // its own error comes where it is read
		}
		n, shape := 1.0, r.Shape()
		for _, k := range shape {
			n *= float64(k)
		}
		s.Numbers += n
		if design := name == "X" || name == "D" || path == f.X || path == f.D; !design {
			s.Signal += n
		}
		if len(shape) > 1 && n > s.Rows*s.Columns {
			s.Columns = float64(shape[len(shape)-1])
			s.Rows = n / s.Columns
		}
		r.Close()
		if _, held := set.Held(name); !held {
			s.Read += n / 8 // single precision, converted in parts
		}
		if name == "indices" {
			s.Entries = n
		}
	}
	if shape, err := set.Ints("shape"); s.Entries > 0 && err == nil && len(shape.Ints) == 2 {
		s.Rows, s.Columns = min(float64(shape.Ints[0]), s.Entries), min(float64(shape.Ints[1]), s.Entries)
	}
	return nil
}
