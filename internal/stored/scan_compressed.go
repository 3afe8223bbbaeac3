package stored

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
)

// sparseScan is a scan of a compressed matrix. The sums of a column are those of its entries x - shift,
// with the first of them as its shift, so that large means cancel nothing.
type sparseScan struct {
	m                            *Matrix
	z                            []float64
	shift, sum, squares, product []float64
	count                        []int64
}

func (m *Matrix) scanCompressed(ctx context.Context, z []float64, read func(bytes int64)) error {
	p := m.Cols
	s := &sparseScan{m: m, z: z, shift: make([]float64, p), sum: make([]float64, p), squares: make([]float64, p),
		product: make([]float64, p), count: make([]int64, p)}
	hash, sums := sha256.New(), m.newChecksums()
	fmt.Fprintf(hash, "%s %d %d %v\n", m.note, m.Rows, m.Cols, m.ByRows)
	var pointers []byte
	var bad error
	var e Entries
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	err := m.Pass(ctx, read, func(from, to int) {
		defer m.beside(func() {
			pointers = pointers[:0]
			for _, n := range m.sparse.indptr[from+1 : to+1] {
				pointers = binary.LittleEndian.AppendUint64(pointers, uint64(n))
			}
			hash.Write(pointers)
			for k := range m.spans {
				hash.Write(m.part(k, from, to))
			}
			sums.add(from, to)
		})()
		m.pieces(from, to, func(from, to int) {
			if bad != nil || ctx.Err() != nil {
				return
			}
			m.Entries(&e, from, to)
			if bad = m.sparse.check(m, &e, from); bad != nil {
				stop()
				return
			}
			s.add(&e, from)
		})
	})
	if bad != nil {
		return bad
	}
	if err == nil {
		err = ctx.Err() // in the last block
	}
	if err == nil {
		err = sums.check()
	}
	if err != nil {
		return err
	}
	return s.finish([32]byte(hash.Sum(nil)))
}

// add adds lines. A column is summed in the order of its rows, whatever the number of processors.
func (s *sparseScan) add(e *Entries, from int) {
	lines := len(e.Indptr) - 1
	if !s.m.ByRows {
		s.m.each(lines, func(i int) {
			for u := e.Indptr[i]; u < e.Indptr[i+1]; u++ {
				s.entry(from+i, int(e.Indices[u]), e.Values[u])
			}
		})
		return
	}
	parts := runtime.GOMAXPROCS(0)
	ends := bounds(s.m.Cols, parts)
	s.m.each(parts, func(k int) {
		lo, hi := int32(ends[k]), int32(ends[k+1])
		for i := range lines {
			line := e.Indices[e.Indptr[i]:e.Indptr[i+1]]
			first, _ := slices.BinarySearch(line, lo)
			for u := first; u < len(line) && line[u] < hi; u++ {
				s.entry(int(line[u]), from+i, e.Values[e.Indptr[i]+u])
			}
		}
	})
}

func (s *sparseScan) entry(j, i int, x float64) {
	if s.count[j] == 0 {
		s.shift[j] = x
	}
	s.count[j]++
	s.product[j] += x * s.z[i]
	x -= s.shift[j]
	s.sum[j] += x
	s.squares[j] += x * x
}

// finish turns the sums into statistics. With c entries of mean a and centered square q beside d - c
// zeros, a column has the mean a c/d and the centered square q + a^2 c (d - c)/d (Chan, Golub, LeVeque,
// Algorithms for computing the sample variance, 1983).
func (s *sparseScan) finish(hash [32]byte) error {
	d := float64(s.m.Rows)
	t := Statistics{Means: s.sum, Centered2: s.squares, Z: slices.Clone(s.z), Product: s.product, Hash: hash}
	for j, count := range s.count {
		c := float64(count)
		if count == 0 {
			continue
		}
		mean := s.shift[j] + s.sum[j]/c
		around := max(s.squares[j]-s.sum[j]*s.sum[j]/c, 0)
		t.Means[j] = mean * c / d
		t.Centered2[j] = around + mean*mean*c*(d-c)/d
		if !(t.Centered2[j] <= math.MaxFloat64) || math.IsInf(t.Means[j], 0) {
			return fmt.Errorf("column %d is too large: the sum of its squares overflows", j)
		}
	}
	s.m.sparse.nonzeros = s.count
	s.m.Statistics = t
	return nil
}
