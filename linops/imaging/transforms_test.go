package imaging_test

import (
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/linops/linopstest"
)

func must[T any](a T, err error) T {
	if err != nil {
		panic(err)
	}
	return a
}

func gaussianMatrix(r, c int, seed uint64) *mat.Dense {
	return mat.NewDense(r, c, gaussian(r*c, seed))
}

// isMatrix compares an operator with a matrix written entry by entry.
func isMatrix(t *testing.T, dev array.Device, name string, a linops.Operator, tol float64,
	entry func(i, j int) float64) {
	t.Helper()
	if d, p := a.Dims(); d*p < 200 && loaded(t, dev, a) {
		hasEntries(t, dev, name+", loaded", a, tol, entry)
		a.(interface{ Release() }).Release()
	} else {
		loaded(t, dev, a)
	}
	hasEntries(t, dev, name, a, tol, entry)
}

// loaded puts what an operator holds on a device, for the rest of the test; false where there is
// nothing to put.
func loaded(t *testing.T, dev array.Device, a linops.Operator) bool {
	l, ok := a.(linops.Loadable)
	if !ok || dev.Name() == "cpu" {
		return false
	}
	l.Load(dev)
	t.Cleanup(l.Release)
	return true
}

func hasEntries(t *testing.T, dev array.Device, name string, a linops.Operator, tol float64,
	entry func(i, j int) float64) {
	t.Helper()
	d, p := a.Dims()
	got := linops.ToDense(dev, a)
	worst, at := 0.0, [2]int{}
	for i := range d {
		for j := range p {
			if e := math.Abs(got.At(i, j) - entry(i, j)); !(e <= worst) {
				worst, at = e, [2]int{i, j}
			}
		}
	}
	if !(worst <= tol) {
		t.Errorf("%s: entry %v is %.17g, want %.17g", name, at, got.At(at[0], at[1]), entry(at[0], at[1]))
	}
}

func isConforming(t *testing.T, dev array.Device, name string, a linops.Operator) {
	t.Helper()
	loaded(t, dev, a)
	if err := linopstest.Check(dev, a); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// singular2 is the squared singular values of an operator's matrix, descending.
func singular2(a linops.Operator) []float64 {
	var svd mat.SVD
	svd.Factorize(linops.ToDense(array.NewHost(), a), mat.SVDNone)
	s := svd.Values(nil)
	for i := range s {
		s[i] *= s[i]
	}
	return s
}

func TestDifferencesAreTheirMatrices(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, s := range [][2]int{{1, 1}, {1, 2}, {2, 1}, {1, 9}, {7, 1}, {2, 2}, {3, 5}, {6, 4}, {5, 103}} {
			rows, cols := s[0], s[1]
			name := fmt.Sprintf("Difference2D %v", s)
			a := imaging.NewDifference2D(rows, cols)
			isConforming(t, dev, name, a)
			d, p := a.Dims()
			if want := max(rows-1, 0)*cols + rows*max(cols-1, 0); d != want || p != rows*cols {
				t.Fatalf("%s is %d x %d, want %d x %d", name, d, p, want, rows*cols)
			}
			if d == 0 {
				continue
			}
			// The pixels that each difference is between.
			var pairs [][2]int
			for r := range rows - 1 {
				for c := range cols {
					pairs = append(pairs, [2]int{(r+1)*cols + c, r*cols + c})
				}
			}
			for r := range rows {
				for c := range cols - 1 {
					pairs = append(pairs, [2]int{r*cols + c + 1, r*cols + c})
				}
			}
			isMatrix(t, dev, name, a, 0, func(i, j int) float64 {
				switch j {
				case pairs[i][0]:
					return 1
				case pairs[i][1]:
					return -1
				}
				return 0
			})
			norm, ok := knownNorm2(a)
			if want := singular2(a)[0]; !ok || math.Abs(norm-want) > 1e-13*want {
				t.Errorf("%s: Norm2 is %.16g (%t), the matrix has %.16g", name, norm, ok, want)
			}
		}
		for _, n := range []int{1, 2, 3, 8, 101} {
			name := fmt.Sprintf("Difference1D %d", n)
			a := imaging.NewDifference1D(n)
			isConforming(t, dev, name, a)
			if d, p := a.Dims(); d != max(n-1, 0) || p != n {
				t.Fatalf("%s is %d x %d", name, d, p)
			}
			if n > 1 {
				isMatrix(t, dev, name, a, 0, func(i, j int) float64 {
					return map[int]float64{i: -1, i + 1: 1}[j]
				})
				c := math.Cos(math.Pi / float64(2*n))
				if norm, ok := knownNorm2(a); !ok || math.Abs(norm-4*c*c) > 1e-14 {
					t.Errorf("%s: Norm2 is %.16g (%t), want %.16g", name, norm, ok, 4*c*c)
				}
			}
		}
	})
}

