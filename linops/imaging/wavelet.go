package imaging

import (
	"fmt"
	"slices"
	"sync"

	"surepipe/internal/lists"
	"surepipe/internal/parallel"
	"surepipe/linops"
	"surepipe/linops/internal/product"
	"surepipe/linops/internal/simd"
)

// Wavelet is the orthonormal wavelet transform of a vector or of an image, with periodic
// boundaries. One level splits a vector of even length n into n/2 averages and n/2 details,
//
//	a_i = sum_t h_t x_{(2i+t) mod n}        d_i = sum_t g_t x_{(2i+t) mod n}
//
// with the family's filter h of L taps and g_t = (-1)^t h_{L-1-t}; the next level splits the
// averages. The coefficients are
//
//	1-D    [averages | coarsest details | ... | finest details]
//	2-D    at each level the quadrants    averages        details along rows
//	                                      down columns    diagonal
//	       where the averages hold the next level (Mallat's layout, row-major)
//
//	Forward: analysis, signal to coefficients        Adjoint: synthesis
//
// It is orthogonal, so that Adjoint(w) is its inverse, the operator from coefficients to signals. A
// side that is not divisible by 2^levels is first padded with zeros to the next multiple, W = W_N E:
// there are then more coefficients than values, [Wavelet.Coefficients], and
//
//	W*W = I,    and for the synthesis A = W* of a crop: A A* = I, A*A a projection.
//
// A synthesis leaves the padded pixels free, so that a sparse b continues the signal there.
//
// It takes O(L n) on the host. After [Wavelet.Load] vectors and images with sides of up to 4096 are
// transformed on another device too, by products with matrices; else the vectors of that device are
// copied to the host and back.
//
// Families are "haar" and Daubechies' "db2" to "db10" and "sym4" to "sym8", where N moments vanish
// and L = 2 N. Where a level is shorter than the filter, the filter wraps, and the transform stays
// orthogonal.
//
// Mallat, A theory for multiresolution signal decomposition, IEEE Trans. Pattern Analysis and
// Machine Intelligence 11 (1989).
type Wavelet struct {
	mapped
	height, width      int // of the signal
	rows, cols, levels int // of the padded signal, and of the coefficients
	oneD               bool
	h, g               []float64
	taps               waveletTaps
	images             sync.Pool // of *waveletWork
	lines              sync.Pool // of *waveletLine
}

// NewWavelet1D returns the transform of vectors of length n over a number of levels. It returns an
// error where the family is unknown, levels is below 1, or 2^levels is not below 2 n.
func NewWavelet1D(n int, family string, levels int) (*Wavelet, error) {
	product.CheckSize("Wavelet1D", n, n)
	a, err := newWavelet("Wavelet1D", min(n, 1), n, family, levels)
	if err != nil {
		return nil, err
	}
	if a.cols, err = padded("length", n, levels); err != nil {
		return nil, err
	}
	a.oneD = true
	return a.known(), nil
}

// NewWavelet2D returns the transform of row-major images of rows x cols pixels over a number of
// levels. It returns an error where the family is unknown, levels is below 1, or 2^levels is not
// below twice the rows and the columns.
func NewWavelet2D(rows, cols int, family string, levels int) (*Wavelet, error) {
	product.CheckSize("Wavelet2D", rows, cols)
	a, err := newWavelet("Wavelet2D", rows, cols, family, levels)
	if err != nil {
		return nil, err
	}
	if a.rows, err = padded("number of rows", rows, levels); err != nil {
		return nil, err
	}
	if a.cols, err = padded("number of columns", cols, levels); err != nil {
		return nil, err
	}
	return a.known(), nil
}

func (a *Wavelet) known() *Wavelet {
	a.d, a.p = a.rows*a.cols, a.height*a.width
	a.shares = !a.oneD && a.d >= parallel.Share
	s := linops.Structure{Rows: linops.Known(1)}
	if a.pads() {
		s = linops.Structure{Columns: linops.Known(1)}
	}
	a.structure = linops.Complete(a, s)
	return a
}

