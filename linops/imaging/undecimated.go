package imaging

import (
	"fmt"
	"math"
	"sync"

	"surepipe/internal/lists"
	"surepipe/internal/parallel"
	"surepipe/linops"
	"surepipe/linops/internal/product"
	"surepipe/linops/internal/simd"
)

// Undecimated is the undecimated wavelet transform F of a vector, of an image, or of an image of
// several channels, with the boundaries reflected: all shifts of the orthonormal transform of
// [Wavelet] together, with weights such that
//
//	F*F = I          (a Parseval frame, of K > n coefficients).
//
// The signal x is first reflected at its boundaries to E x, of twice the length in each direction,
// with E*E = I, and becomes circular. One level splits averages a of scale s = 2^l, of any length,
//
//	a'_i = sum_t h_t a_{i+st} / sqrt(2)        d_i = sum_t g_t a_{i+st} / sqrt(2)
//
// and the next level splits a'. In an image the three details of a level are those down columns,
// along rows, and diagonal. An image of c channels, interleaved as (rows, columns, c), is first
// transformed pixel by pixel by the orthonormal cosine transform across its channels, which for
// red, green and blue separates brightness and two differences of colour.
//
// The coefficients are bands of lines x length numbers, see [Undecimated.Bands]. It takes O(L n) a
// level with filters of L taps, on the host, and about 8 (4 levels + 20) bytes of memory a pixel.
//
// Coifman and Donoho, Translation-invariant de-noising, 1995; Nason and Silverman, The stationary
// wavelet transform and some statistical applications, 1995.
type Undecimated struct {
	mapped
	rows, cols, channels, levels int
	lines, length                int // of the reflected signal
	oneD                         bool
	scale                        float64   // E has entries scale
	mix                          []float64 // the orthonormal transform across the channels
	h, g, hBack, gBack           []float64 // divided by sqrt(2)
	works                        sync.Pool // of *undecimatedWork
	buffer                       sync.Pool // of *waveletLine
}

// NewUndecimated1D returns the transform of vectors of length n. It returns an error where the
// family is unknown, levels is below 1, or the filter's taps at the last level would be further
// apart than the reflected signal is long.
func NewUndecimated1D(n int, family string, levels int) (*Undecimated, error) {
	product.CheckSize("Undecimated1D", n, n)
	return newUndecimated(1, n, 1, true, family, levels)
}

// NewUndecimated2D returns the transform of row-major images of rows x cols pixels with a number of
// channels, interleaved. The errors are those of [NewUndecimated1D].
func NewUndecimated2D(rows, cols, channels int, family string, levels int) (*Undecimated, error) {
	product.CheckSize("Undecimated2D", rows, cols)
	if channels < 1 {
		panic(fmt.Sprintf("linops: Undecimated2D of %d channels, want at least 1", channels))
	}
	return newUndecimated(rows, cols, channels, false, family, levels)
}

func newUndecimated(rows, cols, channels int, oneD bool, family string, levels int) (*Undecimated, error) {
	h, ok := wavelets[family]
	if !ok {
		return nil, unknownFamily(family)
	}
	a := &Undecimated{rows: rows, cols: cols, channels: channels, levels: levels, oneD: oneD, lines: 2 * rows,
		length: 2 * cols, scale: 0.5, mix: cosineMatrix(channels)}
	if oneD {
		a.lines, a.scale = 1, math.Sqrt(0.5)
	}
	if shortest := 2 * min(rows, cols); !oneD && shortest>>min(max(levels-1, 0), 62) == 0 || levels < 1 ||
		a.length>>min(max(levels-1, 0), 62) == 0 {
		most := 1
		for n := a.length; n>>most != 0 && (oneD || shortest>>most != 0); {
			most++
		}
		return nil, fmt.Errorf("linops: undecimated wavelet transform of %d levels, want 1 to %d for %d x %d values",
			levels, most, rows, cols)
	}
	t := len(h)
	a.h, a.g, a.hBack, a.gBack = make([]float64, t), make([]float64, t), make([]float64, t), make([]float64, t)
	for i := range h {
		a.h[i] = h[i] / math.Sqrt2
		a.g[i] = h[t-1-i] / math.Sqrt2
		if i%2 == 1 {
			a.g[i] = -a.g[i]
		}
	}
	for i := range h {
		a.hBack[i], a.gBack[i] = a.h[t-1-i], a.g[t-1-i]
	}
	a.works.New = func() any { return a.newWork() }
	a.buffer.New = func() any { return new(waveletLine) }
	a.mapped = mapped{twin: twin{host: a.vector, shares: a.Len() >= parallel.Share}, name: "Undecimated",
		d: a.Bands() * a.lines * a.length, p: a.Len()}
	a.structure = linops.Complete(a, linops.Structure{Columns: linops.Known(1)})
	return a, nil
}

