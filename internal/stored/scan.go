package stored

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
)

// blockBytes is about the size of a block in the file and of its values in memory, and tile the
// number of columns that are summed at a time, so that the sums stay in a processor's cache. firstRows
// are those whose means are subtracted first.
const (
	blockBytes = 64 << 20
	tile       = 1024
	firstRows  = 64
)

// Block is the largest number of lines that are read at a time.
func (m *Matrix) Block() int {
	if m.sparse != nil {
		return m.sparse.block
	}
	line := max(m.Size(0, min(1, m.Lines())), 8*int64(m.length()), 1)
	return int(min(max(blockBytes/line, 1), int64(max(m.Lines(), 1))))
}

// BlockEnd is the line after those of the block that begins at a line.
func (m *Matrix) BlockEnd(from int) int {
	if m.sparse != nil {
		return m.sparse.blockEnd(m, from, blockBytes)
	}
	return min(from+m.Block(), m.Lines())
}

// Beside are bytes that the use of the matrix takes in memory, beside its columns: of a vector of d and
// one of p, of the blocks that are read, in the file and as values, and of what is in memory for good.
func (m *Matrix) Beside() (vectors, blocks, held int64) {
	vectors = 8 * (int64(m.Rows) + int64(m.Cols))
	blocks = 2 * min(blockBytes, 2*m.Bytes())
	switch {
	case m.sparse != nil:
		held = 8 * int64(len(m.sparse.indptr)+m.Cols)
	case m.file == nil:
		held = m.Bytes()
	}
	return vectors, blocks, held
}

// Pass calls f with the blocks of lines in order, and after each read with the number of bytes that
// have been read. It fetches ahead, and drops what is done.
func (m *Matrix) Pass(ctx context.Context, read func(bytes int64), f func(from, to int)) error {
	if err := m.Check(); err != nil {
		return err
	}
	n := m.Lines()
	for from, to := 0, 0; from < n; from = to {
		if err := ctx.Err(); err != nil {
			return err
		}
		to = m.BlockEnd(from)
		if to < n {
			m.Fetch(to, m.BlockEnd(to))
		}
		if err := m.shorter(); err != nil {
			return err
		}
		if err := m.Guard(func() { f(from, to) }); err != nil {
			return err
		}
		m.Drop(from, to)
		read(m.Size(0, to))
	}
	return m.Check() // what has been read may not be what was there
}

// Scan finds the statistics of the columns, X* z, and the hash, in one pass over the file. z has d
// values. It calls read with the number of bytes that have been read. The error names the place of a
// value that is NaN or Inf.
func (m *Matrix) Scan(ctx context.Context, z []float64, read func(bytes int64)) error {
	if len(z) != m.Rows {
		panic(fmt.Sprintf("stored: a scan of %d rows with %d values", m.Rows, len(z)))
	}
	m.ctx = ctx
	var err error
	if lost := m.Guard(func() {
		if m.sparse != nil {
			err = m.scanCompressed(ctx, z, read)
		} else {
			err = m.scanLines(ctx, z, read)
		}
	}); lost != nil {
		return lost
	}
	return err
}