// knownNorm2 is ||A||^2 where the operator knows it.
func knownNorm2(a linops.Operator) (float64, bool) {
	n := linops.StructureOf(a).Norm2
	return n.Value, n.Known
}

// neighbour is the place of i + step in a signal of length n, or -1 outside.
func neighbour(i, step, n int, boundary imaging.Boundary) int {
	i += step
	if boundary == imaging.Circular {
		for i < 0 {
			i += n
		}
		return i % n
	}
	if i < 0 || i >= n {
		return -1
	}
	return i
}

// convolutionMatrix adds up the kernel's taps where they fall.
func convolutionMatrix(rows, cols int, kernel mat.Matrix, boundary imaging.Boundary) *mat.Dense {
	m := mat.NewDense(rows*cols, rows*cols, nil)
	kr, kc := kernel.Dims()
	for r := range rows {
		for c := range cols {
			for s := range kr {
				for t := range kc {
					i, j := neighbour(r, kr/2-s, rows, boundary), neighbour(c, kc/2-t, cols, boundary)
					if i >= 0 && j >= 0 {
						at := i*cols + j
						m.Set(r*cols+c, at, m.At(r*cols+c, at)+kernel.At(s, t))
					}
				}
			}
		}
	}
	return m
}

// separable is u v*.
func separable(r, c int, seed uint64) *mat.Dense {
	k := mat.NewDense(r, c, nil)
	k.Outer(1, mat.NewVecDense(r, gaussian(r, seed)), mat.NewVecDense(c, gaussian(c, seed+1)))
	return k
}

// Every kernel tap by tap, one that is separable along the rows and then down the columns, and all
// by Fourier transforms.
func TestConvolutionsAreTheirMatrices(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, taps := range []int{1 << 12, 0} {
			if taps == 0 && dev.Name() != "cpu" {
				continue // there every kernel takes transforms
			}
			restore := imaging.SumDirectlyUpTo(taps)
			for _, boundary := range []imaging.Boundary{imaging.Circular, imaging.ZeroPadded} {
				for _, s := range [][4]int{
					{1, 1, 1, 1}, {1, 1, 1, 5}, {1, 2, 1, 3}, {1, 9, 1, 3}, {1, 9, 1, 4}, {1, 8, 1, 21},
					{1, 101, 1, 6}, {1, 202, 1, 2},
					{7, 1, 3, 1}, {7, 1, 2, 3}, {5, 6, 3, 3}, {6, 5, 2, 4}, {4, 4, 9, 7}, {3, 103, 2, 3},
					{103, 3, 3, 2}, {12, 10, 5, 5},
					{1, 9, 1, 129}, {1, 202, 1, 201}, {12, 10, 13, 10}, {4, 5, 13, 12}, {1, 1, 12, 12}, {66, 1, 129, 1},
				} {
					seed := uint64(s[2] * s[3])
					isConvolution(t, dev, s[0], s[1], gaussianMatrix(s[2], s[3], seed), boundary)
					if s[2] > 1 && s[3] > 1 && taps > 0 {
						isConvolution(t, dev, s[0], s[1], separable(s[2], s[3], seed), boundary)
					}
				}
				// Shared among processors, and with nothing to convolve.
				if dev.Name() == "cpu" {
					isConforming(t, dev, "64 x 80",
						must(imaging.NewConvolution2D(64, 80, gaussianMatrix(5, 5, 1), boundary)))
					isConforming(t, dev, "64 x 80",
						must(imaging.NewConvolution2D(64, 80, separable(6, 5, 1), boundary)))
				}
				isConforming(t, dev, "empty", must(imaging.NewConvolution2D(0, 4, gaussianMatrix(3, 3, 1), boundary)))
				isConforming(t, dev, "empty", must(imaging.NewConvolution1D(0, []float64{1, 2}, boundary)))
			}
			restore()
		}
	})
}

