package noise

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
)

const MethodSmoothBlocks = "smooth-blocks"

const (
	blockSide = 8
	// leastBlocks is the number of usable blocks from which there is an estimate.
	leastBlocks = 8
	// coarsest is the relative standard error up to which a candidate is considered, and
	// leakError how many standard errors of their difference it may exceed a candidate of fewer
	// data.
	coarsest  = 0.06
	leakError = 2.5
)

// highBands are the least frequencies, i + j of coefficient (i, j), of the bands that measure the
// noise.
var highBands = [...]int{9, 10, 11, 12}

// leastTexture is the least of the frequencies below those bands that measure the texture. Lower
// ones hold slopes of brightness, which leave nothing in the bands.
const leastTexture = 3

// cosines is the orthonormal discrete cosine transform of blockSide values.
var cosines = func() (c [blockSide][blockSide]float64) {
	for i := range blockSide {
		scale := math.Sqrt(2. / blockSide)
		if i == 0 {
			scale = math.Sqrt(1. / blockSide)
		}
		for j := range blockSide {
			c[i][j] = scale * math.Cos(math.Pi*float64(i)*(float64(j)+0.5)/blockSide)
		}
	}
	return c
}()

// SmoothBlocks estimates the variance of white noise in an image of rows x cols pixels, row by row,
// from its smoothest parts:
//
//	sigma2 = mean of D_ij^2 over the m smoothest blocks, and over i + j >= T,
//
// where D is the orthonormal discrete cosine transform of a block of 8 x 8 pixels. Blocks do not
// overlap. The smoothest are those of least energy in the frequencies 3 <= i + j <= 8. These are
// independent of the higher ones where the noise is white and normal, so that the choice does not
// bias the estimate (Ponomarenko, Lukin, Zriakhov, Kaarna and Astola, An automatic approach to
// lossy compression of AVIRIS images, 2007; Colom and Buades, Analysis and extension of the
// Ponomarenko et al. method, IPOL 2013).
//
// What texture is left only adds to the estimate. So m and T are chosen by Lepski's method: as much
// data as possible whose estimate exceeds none from smoother blocks or a higher band by more than
// 2.5 standard errors of the difference. The relative standard error is
//
//	sqrt(2/(m h) + (leak/sigma2)^2),
//
// with h the number of coefficients of the band, 21 for T = 9 to 6 for T = 12: the first term is
// that of a chi-square, and leak is the largest excess over the estimates from fewer data whose own
// standard error is at most 6%. It thus includes the texture that could have gone unnoticed. Fine
// texture in every block, as in a picture of grass, counts as noise, and so does the picture's own
// noise. Noise that is not white (interpolated, compressed, smoothed) is underestimated.
//
// Blocks without noise are left out: constant ones, and those with a pixel at the least or greatest
// value of y if this is attained more than once, as where values are clipped, or at one that too many
// pixels have ([Clipped]), as under a mask. It rejects images with fewer than 8 other blocks, NaN, Inf,
// and images without noise.
func SmoothBlocks(y []float64, rows, cols int) (Estimate, error) {
	most, err := finiteMatrix(MethodSmoothBlocks, y, rows, cols, "")
	if err != nil {
		return Estimate{}, err
	}
	return planeOf(y, rows, cols).smoothBlocks(most)
}

// SmoothBlocksOf is SmoothBlocks for an image of which y are the pixels at some places ([Gapped]): of several channels
// it is the mean of theirs.
func SmoothBlocksOf(y []float64, places, shape []int) (Estimate, error) {
	most, bad := largest(y)
	if bad >= 0 {
		return refuse(MethodSmoothBlocks, "y holds %g at [%d], expected finite numbers", y[bad], bad)
	}
	m := Gapped(y, places, shape)
	return MeanOf(m.Channels, func(k int) (Estimate, error) { return m.plane(k).smoothBlocks(most) })
}

func (p plane) smoothBlocks(most float64) (Estimate, error) {
	if all := (p.rows / blockSide) * (p.cols / blockSide); all < leastBlocks {
		return refuse(MethodSmoothBlocks, "an image of %d x %d pixels has %d blocks of %d x %d, expected at least %d",
			p.rows, p.cols, all, blockSide, blockSide, leastBlocks)
	}
	blocks := noisy(p.spectra(0), 1)
	if len(blocks) < leastBlocks {
		return refuse(MethodSmoothBlocks, "%d blocks of %d x %d pixels hold noise, expected at least %d: the "+
			"others are constant, or more than half of their pixels are missing, or have pixels at the least, the "+
			"greatest or the commonest value, where y may be clipped",
			len(blocks), blockSide, blockSide, leastBlocks)
	}
	best, leak := choose(candidates(blocks))
	// Blocks of a constant are rounding errors, not zeros.
	if noise := 64 * epsilon * most; best.sigma2 <= noise*noise {
		return refuse(MethodSmoothBlocks, "the smoothest parts of y are constant up to rounding errors: y "+
			"holds no noise")
	}
	return estimate(MethodSmoothBlocks, best.sigma2, math.Hypot(best.relative, leak/best.sigma2))
}