func (m *Matrix) scanLines(ctx context.Context, z []float64, read func(bytes int64)) error {
	s := &scan{m: m, z: z, mean: make([]float64, m.Cols), sum: make([]float64, m.Cols),
		squares: make([]float64, m.Cols), product: make([]float64, m.Cols), missing: make([]int32, m.Cols),
		gram: m.newGram()}
	for _, v := range z {
		s.total += v
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s %d %d %v\n", m.note, m.Rows, m.Cols, m.ByRows)
	if m.ByRows {
		s.first()
	}
	buf, sums := make([]float64, m.Block()*m.length()), m.newChecksums()
	err := m.Pass(ctx, read, func(from, to int) {
		defer m.beside(func() {
			hash.Write(m.raw(from, to))
			sums.add(from, to)
		})()
		if m.ByRows {
			x := m.Read(buf, from, to)
			s.rows(x, from, to)
			if s.gram != nil {
				s.gram.add(x, s.mean)
			}
		} else {
			s.columns(m.Read(buf, from, to), from, to)
		}
	})
	if err == nil {
		err = sums.check()
	}
	if err != nil {
		return err
	}
	return s.finish([32]byte(hash.Sum(nil)))
}

// scan is a scan in progress. The sums are those of x - shift, with the mean of the column's first values as
// its shift, so that large means cancel nothing.
type scan struct {
	m                     *Matrix
	z                     []float64
	total                 float64   // of z
	mean                  []float64 // the shift, then the mean
	sum, squares, product []float64
	missing               []int32
	gram                  *gram // nil where it is not wanted
}

// first takes the shift from the first rows.
func (s *scan) first() {
	n, rows := len(s.mean), min(firstRows, s.m.Rows)
	for i, v := range s.m.Read(make([]float64, rows*n), 0, rows) {
		s.mean[i%n] += (v - s.mean[i%n]) / float64(i/n+1)
	}
}

// rows adds rows, tile by tile of columns. A column is summed in the order of its rows.
func (s *scan) rows(x []float64, from, to int) {
	p := s.m.Cols
	s.m.each((p+tile-1)/tile, func(i int) {
		lo, hi := i*tile, min((i+1)*tile, p)
		shift, sum, squares, product := s.mean[lo:hi], s.sum[lo:hi], s.squares[lo:hi], s.product[lo:hi]
		for row := from; row < to; row++ {
			z := s.z[row]
			line := x[(row-from)*p+lo:][:hi-lo]
			for j, v := range line {
				v -= shift[j]
				sum[j] += v
				squares[j] += v * v
				product[j] += v * z
			}
		}
	})
}

// columns adds whole columns. NaN is a missing value where the format has such.
func (s *scan) columns(x []float64, from, to int) {
	d := s.m.Rows
	s.m.each(to-from, func(i int) {
		line, j := x[i*d:(i+1)*d], from+i
		shift, sum, squares, product, missed := line[0], 0.0, 0.0, 0.0, 0.0
		if s.m.mayMiss() {
			shift = 0
		}
		count := int32(0)
		for k, v := range line {
			if v != v && s.m.mayMiss() {
				count++
				missed += s.z[k]
				continue
			}
			v -= shift
			sum += v
			squares += v * v
			product += v * s.z[k]
		}
		s.mean[j], s.sum[j], s.squares[j], s.missing[j] = shift, sum, squares, count
		if present := float64(d - int(count)); count > 0 && present > 0 {
			// What is missing is the mean of what is there.
			mean := sum / present
			s.product[j] = product + mean*missed
			s.sum[j] = mean * float64(d)
			s.squares[j] += mean * mean * float64(count)
		} else {
			s.product[j] = product
		}
	})
}

// mayMiss says that the format has missing values.
func (m *Matrix) mayMiss() bool {
	_, ok := m.format.(*genotypes)
	return ok
}

func (s *scan) finish(hash [32]byte) error {
	d := float64(s.m.Rows)
	t := Statistics{Means: s.mean, Centered2: s.squares, Z: append([]float64(nil), s.z...), Product: s.product,
		Hash: hash}
	for j, shift := range s.mean {
		sum := s.sum[j]
		t.Product[j] += shift * s.total
		t.Means[j] = shift + sum/d
		t.Centered2[j] = max(s.squares[j]-sum*sum/d, 0)
		t.Missing += int64(s.missing[j])
		if !(math.Abs(s.squares[j]) <= math.MaxFloat64) || math.IsInf(t.Means[j], 0) ||
			s.missing[j] == int32(s.m.Rows) {
			return s.locate(j)
		}
	}
	if s.gram != nil {
		t.Gram = s.gram.centered(s.sum)
	}
	s.m.Statistics = t
	return nil
}

func (s *scan) locate(j int) error {
	if s.missing[j] == int32(s.m.Rows) {
		return fmt.Errorf("column %d has no value that is not missing", j)
	}
	for i := range s.m.Rows {
		if v := s.m.At(i, j); math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("holds %g at [%d, %d], expected finite numbers", v, i, j)
		}
	}
	return fmt.Errorf("column %d is too large: the sum of its squares overflows", j)
}

func (m *Matrix) At(i, j int) float64 {
	line, k := j, i
	if m.ByRows {
		line, k = i, j
	}
	return m.Read(make([]float64, m.length()), line, line+1)[k]
}