func isConvolution(t *testing.T, dev array.Device, rows, cols int, kernel *mat.Dense, boundary imaging.Boundary) {
	t.Helper()
	kr, kc := kernel.Dims()
	name := fmt.Sprintf("%s convolution of %d x %d with %d x %d", boundary, rows, cols, kr, kc)
	a := must(imaging.NewConvolution2D(rows, cols, kernel, boundary))
	want := convolutionMatrix(rows, cols, kernel, boundary)
	isConforming(t, dev, name, a)
	tol := 2e-14
	for _, v := range kernel.RawMatrix().Data {
		tol += 1e-15 * math.Abs(v)
	}
	isMatrix(t, dev, name, a, tol, want.At)
	norm, ok := knownNorm2(a)
	if one := rows*cols == 1; ok != (boundary == imaging.Circular || one) {
		t.Errorf("%s: Norm2 known: %t", name, ok)
	}
	if top := singular2(a)[0]; ok && math.Abs(norm-top) > 1e-12*top {
		t.Errorf("%s: Norm2 is %.16g, the matrix has %.16g", name, norm, top)
	}
	if rows == 1 && kr == 1 {
		b := must(imaging.NewConvolution1D(cols, kernel.RawMatrix().Data, boundary))
		isMatrix(t, dev, "1-D "+name, b, tol, want.At)
	}
}

func TestConvolutionWithOneTapKnowsItself(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const none = -1
		for _, c := range []struct {
			name       string
			boundary   imaging.Boundary
			kernel     []float64
			gram, norm float64
			solves     bool
		}{
			{"scaled identity", imaging.Circular, []float64{0, -2, 0}, 4, 4, true},
			{"scaled identity", imaging.ZeroPadded, []float64{0, -2, 0}, 4, 4, true},
			{"shift", imaging.Circular, []float64{0, 0, 3}, 9, 9, true},
			{"shift", imaging.ZeroPadded, []float64{0, 0, 3}, none, 9, false},
			{"shift out of sight", imaging.ZeroPadded, []float64{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3}, 0, 0, true},
			{"nothing", imaging.Circular, []float64{0}, 0, 0, true},
			{"nothing", imaging.ZeroPadded, []float64{0, 0}, 0, 0, true},
			{"taps that cancel", imaging.Circular, []float64{2, 1, 0, 0, 0, -2}, 1, 1, true},
			{"two taps", imaging.Circular, []float64{1, 1}, none, 4, true},
			{"two taps", imaging.ZeroPadded, []float64{1, 1}, none, none, false},
		} {
			name := c.boundary.String() + " " + c.name
			a := must(imaging.NewConvolution1D(5, c.kernel, c.boundary))
			isConforming(t, dev, name, a)
			gram, norm := float64(none), float64(none)
			if c := linops.StructureOf(a).Rows; c.Known {
				gram = c.Value
			}
			if v, ok := knownNorm2(a); ok {
				norm = v
			}
			if gram != c.gram || math.Abs(norm-c.norm) > 1e-15*4 {
				t.Errorf("%s: Rows %v, Norm2 %v, want %v, %v", name, gram, norm, c.gram, c.norm)
			}
			x := dev.Alloc(1, 5)
			dev.Fill(x, 1)
			if got := solve(a, x, 1); got != c.solves {
				t.Errorf("%s: closed form %t, want %t", name, got, c.solves)
			}
		}
	})
}