// bandSizes are the numbers of coefficients of the bands.
var bandSizes = func() (n [len(highBands)]float64) {
	for i := range blockSide {
		for j := range blockSide {
			for b, least := range highBands {
				if i+j >= least {
					n[b]++
				}
			}
		}
	}
	return n
}()

// plane is an image of one channel, with the values of pixels that may hold no noise: the least and the greatest, where
// these are attained more than once, and that of [Clipped].
type plane struct {
	y          []float64
	rows, cols int
	flat       [3]float64
	seen       []bool // nil where all pixels are
}

func planeOf(y []float64, rows, cols int) plane {
	p := plane{y, rows, cols, [3]float64{slices.Min(y), slices.Max(y), math.NaN()}, nil}
	ties := [2]int{}
	for _, v := range y {
		for k := range ties {
			if v == p.flat[k] {
				ties[k]++
			}
		}
	}
	for k, n := range ties {
		if n == 1 {
			p.flat[k] = math.NaN()
		}
	}
	if share, at := Clipped(y); share > 0 {
		p.flat[2] = at
	}
	return p
}

// holdsNoise reports whether a pixel may.
func (p plane) holdsNoise(v float64) bool { return v != p.flat[0] && v != p.flat[1] && v != p.flat[2] }

// block sets the pixels of the block at (r, c), and reports whether they hold noise.
func (p plane) block(pixels *[blockSide][]float64, r, c int) bool {
	usable, varies := true, false
	for i := range pixels {
		pixels[i] = p.y[(r+i)*p.cols+c:][:blockSide]
		for _, v := range pixels[i] {
			usable = usable && p.holdsNoise(v)
			varies = varies || v != pixels[0][0]
		}
	}
	return usable && varies
}

// cosineTransform transforms the rows of a block, then its columns.
func cosineTransform(pixels *[blockSide][]float64) (d [blockSide][blockSide]float64) {
	var half [blockSide][blockSide]float64
	for i := range half {
		for j := range half {
			for k, v := range pixels[i] {
				half[i][j] += cosines[j][k] * v
			}
		}
	}
	for i := range half {
		for j := range half {
			for k := range half {
				d[i][j] += cosines[i][k] * half[k][j]
			}
		}
	}
	return d
}

const (
	// fewSeen is the number of pixels from which a block with gaps is used, and mostGapped about the most such blocks.
	fewSeen, mostGapped = blockSide * blockSide / 2, 1 << 12
	// slopes is the number of coefficients below leastTexture, and nextFrom that below nextTexture. Where fewer than
	// fewNext are left of those next to the highest, all middle ones stand for them.
	slopes, nextFrom, fewNext = 6, 21, 8
)

// polynomials holds Legendre's at each pixel of a block, in the order of their degrees.
var polynomials = sync.OnceValue(func() (p [blockSide * blockSide][]float64) {
	var one [blockSide][blockSide]float64
	for i := range one {
		x := (2*float64(i)+1)/blockSide - 1
		one[i][0], one[i][1] = 1, x
		for k := 2; k < blockSide; k++ {
			n := float64(k)
			one[i][k] = ((2*n-1)*x*one[i][k-1] - (n-1)*one[i][k-2]) / n
		}
	}
	for degree := range 2*blockSide - 1 {
		for i := max(0, degree-blockSide+1); i <= min(degree, blockSide-1); i++ {
			for at := range p {
				p[at] = append(p[at], one[at/blockSide][i]*one[at%blockSide][degree-i])
			}
		}
	}
	return p
})