func unknownFamily(family string) error {
	return fmt.Errorf("linops: wavelet family %q, want haar, db2 to db10 or sym4 to sym8", family)
}

// Len is n, the number of values of the signal.
func (a *Undecimated) Len() int { return a.rows * a.cols * a.channels }

func (a *Undecimated) details() int {
	if a.oneD {
		return 1
	}
	return 3
}

// Bands is the number of bands: for each channel in turn the details of every level, from the
// finest, and then the averages.
func (a *Undecimated) Bands() int { return a.channels * a.bandsEach() }

func (a *Undecimated) bandsEach() int { return a.details()*a.levels + 1 }

// Level is the level of a band, 0 for the finest; averages reports that it holds the averages.
func (a *Undecimated) Level(band int) (level int, averages bool) {
	at := band % a.bandsEach()
	if at == a.bandsEach()-1 {
		return a.levels - 1, true
	}
	return at / a.details(), false
}

// Lines is the shape of every band.
func (a *Undecimated) Lines() (lines, length int) { return a.lines, a.length }

func (a *Undecimated) vector(dst, src []float64, do action, shared bool) {
	w := a.works.Get().(*undecimatedWork)
	at := func(band, line int) int { return (band*a.lines + line) * a.length }
	if do.kind == doForward {
		w.filter(nil, src, func(band, line int, z []float64) { copy(dst[at(band, line):], z) }, shared)
	} else {
		w.filter(dst, nil, func(band, line int, z []float64) { copy(z, src[at(band, line):]) }, shared)
	}
	a.works.Put(w)
}

// Filter sets dst to F* f(F x) for vectors of n values in the host's memory, which may be the same
// one. each is called once for every line of every band, from several goroutines at the same time,
// with the line's coefficients z, and replaces them by f's.
func (a *Undecimated) Filter(dst, x []float64, each func(band, line int, z []float64)) {
	if len(dst) != a.Len() || len(x) != a.Len() {
		panic(fmt.Sprintf("linops: Undecimated filters %d values into %d, want %d", len(x), len(dst), a.Len()))
	}
	w := a.works.Get().(*undecimatedWork)
	w.filter(dst, x, each, a.shares)
	a.works.Put(w)
}

// undecimatedWork is the state of one channel's transform.
type undecimatedWork struct {
	a              *Undecimated
	channel, level int
	dst, x         []float64
	each           func(band, line int, z []float64)

	averages              []float64   // of the current level
	high                  []float64   // its details along the lines, not yet split down the columns
	down, along, diagonal []float64   // its details
	back                  [][]float64 // F* of the details of each level; before that its averages along the lines
}

func (a *Undecimated) newWork() *undecimatedWork {
	w := &undecimatedWork{a: a}
	n := a.lines * a.length
	image := func() []float64 { return make([]float64, n) }
	w.averages, w.high = image(), image()
	if !a.oneD {
		w.down, w.along, w.diagonal = image(), image(), image()
	}
	w.back = make([][]float64, a.levels)
	for l := range w.back {
		w.back[l] = image()
	}
	return w
}

// filter is Filter; dst or x may be nil for no result or for x = 0.
func (w *undecimatedWork) filter(dst, x []float64, each func(band, line int, z []float64), shared bool) {
	a, source := w.a, x
	if x != nil && dst != nil && &x[0] == &dst[0] && a.channels > 1 {
		source = append([]float64(nil), x...)
	}
	w.dst, w.x, w.each = dst, source, each
	for w.channel = range a.channels {
		w.run(w.loadLine, a.lines, shared)
		for w.level = range a.levels {
			w.run(w.splitLine, a.lines, shared)
			if !a.oneD {
				w.run(w.splitDownLine, a.lines, shared)
			}
			w.run(w.mergeLine, a.lines, shared)
			if a.oneD { // the averages are in back until the details have gone
				w.averages, w.high = w.high, w.averages
			}
		}
		w.run(w.sumsLine, a.lines, shared)
		if dst == nil {
			continue
		}
		for w.level = a.levels - 1; w.level >= 0; w.level-- {
			w.run(w.mergeAllLine, a.lines, shared)
			w.averages, w.back[w.level] = w.back[w.level], w.averages
		}
		w.run(w.unloadLine, a.rows, shared)
	}
	w.dst, w.x, w.each = nil, nil, nil
}