// cosineEntry is the definition.
func cosineEntry(n, k, j int) float64 {
	s := math.Sqrt(2 / float64(n))
	if k == 0 {
		s = math.Sqrt(1 / float64(n))
	}
	// The angle reduced to one period.
	return s * math.Cos(math.Pi*float64(k*(2*j+1)%(4*n))/float64(2*n))
}

func TestDCTIsItsMatrix(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		sizes := []int{64, 101, 103}
		if dev.Name() == "cpu" {
			sizes = append(sizes, 127, 202, 211, 225)
		}
		for n := range 24 {
			sizes = append(sizes, n)
		}
		for _, n := range sizes {
			name := fmt.Sprintf("DCT %d", n)
			a := imaging.NewDCT(n)
			isConforming(t, dev, name, a)
			if n > 0 {
				isMatrix(t, dev, name, a, 3e-15, func(k, j int) float64 { return cosineEntry(n, k, j) })
				isMatrix(t, dev, name+"*", linops.Adjoint(a), 3e-15,
					func(j, k int) float64 { return cosineEntry(n, k, j) })
			}
		}
		for _, s := range [][2]int{{1, 1}, {1, 6}, {6, 1}, {2, 2}, {3, 4}, {5, 7}, {16, 9}, {2, 101}, {0, 4}} {
			rows, cols := s[0], s[1]
			name := fmt.Sprintf("DCT2D %v", s)
			a := imaging.NewDCT2D(rows, cols)
			isConforming(t, dev, name, a)
			if rows*cols > 0 {
				isMatrix(t, dev, name, a, 3e-15, func(i, j int) float64 {
					return cosineEntry(rows, i/cols, j/cols) * cosineEntry(cols, i%cols, j%cols)
				})
			}
		}
		if dev.Name() == "cpu" {
			isConforming(t, dev, "DCT2D 64 x 80", imaging.NewDCT2D(64, 80))
		}
	})
}

// families maps each family to its number of vanishing moments.
func families() map[string]int {
	m := map[string]int{"haar": 1}
	for n := 2; n <= 10; n++ {
		m[fmt.Sprintf("db%d", n)] = n
	}
	for n := 4; n <= 8; n++ {
		m[fmt.Sprintf("sym%d", n)] = n
	}
	return m
}

// filters reads a family's filters from the rows of a transform longer than they
// are.
func filters(t *testing.T, dev array.Device, family string) (h, g []float64) {
	t.Helper()
	const n = 64
	m := linops.ToDense(dev, must(imaging.NewWavelet1D(n, family, 1)))
	taps := 2 * families()[family]
	for _, row := range [][]float64{m.RawRowView(0), m.RawRowView(n / 2)} {
		for j := taps; j < n; j++ {
			if row[j] != 0 {
				t.Fatalf("%s has a tap at %d", family, j)
			}
		}
	}
	return m.RawRowView(0)[:taps], m.RawRowView(n / 2)[:taps]
}