// gapped sets the spectrum of a block with gaps. The middle coefficients count for as many as a block without gaps has
// of them.
func (p plane) gapped(s *spectrum) {
	r, c := s.at[0], s.at[1]
	var at []int
	varies, first := false, 0.0
	for i := range blockSide * blockSide {
		place := (r+i/blockSide)*p.cols + c + i%blockSide
		v := p.y[place]
		switch {
		case !p.seen[place]:
			continue
		case !p.holdsNoise(v):
			return
		case len(at) == 0:
			first = v
		}
		at, varies = append(at, i), varies || v != first
	}
	n := len(at)
	if n < fewSeen || !varies {
		return
	}
	if s.noisy = true; n == blockSide*blockSide {
		var pixels [blockSide][]float64
		p.block(&pixels, r, c)
		s.set(cosineTransform(&pixels))
		return
	}
	var lines [2][blockSide]float64 // pixels of each row and column
	for _, i := range at {
		lines[0][i/blockSide]++
		lines[1][i%blockSide]++
	}
	cols := n + 1 + 2*lineFrequencies
	a := blas64.General{Rows: n, Cols: cols, Stride: cols, Data: make([]float64, 0, n*cols)}
	basis := polynomials()
	for _, i := range at {
		a.Data = append(append(a.Data, basis[i][:n]...), p.y[(r+i/blockSide)*p.cols+c+i%blockSide])
		for axis, k := range [2]int{i / blockSide, i % blockSide} {
			for f := range lineFrequencies {
				a.Data = append(a.Data, cosines[blockSide-1-f][k]/lines[axis][k])
			}
		}
	}
	lapack64.Geqrf(a, make([]float64, n), make([]float64, blockSide*a.Cols), blockSide*a.Cols)
	s.setGapped(a)
}

// setGapped sets the energies to those of the coefficients Q* y, which stand behind the n columns of a factorization of
// polynomials at n pixels, and what is constant along rows and columns to the products with those behind them.
func (s *spectrum) setGapped(a blas64.General) {
	n := a.Rows
	s.pixels = float64(n)
	var squares [2][lineFrequencies]float64
	for k := slopes; k < n; k++ {
		u := a.Data[k*a.Stride+n]
		for f, v := range a.Data[k*a.Stride+n+1:][:2*lineFrequencies] {
			s.across[f/lineFrequencies][f%lineFrequencies] += u * v
			squares[f/lineFrequencies][f%lineFrequencies] += v * v
		}
		if half, from := k%2, n-mostHigh; k < from {
			const middle = blockSide*blockSide - mostHigh - slopes
			s.texture[half] += u * u * middle / float64(from-slopes)
			if k >= nextFrom || from < nextFrom+fewNext {
				s.next[half] += u * u
				s.sizes[half]++
			}
			if k < nextFrom {
				s.low[half] += u * u
				s.lows[half]++
			}
		} else {
			s.high[k-from] = u
		}
		for b, size := range bandSizes {
			if k >= n-int(size) {
				s.bands[b] += u * u
			}
		}
	}
	for axis := range s.across {
		for f, square := range squares[axis] {
			s.across[axis][f] /= math.Sqrt(max(square, math.SmallestNonzeroFloat64))
		}
		s.bands[compared-2+axis] = s.bands[widest] * sizes[compared-2+axis] / bandSizes[widest]
	}
	s.inner = s.bands[widest]
}

// candidate is the estimate from the smoothest blocks and one band.
type candidate struct {
	blocks, band     int
	sigma2, relative float64 // the variance, and its relative standard error without texture
}

// candidates lists the estimates whose standard error is small, from the fewest data to the most. The numbers
// of blocks fall from all by factors of sqrt 2.
func candidates(blocks []*spectrum) []candidate {
	slices.SortStableFunc(blocks, func(a, b *spectrum) int { return cmp.Compare(a.middle(), b.middle()) })
	var all []candidate
	least := math.Sqrt(2 / (float64(len(blocks)) * bandSizes[0]))
	for band, size := range bandSizes {
		sum, done := 0.0, 0
		var counts []int
		for m := len(blocks); m >= leastBlocks; m = int(float64(m) / math.Sqrt2) {
			counts = append(counts, m)
		}
		slices.Reverse(counts)
		for _, m := range counts {
			for ; done < m; done++ {
				sum += blocks[done].bands[band]
			}
			n := float64(m) * size
			if relative := math.Sqrt(2 / n); relative <= max(coarsest, 2*least) {
				all = append(all, candidate{m, band, sum / n, relative})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.relative, a.relative) })
	return all
}

// choose is Lepski's choice: the candidate of most data that does not exceed any of fewer data by
// more than chance. leak is its largest excess over one of these. Where the data of one are part of
// the other's, the variance of their difference is the difference of their variances.
func choose(all []candidate) (best candidate, leak float64) {
	best = all[0]
	for j, c := range all {
		excess := 0.0
		accepted := true
		for _, finer := range all[:j] {
			square := finer.relative*finer.relative + c.relative*c.relative
			if finer.blocks <= c.blocks && finer.band >= c.band {
				square = finer.relative*finer.relative - c.relative*c.relative
			}
			over := c.sigma2 - finer.sigma2
			accepted = accepted && over <= leakError*finer.sigma2*math.Sqrt(max(square, 0))
			excess = max(excess, over)
		}
		if accepted {
			best, leak = c, excess
		}
	}
	return best, leak
}