func newWavelet(name string, rows, cols int, family string, levels int) (*Wavelet, error) {
	h, ok := wavelets[family]
	if !ok {
		return nil, unknownFamily(family)
	}
	if levels < 1 || levels > 62 {
		return nil, fmt.Errorf("linops: wavelet transform of %d levels, want 1 to 62", levels)
	}
	a := &Wavelet{height: rows, width: cols, rows: rows, cols: cols, levels: levels, h: h}
	a.g = make([]float64, len(h))
	for t := range h {
		a.g[t] = h[len(h)-1-t]
		if t%2 == 1 {
			a.g[t] = -a.g[t]
		}
	}
	a.taps = newWaveletTaps(a.h, a.g)
	a.name, a.host = name, a.vector
	a.images.New = func() any { return new(waveletWork) }
	a.lines.New = func() any { return new(waveletLine) }
	return a, nil
}

// waveletTaps are the filters' even and odd taps apart, and these in reverse order.
type waveletTaps struct{ h, g, hBack, gBack [2][]float64 }

func newWaveletTaps(h, g []float64) (w waveletTaps) {
	for s := range 2 {
		for t := s; t < len(h); t += 2 {
			w.h[s], w.g[s] = append(w.h[s], h[t]), append(w.g[s], g[t])
		}
		w.hBack[s], w.gBack[s] = slices.Clone(w.h[s]), slices.Clone(w.g[s])
		slices.Reverse(w.hBack[s])
		slices.Reverse(w.gBack[s])
	}
	return w
}

// padded is the next multiple of 2^levels. A side that would nearly double is an error, which names
// the number of levels that the size allows.
func padded(what string, n, levels int) (int, error) {
	most := 0
	for most < 62 && 1<<(most+1) < 2*n {
		most++
	}
	if n > 0 && levels > most {
		return 0, fmt.Errorf("linops: wavelet transform of %d levels: the %s is %d, which allows %d", levels, what, n,
			most)
	}
	return (n + 1<<levels - 1) >> levels << levels, nil
}

func (a *Wavelet) pads() bool { return a.height*a.width != a.rows*a.cols }

// Coefficients is the shape of the coefficients: the signal's, with both sides (of a vector its
// length) rounded up to multiples of 2^levels.
func (a *Wavelet) Coefficients() (rows, cols int) { return a.rows, a.cols }

// Averages returns the coordinates of the last level's averages, in order: the coefficients that a
// sparsity penalty should not include.
func (a *Wavelet) Averages() []int {
	r, c := a.size(a.levels)
	return corner(r, c, a.cols)
}

// corner are the first rows x columns places of an image with cols columns.
func corner(rows, columns, cols int) []int {
	return lists.Make(rows*columns, func(i int) int { return i/columns*cols + i%columns })
}

func (a *Wavelet) size(levels int) (r, c int) {
	if a.oneD {
		return a.rows, a.cols >> levels
	}
	return a.rows >> levels, a.cols >> levels
}

// waveletWork is the memory of one vector's transform: an image between two steps, and the padded signal.
type waveletWork struct{ between, padded []float64 }

func (a *Wavelet) vector(dst, src []float64, do action, shared bool) {
	w := a.images.Get().(*waveletWork)
	defer a.images.Put(w)
	if !a.oneD {
		w.between = lists.Resize(w.between, a.rows*a.cols)
	}
	back := do.kind == doAdjoint
	if a.pads() {
		w.padded = lists.Resize(w.padded, a.rows*a.cols)
		if back {
			a.transform(w, w.padded, src, true, shared)
			for i := range a.height {
				copy(dst[i*a.width:][:a.width], w.padded[i*a.cols:])
			}
			return
		}
		clear(w.padded)
		for i := range a.height {
			copy(w.padded[i*a.cols:], src[i*a.width:][:a.width])
		}
		src = w.padded
	}
	a.transform(w, dst, src, back, shared)
}

// transform is the orthogonal transform, or its adjoint.
func (a *Wavelet) transform(w *waveletWork, dst, src []float64, back, shared bool) {
	if back {
		copy(dst, src)
		for l := a.levels - 1; l >= 0; l-- {
			s := waveletStep{a, l, true, shared}
			if a.oneD {
				s.alongRows(dst, dst)
				continue
			}
			s.downColumns(w.between, dst)
			s.alongRows(dst, w.between)
		}
		return
	}
	for l := range a.levels {
		s := waveletStep{a, l, false, shared}
		if a.oneD {
			s.alongRows(dst, src)
		} else {
			s.alongRows(w.between, src)
			s.downColumns(dst, w.between)
		}
		src = dst
	}
}