func TestWaveletFiltersAreOrthonormalWithVanishingMoments(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		for family, moments := range families() {
			h, g := filters(t, dev, family)
			for shift := 0; shift < len(h); shift += 2 {
				for _, f := range [][2][]float64{{h, h}, {g, g}, {h, g}, {g, h}} {
					want := 0.0
					if shift == 0 && &f[0][0] == &f[1][0] {
						want = 1
					}
					s := 0.0
					for t := shift; t < len(h); t++ {
						s += f[0][t] * f[1][t-shift]
					}
					if math.Abs(s-want) > 4e-16 {
						t.Errorf("%s: filters shifted by %d have inner product %g, want %g", family, shift, s, want)
					}
				}
			}
			for k := range moments + 1 {
				s, size := 0.0, 0.0
				for i, v := range g {
					term := v * math.Pow(float64(i), float64(k))
					s, size = s+term, size+math.Abs(term)
				}
				if vanishes := math.Abs(s) <= 1e-15*size; vanishes != (k < moments) {
					t.Errorf("%s: moment %d is %g, of terms of size %g", family, k, s, size)
				}
			}
			sum := 0.0
			for _, v := range h {
				sum += v
			}
			if math.Abs(sum-math.Sqrt2) > 1e-15 {
				t.Errorf("%s: the taps add up to %.17g", family, sum)
			}
		}
		// Known in closed form, and the phase that makes a symlet: taps as published.
		r3 := math.Sqrt(3)
		h, _ := filters(t, dev, "db2")
		for i, want := range []float64{1 + r3, 3 + r3, 3 - r3, 1 - r3} {
			if want /= 4 * math.Sqrt2; math.Abs(h[i]-want) > 4e-16 {
				t.Errorf("db2: tap %d is %.17g, want %.17g", i, h[i], want)
			}
		}
		for family, want := range map[string]float64{"db4": 0.230377813309, "db8": 0.054415842243,
			"sym4": 0.032223100604, "sym8": 0.001889950333} {
			if h, _ := filters(t, dev, family); math.Abs(h[0]-want) > 1e-12 {
				t.Errorf("%s begins with %.12f, want %.12f", family, h[0], want)
			}
		}
	})
}

// waveletLevel is the matrix of one level, summed tap by tap.
func waveletLevel(n int, h, g []float64) *mat.Dense {
	m := mat.NewDense(n, n, nil)
	for i := range n / 2 {
		for t := range h {
			j := (2*i + t) % n
			m.Set(i, j, m.At(i, j)+h[t])
			m.Set(n/2+i, j, m.At(n/2+i, j)+g[t])
		}
	}
	return m
}

// analyzed is the 2-D transform of an image by matrix products.
func analyzed(x *mat.Dense, h, g []float64, levels int) *mat.Dense {
	y := mat.DenseCopyOf(x)
	r, c := x.Dims()
	for range levels {
		corner := y.Slice(0, r, 0, c).(*mat.Dense)
		var t mat.Dense
		t.Product(waveletLevel(r, h, g), corner, waveletLevel(c, h, g).T())
		corner.Copy(&t)
		r, c = r/2, c/2
	}
	return y
}

func TestWaveletsAreTheirMatrices(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for family := range families() {
			if dev.Name() != "cpu" && family != "haar" && family != "db5" && family != "sym8" {
				continue
			}
			h, g := filters(t, array.NewHost(), family)
			for _, s := range [][2]int{{2, 1}, {6, 1}, {8, 3}, {24, 3}, {202, 1}} {
				n, levels := s[0], s[1]
				name := fmt.Sprintf("%s of length %d, %d levels", family, n, levels)
				a := must(imaging.NewWavelet1D(n, family, levels))
				isConforming(t, dev, name, a)
				m := mat.NewDense(n, n, nil)
				for i := range n {
					m.Set(i, i, 1)
				}
				for l := range levels {
					top := m.Slice(0, n>>l, 0, n).(*mat.Dense)
					var next mat.Dense
					next.Mul(waveletLevel(n>>l, h, g), top)
					top.Copy(&next)
				}
				isMatrix(t, dev, name, a, 1e-14, m.At)
				isMatrix(t, dev, name+"*", linops.Adjoint(a), 1e-14, m.T().At)
				var gram mat.Dense
				gram.Mul(m, m.T())
				for i := range n {
					gram.Set(i, i, gram.At(i, i)-1)
				}
				if worst := mat.Max(&gram); worst > 1e-14 {
					t.Errorf("%s: rows are orthonormal to %g", name, worst)
				}
			}
		}
		for _, s := range [][3]int{{2, 2, 1}, {2, 6, 1}, {8, 4, 2}, {16, 24, 3}, {64, 96, 4}} {
			if s[0] == 64 && dev.Name() != "cpu" {
				continue
			}
			for _, family := range []string{"haar", "db2", "db8", "sym4"} {
				rows, cols, levels := s[0], s[1], s[2]
				name := fmt.Sprintf("%s of %d x %d, %d levels", family, rows, cols, levels)
				a := must(imaging.NewWavelet2D(rows, cols, family, levels))
				isConforming(t, dev, name, a)
				x := gaussianMatrix(rows, cols, 3)
				src, dst := dev.Put(x.RawMatrix().Data, 1, rows*cols), dev.Alloc(1, rows*cols)
				a.Forward(dst, src)
				h, g := filters(t, array.NewHost(), family)
				if got := mat.NewDense(rows, cols, dst.ToHost()); !mat.EqualApprox(got, analyzed(x, h, g, levels),
					1e-13) {
					t.Errorf("%s is not the product of its levels", name)
				}
				src2 := dev.Alloc(1, rows*cols)
				a.Adjoint(src2, dst)
				if got := mat.NewDense(rows, cols, src2.ToHost()); !mat.EqualApprox(got, x, 1e-13) {
					t.Errorf("%s: synthesis does not undo analysis", name)
				}
			}
		}
	})
}