func (w *undecimatedWork) run(phase func(int), lines int, shared bool) {
	parallel.RangesIf(shared, lines, parallel.Rows(w.a.length), func(lo, hi int) {
		for line := lo; line < hi; line++ {
			phase(line)
		}
	})
}

func (w *undecimatedWork) line(x []float64, i int) []float64 {
	return x[i*w.a.length:][:w.a.length]
}

// band is the number of a level's details, by their direction, or of the averages where level is
// the number of levels.
func (w *undecimatedWork) band(level, direction int) int {
	return w.channel*w.a.bandsEach() + level*w.a.details() + direction
}

func (w *undecimatedWork) loadLine(i int) {
	a := w.a
	to := w.line(w.averages, i)
	if w.x == nil {
		clear(to)
		return
	}
	if i >= a.rows {
		i = a.lines - 1 - i
	}
	from, mix := w.x[i*a.cols*a.channels:], a.mix[w.channel*a.channels:][:a.channels]
	for j := range a.cols {
		v := 0.0
		for k, c := range mix {
			v += c * from[j*a.channels+k]
		}
		v *= a.scale
		to[j], to[a.length-1-j] = v, v
	}
}

// unloadLine adds the channel's share of a line to dst.
func (w *undecimatedWork) unloadLine(i int) {
	a := w.a
	first := w.line(w.averages, i)
	mirrored := first
	if !a.oneD {
		mirrored = w.line(w.averages, a.lines-1-i)
	}
	to, mix := w.dst[i*a.cols*a.channels:], a.mix[w.channel*a.channels:][:a.channels]
	for j := range a.cols {
		v := first[j] + first[a.length-1-j]
		if !a.oneD {
			v += mirrored[j] + mirrored[a.length-1-j]
		}
		v *= a.scale
		for k, c := range mix {
			if w.channel == 0 {
				to[j*a.channels+k] = c * v
			} else {
				to[j*a.channels+k] += c * v
			}
		}
	}
}

// splitLine splits a line of the averages along its length.
func (w *undecimatedWork) splitLine(i int) {
	a := w.a
	buffer := a.buffer.Get().(*waveletLine)
	x := a.wrapped(buffer, w.line(w.averages, i), 0, w.level)
	simd.Sum(w.line(w.back[w.level], i), a.h, x, 1<<w.level, false)
	simd.Sum(w.line(w.high, i), a.g, x, 1<<w.level, false)
	a.buffer.Put(buffer)
	if a.oneD {
		w.each(w.band(w.level, 0), i, w.line(w.high, i))
	}
}

// splitDownLine splits what splitLine has left down the columns, and hands on the details.
func (w *undecimatedWork) splitDownLine(i int) {
	a, low := w.a, w.back[w.level]
	w.sumDown(w.line(w.averages, i), a.h, low, i, false)
	w.sumDown(w.line(w.down, i), a.g, low, i, false)
	w.sumDown(w.line(w.along, i), a.h, w.high, i, false)
	w.sumDown(w.line(w.diagonal, i), a.g, w.high, i, false)
	w.each(w.band(w.level, 0), i, w.line(w.down, i))
	w.each(w.band(w.level, 1), i, w.line(w.along, i))
	w.each(w.band(w.level, 2), i, w.line(w.diagonal, i))
}

// mergeLine sets a line of back to that of F* of the level's details.
func (w *undecimatedWork) mergeLine(i int) {
	a := w.a
	buffer := a.buffer.Get().(*waveletLine)
	defer a.buffer.Put(buffer)
	to, before := w.line(w.back[w.level], i), -w.reach()
	if a.oneD {
		// high holds the details, and takes the averages in their place.
		high := w.line(w.high, i)
		x := a.wrapped(buffer, high, before, w.level)
		copy(high, to)
		simd.Sum(to, a.gBack, x, 1<<w.level, false)
		return
	}
	buffer.x = lists.Resize(buffer.x, a.length+a.extended(w.level))
	v := buffer.x[:a.length]
	part := waveletLine{x: buffer.x[a.length:]}
	w.sumDown(v, a.gBack, w.down, i+before, false)
	simd.Sum(to, a.hBack, a.wrapped(&part, v, before, w.level), 1<<w.level, false)
	w.sumDown(v, a.hBack, w.along, i+before, false)
	w.sumDown(v, a.gBack, w.diagonal, i+before, true)
	simd.Sum(to, a.gBack, a.wrapped(&part, v, before, w.level), 1<<w.level, true)
}