// waveletStep maps the averages of a level, r x c values in the corner of from, to the corner of to, or back.
type waveletStep struct {
	a            *Wavelet
	level        int
	back, shared bool
}

func (s waveletStep) alongRows(to, from []float64) {
	a := s.a
	r, c := a.size(s.level)
	pooled(&a.lines, s.shared, r, parallel.Rows(c), func(line *waveletLine, lo, hi int) {
		line.x = lists.Resize(line.x, 2*(c+len(a.h)))
		for at := lo * a.cols; at < hi*a.cols; at += a.cols {
			if s.back {
				a.merge(to[at:][:c], from[at:][:c], line.x)
			} else {
				a.split(to[at:][:c], from[at:][:c], line.x)
			}
		}
	})
}

// downColumns sets two rows of the result at a time: row j to the averages down the columns and row r/2+j to the
// details, or back, rows 2j and 2j+1 by the formula of merge.
func (s waveletStep) downColumns(to, from []float64) {
	a := s.a
	r, c := a.size(s.level)
	row := func(i int) []float64 { return to[i*a.cols:][:c] }
	parallel.RangesIf(s.shared, r/2, parallel.Rows(c), func(lo, hi int) {
		for j := lo; j < hi; j++ {
			if !s.back {
				a.sumRows(row(j), a.h, from, 2*j, 0, r, false)
				a.sumRows(row(r/2+j), a.g, from, 2*j, 0, r, false)
				continue
			}
			for odd := range 2 {
				first := j - (len(a.h)/2 - 1)
				a.sumRows(row(2*j+odd), a.taps.hBack[odd], from, first, 0, r/2, false)
				a.sumRows(row(2*j+odd), a.taps.gBack[odd], from, first, r/2, r/2, true)
			}
		}
	})
}

// waveletLine is one goroutine's memory for the parts of a row.
type waveletLine struct{ x []float64 }

// split sets to = [averages | details] of x, which may be the same slice. buffer holds x with as many
// entries beyond its end as the filter reaches, the even and the odd entries apart.
func (a *Wavelet) split(to, x, buffer []float64) {
	half := len(x) / 2
	size := half + len(a.h)/2 - 1
	even, odd := buffer[:size], buffer[size:2*size]
	for i := range half {
		even[i], odd[i] = x[2*i], x[2*i+1]
	}
	for i := half; i < size; i++ {
		even[i], odd[i] = even[i-half], odd[i-half]
	}
	averages, details := to[:half], to[half:]
	simd.Sum(averages, a.taps.h[0], even, 1, false)
	simd.Sum(averages, a.taps.h[1], odd, 1, true)
	simd.Sum(details, a.taps.g[0], even, 1, false)
	simd.Sum(details, a.taps.g[1], odd, 1, true)
}

// merge is the inverse and the adjoint of split,
//
//	to_{2i+s} = sum_u h_{2u+s} a_{i-u} + g_{2u+s} d_{i-u},    s = 0, 1.
//
// buffer holds the averages and the details with some entries before their beginning, and the result.
func (a *Wavelet) merge(to, x, buffer []float64) {
	half := len(x) / 2
	before := len(a.h)/2 - 1
	size := half + before
	averages, details := buffer[:size], buffer[size:2*size]
	copy(averages[before:], x[:half])
	copy(details[before:], x[half:])
	for i := before - 1; i >= 0; i-- {
		averages[i], details[i] = averages[i+half], details[i+half]
	}
	even, odd := buffer[2*size:][:half], buffer[2*size+half:][:half]
	simd.Sum(even, a.taps.hBack[0], averages, 1, false)
	simd.Sum(even, a.taps.gBack[0], details, 1, true)
	simd.Sum(odd, a.taps.hBack[1], averages, 1, false)
	simd.Sum(odd, a.taps.gBack[1], details, 1, true)
	for i := range half {
		to[2*i], to[2*i+1] = even[i], odd[i]
	}
}

// sumRows sets to, or adds to it, sum_t q_t times row first + (at+t) mod n of x.
func (a *Wavelet) sumRows(to, q, x []float64, at, first, n int, add bool) {
	for at = wrap(at, n); len(q) > 0; at = 0 {
		k := min(len(q), n-at)
		simd.Sum(to, q[:k], x[(first+at)*a.cols:], a.cols, add)
		q, add = q[k:], true
	}
}