func TestWaveletCoordinates(t *testing.T) {
	one := must(imaging.NewWavelet1D(12, "haar", 2))
	if got := one.Averages(); !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("averages of a vector at %v", got)
	}
	two := must(imaging.NewWavelet2D(4, 8, "haar", 2))
	if got := two.Averages(); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("averages of an image at %v", got)
	}
}

// transforms is one of each host operator, of a size that processors share.
func transforms() map[string]linops.Operator {
	kernel, large := gaussianMatrix(5, 4, 3), gaussianMatrix(25, 23, 3)
	return map[string]linops.Operator{
		"circular":           must(imaging.NewConvolution2D(64, 96, kernel, imaging.Circular)),
		"zero-padded":        must(imaging.NewConvolution2D(64, 96, kernel, imaging.ZeroPadded)),
		"circular, large":    must(imaging.NewConvolution2D(64, 96, large, imaging.Circular)),
		"zero-padded, large": must(imaging.NewConvolution2D(64, 96, large, imaging.ZeroPadded)),
		"separable":          must(imaging.NewConvolution2D(64, 96, separable(9, 7, 3), imaging.Circular)),
		"1-D":                must(imaging.NewConvolution1D(1000, gaussian(7, 1), imaging.ZeroPadded)),
		"DCT":                imaging.NewDCT(1000),
		"DCT2D":              imaging.NewDCT2D(64, 96),
		"Wavelet1D":          must(imaging.NewWavelet1D(1024, "db3", 4)),
		"Wavelet2D":          must(imaging.NewWavelet2D(64, 96, "sym5", 3)),
		"Wavelet1D, odd":     must(imaging.NewWavelet1D(1021, "db3", 4)),
		"Wavelet2D, odd":     must(imaging.NewWavelet2D(63, 97, "sym5", 3)),
		"Undecimated2D":      must(imaging.NewUndecimated2D(63, 97, 3, "db2", 3)),
		"Difference":         imaging.NewDifference2D(64, 96),
	}
}