// mergeAllLine adds to a line of back that of F* of the averages.
func (w *undecimatedWork) mergeAllLine(i int) {
	a := w.a
	buffer := a.buffer.Get().(*waveletLine)
	defer a.buffer.Put(buffer)
	to, before := w.line(w.back[w.level], i), -w.reach()
	if a.oneD {
		simd.Sum(to, a.hBack, a.wrapped(buffer, w.averages, before, w.level), 1<<w.level, true)
		return
	}
	buffer.x = lists.Resize(buffer.x, a.length+a.extended(w.level))
	v := buffer.x[:a.length]
	part := waveletLine{x: buffer.x[a.length:]}
	w.sumDown(v, a.hBack, w.averages, i+before, false)
	simd.Sum(to, a.hBack, a.wrapped(&part, v, before, w.level), 1<<w.level, true)
}

func (w *undecimatedWork) sumsLine(i int) {
	w.each(w.band(w.a.levels, 0), i, w.line(w.averages, i))
}

// reach is the distance from the first to the last tap of the level's filter.
func (w *undecimatedWork) reach() int { return (len(w.a.h) - 1) << w.level }

// extended is the length of a line with as many entries beyond its end as the level's filter reaches.
func (a *Undecimated) extended(level int) int { return a.length + (len(a.h)-1)<<level }

// wrapped is the circular line x from an entry on, in buffer.
func (a *Undecimated) wrapped(buffer *waveletLine, x []float64, from, level int) []float64 {
	buffer.x = lists.Resize(buffer.x, a.extended(level))
	to := buffer.x
	for at, k := wrap(from, len(x)), 0; k < len(to); at = 0 {
		k += copy(to[k:], x[at:])
	}
	return to
}

// sumDown sets to, or adds to it, sum_t q_t times line first + t 2^level of x, circularly.
func (w *undecimatedWork) sumDown(to, q, x []float64, first int, add bool) {
	a, s := w.a, 1<<w.level
	for r := wrap(first, a.lines); len(q) > 0; {
		k := min(len(q), (a.lines-1-r)/s+1)
		simd.Sum(to, q[:k], x[r*a.length:], s*a.length, add)
		q, add, r = q[k:], true, (r+k*s)%a.lines
	}
}

// Norms2 returns the squared norms of F's rows in a band: down_i along_j for line i and place j.
func (a *Undecimated) Norms2(band int) (down, along []float64) {
	level, averages := a.Level(band)
	direction := band % a.bandsEach() % a.details()
	along = a.foldedNorms(a.length, level, !averages && (a.oneD || direction > 0))
	if a.oneD {
		return []float64{1}, along
	}
	return a.foldedNorms(a.lines, level, !averages && direction != 1), along
}

// foldedNorms returns ||E* w_i||^2 for every shift w_i of a level's averaging or detail filter on a
// circle of n values, of which E* folds one half on the other:
//
//	||E* w_i||^2 = 1/2 sum_k w_{k-i} (w_{k-i} + w_{n-1-k-i}).
func (a *Undecimated) foldedNorms(n, level int, details bool) []float64 {
	w := []float64{1}
	for l := range level + 1 {
		q := a.h
		if details && l == level {
			q = a.g
		}
		next := make([]float64, len(w)+(len(q)-1)<<l)
		for t, f := range q {
			for k, v := range w {
				next[k+t<<l] += f * v
			}
		}
		w = next
	}
	round := make([]float64, min(n, len(w))) // where the filter is longer than the circle it wraps
	for k, v := range w {
		round[k%n] += v
	}
	// pairs_r = sum_k w_k w_{r-k}
	pairs := make([]float64, n)
	size := 0.0
	for k, v := range round {
		size += v * v
		for m, u := range round {
			pairs[(k+m)%n] += v * u
		}
	}
	return lists.Make(n, func(i int) float64 { return (size + pairs[wrap(-1-2*i, n)]) / 2 })
}