func TestHostOperatorsGiveTheSameBitsOnAnyNumberOfProcessors(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const k = 5
		for name, a := range transforms() {
			d, p := a.Dims()
			x := gaussian(k*p, 4)
			results := func(k int) [][]float64 {
				b, z, s := dev.Alloc(k, p), dev.Alloc(k, d), dev.Alloc(k, p)
				dev.Upload(b, x[:k*p])
				a.Forward(z, b)
				a.Adjoint(s, z)
				out := [][]float64{z.ToHost(), s.ToHost()}
				if closed := linops.StructureOf(a).SolveNormal; closed != nil && closed(s, b, 0.4) {
					out = append(out, s.ToHost())
				}
				return out
			}
			want := results(k)
			for _, procs := range []int{1, 3, 8} {
				before := runtime.GOMAXPROCS(procs)
				all, one := results(k), results(1)
				runtime.GOMAXPROCS(before)
				for i := range want {
					if !slices.Equal(all[i], want[i]) {
						t.Errorf("%s: result %d changes on %d processors", name, i, procs)
					}
					if !slices.Equal(one[i], want[i][:len(one[i])]) {
						t.Errorf("%s: result %d changes for a vector alone on %d processors", name, i, procs)
					}
				}
			}
		}
	})
}

// far is a device whose memory is not the host's. Operators that compute on the host need only
// these four methods.
type far struct{ *array.Host }

type farBuffer []float64

func (b farBuffer) Len() int { return len(b) }

func (far) Name() string { return "far" }

func (f far) Alloc(k, n int) array.Batch { return array.NewBatch(f, make(farBuffer, k*n), k, n) }
func (f far) Free(array.Batch)           {}

func (f far) Upload(dst array.Batch, src []float64) {
	for i := range dst.K() {
		copy(dst.Buffer().(farBuffer)[dst.Offset()+i*dst.Stride():][:dst.N()], src[i*dst.N():])
	}
}

func (f far) Download(dst []float64, src array.Batch) {
	for i := range src.K() {
		copy(dst[i*src.N():(i+1)*src.N()], src.Buffer().(farBuffer)[src.Offset()+i*src.Stride():])
	}
}

func TestHostOperatorsServeOtherDevices(t *testing.T) {
	host := array.NewHost()
	for _, dev := range append(arraytest.Devices(t), far{array.NewHost()}) {
		t.Run(dev.Name(), func(t *testing.T) {
			const k = 3
			for name, a := range transforms() {
				if name == "Difference" {
					continue // stays on the device
				}
				d, p := a.Dims()
				x := gaussian(k*p, 4)
				near, b := host.Alloc(k, p), dev.Alloc(k, p+2).Cols(1, p+1)
				want, got := host.Alloc(k, d), dev.Alloc(k, d+3).Cols(2, d+2)
				host.Upload(near, x)
				dev.Upload(b, x)
				a.Forward(want, near)
				a.Forward(got, b)
				if !slices.Equal(got.ToHost(), want.ToHost()) {
					t.Errorf("%s: Forward gives another result", name)
				}
				a.Adjoint(near, want)
				a.Adjoint(b, got)
				if !slices.Equal(b.ToHost(), near.ToHost()) {
					t.Errorf("%s: Adjoint gives another result", name)
				}
			}
		})
	}
}

func TestNaNAndInfAreNotHidden(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for name, a := range transforms() {
			d, p := a.Dims()
			for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				for _, at := range []int{0, p / 3, p - 1} {
					b, z := dev.Alloc(2, p), dev.Alloc(2, d)
					x := gaussian(2*p, 9)
					x[p+at] = bad
					dev.Upload(b, x)
					a.Forward(z, b)
					finite, spoiled := true, false
					for i, v := range z.ToHost() {
						if math.IsNaN(v) || math.IsInf(v, 0) {
							if i < d {
								finite = false
							}
							spoiled = true
						}
					}
					if !finite || !spoiled {
						t.Errorf("%s: %v at coordinate %d shows: %t; in the other vector: %t", name, bad, at, spoiled,
							!finite)
					}
				}
			}
		}
	})
}

func TestHostOperatorsKeepTheirMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("a sync.Pool forgets at random under the race detector")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties the pools
	dev := array.NewHost()
	for name, a := range map[string]linops.Operator{
		"convolution": must(imaging.NewConvolution2D(128, 128, mat.NewDense(40, 40, gaussian(1600, 1)), imaging.Circular)),
		"DCT":         imaging.NewDCT2D(128, 128),
		"Wavelet":     must(imaging.NewWavelet2D(128, 128, "db2", 3)),
		"Undecimated": must(imaging.NewUndecimated2D(128, 128, 1, "db2", 2)),
		"Fourier":     must(imaging.NewFourier(128, 128, []int{0, 7, 300}, imaging.FourierLayout{})),
		"Gradient":    imaging.NewGradient([]int{128, 128}, nil, imaging.Reflecting),
		"Projection":  must(imaging.NewParallelBeam(128, 128, []float64{0, 20, 90}, 90, 1, imaging.Axis{})),
	} {
		d, p := a.Dims()
		b, z := dev.Alloc(2, p), dev.Alloc(2, d)
		dev.Fill(b, 1)
		closed := linops.StructureOf(a).SolveNormal
		f := func() {
			a.Forward(z, b)
			a.Adjoint(b, z)
			if closed != nil {
				closed(b, b, 0.5)
			}
		}
		for range 10 { // two vectors take memory each, if they meet
			f()
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		const times = 50
		for range times {
			f()
		}
		runtime.ReadMemStats(&after)
		// Loops take some closures, and now and then the memory of one more vector. An image is 128 KiB.
		if got := (after.TotalAlloc - before.TotalAlloc) / times; got > 128<<10 {
			t.Errorf("%s: products and a solution allocate %d bytes", name, got)
		}
	}
}

func TestTransformConstructorsNameTheCulprit(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		conv := func(boundary imaging.Boundary, kernel ...float64) error {
			_, err := imaging.NewConvolution1D(4, kernel, boundary)
			return err
		}
		conv2 := func(kernel *mat.Dense) error {
			_, err := imaging.NewConvolution2D(4, 4, kernel, imaging.Circular)
			return err
		}
		wave := func(n int, family string, levels int) error {
			_, err := imaging.NewWavelet1D(n, family, levels)
			return err
		}
		wave2 := func(rows, cols, levels int) error {
			_, err := imaging.NewWavelet2D(rows, cols, "haar", levels)
			return err
		}
		for _, c := range []struct {
			err  error
			want string
		}{
			{conv(imaging.Circular), "empty kernel"},
			{conv2(&mat.Dense{}), "empty kernel"},
			{conv(imaging.ZeroPadded, 1, math.NaN()), "entry (0, 1) is NaN"},
			{conv2(mat.NewDense(2, 1, []float64{0, math.Inf(-1)})), "entry (1, 0) is -Inf"},
			{conv(imaging.Circular, 1e200, 1), "add up to 1e+200"},
			{conv(imaging.Boundary(7), 1), "boundary 7, want Circular or ZeroPadded"},
			{wave(8, "db99", 1), `family "db99", want haar`},
			{wave(8, "haar", 0), "0 levels, want 1"},
			{wave(4, "haar", 3), "the length is 4, which allows 2"},
			{wave2(9, 1, 1), "the number of columns is 1, which allows 0"},
			{wave(8, "haar", 63), "63 levels, want 1"},
		} {
			if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
				t.Errorf("error %v, want %q", c.err, c.want)
			}
		}
		for want, f := range map[string]func(){
			"differences of an array of shape [-1 3]": func() { imaging.NewDifference2D(-1, 3) },
			"DCT of size -1 x -1":                     func() { imaging.NewDCT(-1) },
			"Convolution1D of size -1":                func() { imaging.NewConvolution1D(-1, []float64{1}, imaging.Circular) },
			"Wavelet2D of size 2 x -2":                func() { imaging.NewWavelet2D(2, -2, "haar", 1) },
		} {
			if r := panicOf(f); !strings.Contains(r, want) {
				t.Errorf("panic %q, want %q", r, want)
			}
		}
	})
}

func panicOf(f func()) (message string) {
	defer func() { message = fmt.Sprint(recover()) }()
	f()
	return ""
}
