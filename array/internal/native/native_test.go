//go:build !static && !android && !ios && (linux || darwin || windows) && (amd64 || arm64 || loong64 || riscv64)

package native

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
	"gonum.org/v1/gonum/lapack"
	golapack "gonum.org/v1/gonum/lapack/gonum"
	"gonum.org/v1/gonum/mat"
)

var (
	found   *library
	findErr error
	once    sync.Once
)

// firstCoreVariable makes OpenBLAS choose a core at first, as it does on a
// processor that it does not know: with Prescott every test here, and the
// benchmarks, run on a library that was corrected.
const firstCoreVariable = "SUREPIPE_TEST_FIRST_CORE"

// needLibrary opens the machine's library, or the one that SUREPIPE_BLAS names,
// registers it as the command would, and skips the test when there is none.
func needLibrary(t testing.TB) *library {
	t.Helper()
	once.Do(func() {
		firstCore = os.Getenv(firstCoreVariable)
		paths := candidates()
		if choice := os.Getenv("SUREPIPE_BLAS"); choice != "" {
			paths = []string{choice}
		}
		for _, path := range paths {
			if found, findErr = open(path, false); findErr == nil {
				found.register()
				return
			}
		}
	})
	if found == nil {
		t.Skipf("no native BLAS on this machine: %v", findErr)
	}
	return found
}

var (
	goBLAS   = gonum.Implementation{}
	goLAPACK = golapack.Implementation{}
)

// A matrix is row-major with a gap after each row, which must stay as it is.
type matrix struct {
	rows, cols, ld int
	data           []float64
}

const gap = 3

func newMatrix(rng *rand.Rand, rows, cols int) matrix {
	m := matrix{rows, cols, cols + gap, make([]float64, rows*(cols+gap))}
	for i := range m.data {
		m.data[i] = rng.NormFloat64()
	}
	return m
}

func (m matrix) clone() matrix {
	m.data = append([]float64(nil), m.data...)
	return m
}

// spd is a symmetric positive definite matrix.
func spd(rng *rand.Rand, n int) matrix {
	g, s := newMatrix(rng, n, n), newMatrix(rng, n, n)
	goBLAS.Dgemm(blas.NoTrans, blas.Trans, n, n, n, 1, g.data, g.ld, g.data, g.ld, 0, s.data, s.ld)
	for i := range n {
		s.data[i*s.ld+i] += float64(n)
	}
	return s
}

// near fails unless two slices agree to a multiple of rounding: inner products
// of at most a few hundred values near one.
func near(t *testing.T, what string, got, want []float64, tol float64) {
	t.Helper()
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= tol*(1+math.Abs(want[i]))) {
			t.Fatalf("%s: value %d is %v, gonum's is %v", what, i, got[i], want[i])
		}
	}
}

// sizes holds empty, single, odd, and above every crossover.
var sizes = [][3]int{
	{0, 5, 3}, {5, 0, 3}, {5, 3, 0}, {1, 1, 1}, {1, 70, 90}, {70, 1, 90}, {70, 90, 1},
	{2, 3, 4}, {7, 9, 11}, {24, 24, 24}, {33, 17, 65}, {100, 7, 130}, {7, 100, 130}, {130, 129, 128},
}

var (
	transposes = []blas.Transpose{blas.NoTrans, blas.Trans, blas.ConjTrans}
	uplos      = []blas.Uplo{blas.Upper, blas.Lower}
	sides      = []blas.Side{blas.Left, blas.Right}
	diags      = []blas.Diag{blas.Unit, blas.NonUnit}
)

func TestProductsMatchGonum(t *testing.T) {
	lib := needLibrary(t)
	nat := implBLAS{lib: &lib.blas}
	rng := rand.New(rand.NewPCG(1, 1))
	for _, size := range sizes {
		m, n, k := size[0], size[1], size[2]
		for _, scale := range [][2]float64{{1, 0}, {-0.7, 1}, {1.5, 0.3}, {0, 2}} {
			alpha, beta := scale[0], scale[1]
			for _, tA := range transposes {
				ra, ca := swapIf(isTrans(tA), m, k)
				a := newMatrix(rng, ra, ca)
				for _, tB := range transposes {
					rb, cb := swapIf(isTrans(tB), k, n)
					b, got := newMatrix(rng, rb, cb), newMatrix(rng, m, n)
					want := got.clone()
					nat.Dgemm(tA, tB, m, n, k, alpha, a.data, a.ld, b.data, b.ld, beta, got.data, got.ld)
					goBLAS.Dgemm(tA, tB, m, n, k, alpha, a.data, a.ld, b.data, b.ld, beta, want.data, want.ld)
					near(t, fmt.Sprintf("Dgemm %c%c %v", tA, tB, size), got.data, want.data, 1e-12)
				}
				a = newMatrix(rng, m, n)
				ly, lx := swapIf(isTrans(tA), m, n)
				for _, inc := range []int{1, 2} {
					x, got := newMatrix(rng, lx, inc), newMatrix(rng, ly, inc)
					want := got.clone()
					nat.Dgemv(tA, m, n, alpha, a.data, a.ld, x.data, x.ld, beta, got.data, got.ld)
					goBLAS.Dgemv(tA, m, n, alpha, a.data, a.ld, x.data, x.ld, beta, want.data, want.ld)
					near(t, fmt.Sprintf("Dgemv %c %v", tA, size), got.data, want.data, 1e-12)
				}
				for _, ul := range uplos {
					rows, cols := swapIf(isTrans(tA), n, k)
					a, got := newMatrix(rng, rows, cols), newMatrix(rng, n, n)
					want := got.clone()
					nat.Dsyrk(ul, tA, n, k, alpha, a.data, a.ld, beta, got.data, got.ld)
					goBLAS.Dsyrk(ul, tA, n, k, alpha, a.data, a.ld, beta, want.data, want.ld)
					near(t, fmt.Sprintf("Dsyrk %c%c %v", ul, tA, size), got.data, want.data, 1e-12)
				}
			}
			for _, side := range sides {
				order := n
				if side == blas.Left {
					order = m
				}
				for _, ul := range uplos {
					a, b, got := newMatrix(rng, order, order), newMatrix(rng, m, n), newMatrix(rng, m, n)
					want := got.clone()
					nat.Dsymm(side, ul, m, n, alpha, a.data, a.ld, b.data, b.ld, beta, got.data, got.ld)
					goBLAS.Dsymm(side, ul, m, n, alpha, a.data, a.ld, b.data, b.ld, beta, want.data, want.ld)
					near(t, fmt.Sprintf("Dsymm %c%c %v", side, ul, size), got.data, want.data, 1e-12)
				}
			}
		}
	}
}

func TestTriangularMatchesGonum(t *testing.T) {
	lib := needLibrary(t)
	nat := implBLAS{lib: &lib.blas}
	rng := rand.New(rand.NewPCG(2, 1))
	for _, size := range sizes {
		m, n := size[0], size[1]
		for _, side := range sides {
			order := n
			if side == blas.Left {
				order = m
			}
			a := newMatrix(rng, order, order)
			for i := range a.data {
				a.data[i] /= float64(order) // a well-conditioned triangle, unit or not
			}
			for i := range order {
				a.data[i*a.ld+i] = 2
			}
			for _, ul := range uplos {
				for _, tA := range transposes {
					for _, d := range diags {
						got := newMatrix(rng, m, n)
						want := got.clone()
						name := fmt.Sprintf(" %c%c%c%c %v", side, ul, tA, d, size)
						nat.Dtrmm(side, ul, tA, d, m, n, 0.7, a.data, a.ld, got.data, got.ld)
						goBLAS.Dtrmm(side, ul, tA, d, m, n, 0.7, a.data, a.ld, want.data, want.ld)
						near(t, "Dtrmm"+name, got.data, want.data, 1e-12)
						nat.Dtrsm(side, ul, tA, d, m, n, 0.7, a.data, a.ld, got.data, got.ld)
						goBLAS.Dtrsm(side, ul, tA, d, m, n, 0.7, a.data, a.ld, want.data, want.ld)
						near(t, "Dtrsm"+name, got.data, want.data, 1e-11)
					}
				}
			}
		}
	}
}

// workFor asks for the size of the workspace as gonum's callers do.
func workFor(query func(work []float64)) []float64 {
	work := []float64{0}
	query(work)
	return make([]float64, int(work[0]))
}

func TestSVDMatchesGonum(t *testing.T) {
	lib := needLibrary(t)
	nat := implLAPACK{lib: &lib.lapack}
	rng := rand.New(rand.NewPCG(3, 1))
	jobs := []lapack.SVDJob{lapack.SVDAll, lapack.SVDStore, lapack.SVDNone}
	for _, size := range [][2]int{{0, 3}, {1, 1}, {1, 40}, {40, 1}, {5, 9}, {30, 30}, {65, 20}, {20, 65}, {200, 9}} {
		m, n := size[0], size[1]
		short := min(m, n)
		a := newMatrix(rng, m, n)
		goS, work := make([]float64, short), make([]float64, 10*(m+n)+1000)
		goLAPACK.Dgesvd(lapack.SVDNone, lapack.SVDNone, m, n, a.clone().data, a.ld, goS, nil, 1, nil, 1, work,
			len(work))
		for _, jobU := range jobs {
			for _, jobVT := range jobs {
				name := fmt.Sprintf("Dgesvd %c%c %v", jobU, jobVT, size)
				u, vt := newMatrix(rng, m, m), newMatrix(rng, n, n)
				s, b := make([]float64, short), a.clone()
				work := workFor(func(w []float64) {
					nat.Dgesvd(jobU, jobVT, m, n, b.data, b.ld, s, u.data, u.ld, vt.data, vt.ld, w, -1)
				})
				if !nat.Dgesvd(jobU, jobVT, m, n, b.data, b.ld, s, u.data, u.ld, vt.data, vt.ld, work, len(work)) {
					t.Fatalf("%s fails", name)
				}
				near(t, name, s, goS, 1e-12)
				if jobU == lapack.SVDNone || jobVT == lapack.SVDNone || short == 0 {
					continue
				}
				// A = U S V', and the vectors are orthonormal.
				for i := range m {
					for j := range n {
						sum := 0.0
						for l := range short {
							sum += u.data[i*u.ld+l] * s[l] * vt.data[l*vt.ld+j]
						}
						if math.Abs(sum-a.data[i*a.ld+j]) > 1e-12 {
							t.Fatalf("%s: U S V' differs from A by %g", name, sum-a.data[i*a.ld+j])
						}
					}
				}
				cu, rv := short, short
				if jobU == lapack.SVDAll {
					cu = m
				}
				if jobVT == lapack.SVDAll {
					rv = n
				}
				orthonormal(t, name+" U", u, m, cu, true)
				orthonormal(t, name+" V", vt, rv, n, false)
			}
		}
	}
}

// orthonormal fails unless the columns, or the rows, of a block are orthonormal.
func orthonormal(t *testing.T, what string, q matrix, rows, cols int, byColumn bool) {
	t.Helper()
	d := mat.NewDense(q.rows, q.ld, q.data).Slice(0, rows, 0, cols)
	var g mat.Dense
	if byColumn {
		g.Mul(d.T(), d)
	} else {
		g.Mul(d, d.T())
	}
	r, _ := g.Dims()
	for i := range r {
		g.Set(i, i, g.At(i, i)-1)
	}
	if e := mat.Norm(&g, math.Inf(1)); e > 1e-12 {
		t.Fatalf("%s is off orthonormal by %g", what, e)
	}
}

func TestEigenMatchesGonum(t *testing.T) {
	lib := needLibrary(t)
	nat := implLAPACK{lib: &lib.lapack}
	rng := rand.New(rand.NewPCG(4, 1))
	for _, n := range []int{0, 1, 2, 7, 20, 65, 130} {
		full := spd(rng, n)
		for _, uplo := range uplos {
			// The other triangle is never read.
			a := full.clone()
			for i := range n {
				for j := range n {
					if (uplo == blas.Upper && j < i) || (uplo == blas.Lower && j > i) {
						a.data[i*a.ld+j] = math.NaN()
					}
				}
			}
			for _, job := range []lapack.EVJob{lapack.EVCompute, lapack.EVNone} {
				name := fmt.Sprintf("Dsyev %c%c %d", job, uplo, n)
				got, want := a.clone(), a.clone()
				w, goW := make([]float64, n), make([]float64, n)
				work := workFor(func(x []float64) { nat.Dsyev(job, uplo, n, got.data, got.ld, w, x, -1) })
				work = append(work, 0)
				if !nat.Dsyev(job, uplo, n, got.data, got.ld, w, work, len(work)) {
					t.Fatalf("%s fails", name)
				}
				goLAPACK.Dsyev(job, uplo, n, want.data, want.ld, goW, work, len(work))
				near(t, name, w, goW, 1e-12)
				if job == lapack.EVNone || n == 0 {
					continue
				}
				orthonormal(t, name, got, n, n, true)
				for i := range n {
					for j := range n {
						sum := 0.0
						for l := range n {
							sum += got.data[i*got.ld+l] * w[l] * got.data[j*got.ld+l]
						}
						if want := full.data[i*full.ld+j]; math.Abs(sum-want) > 1e-11*float64(n) {
							t.Fatalf("%s: V W V' differs from A by %g", name, sum-want)
						}
					}
				}
			}
		}
	}
}

func TestCholeskyMatchesGonum(t *testing.T) {
	lib := needLibrary(t)
	nat := implLAPACK{lib: &lib.lapack}
	rng := rand.New(rand.NewPCG(5, 1))
	for _, n := range []int{0, 1, 5, 24, 65, 130} {
		a := spd(rng, n)
		for _, ul := range uplos {
			got, want := a.clone(), a.clone()
			if !nat.Dpotrf(ul, n, got.data, got.ld) || !goLAPACK.Dpotrf(ul, n, want.data, want.ld) {
				t.Fatalf("Dpotrf %c %d fails", ul, n)
			}
			near(t, fmt.Sprintf("Dpotrf %c %d", ul, n), got.data, want.data, 1e-12)
			nat.Dpotri(ul, n, got.data, got.ld)
			goLAPACK.Dpotri(ul, n, want.data, want.ld)
			near(t, fmt.Sprintf("Dpotri %c %d", ul, n), got.data, want.data, 1e-12)
			if n > 0 {
				a := a.clone()
				a.data[(n/2)*(a.ld+1)] = -1
				if nat.Dpotrf(ul, n, a.data, a.ld) {
					t.Errorf("Dpotrf %c %d of an indefinite matrix succeeds", ul, n)
				}
			}
		}
	}
}

func TestNaNAndInfDoNotHang(t *testing.T) {
	lib := needLibrary(t)
	nat := implLAPACK{lib: &lib.lapack}
	const n = 40
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		rng := rand.New(rand.NewPCG(7, 1))
		a := spd(rng, n)
		a.data[7*a.ld+9], a.data[9*a.ld+7] = bad, bad
		s, work, u, vt := make([]float64, n), make([]float64, 1<<15), newMatrix(rng, n, n), newMatrix(rng, n, n)
		if nat.Dgesvd(lapack.SVDStore, lapack.SVDStore, n, n, a.clone().data, a.ld, s, u.data, u.ld, vt.data, vt.ld,
			work, len(work)) {
			t.Errorf("Dgesvd of a matrix with %v succeeds", bad)
		}
		if nat.Dsyev(lapack.EVCompute, blas.Upper, n, a.clone().data, a.ld, s, work, len(work)) {
			t.Errorf("Dsyev of a matrix with %v succeeds", bad)
		}
	}
}

func TestOldContentsDoNotMatterWithBetaZero(t *testing.T) {
	lib := needLibrary(t)
	nat := implBLAS{lib: &lib.blas}
	rng := rand.New(rand.NewPCG(8, 1))
	const n = 70
	a, x := newMatrix(rng, n, n), newMatrix(rng, n, n)
	for _, tA := range transposes {
		c, y := make([]float64, n*n), make([]float64, n)
		for i := range c {
			c[i] = math.NaN()
		}
		copy(y, c)
		nat.Dgemm(tA, blas.NoTrans, n, n, n, 1, a.data, a.ld, x.data, x.ld, 0, c, n)
		nat.Dgemv(tA, n, n, 1, a.data, a.ld, x.data, 1, 0, y, 1)
		if !finite(c, n, n, n) || !finite(y, 1, n, n) {
			t.Errorf("%c: a NaN in an overwritten result survives", tA)
		}
	}
}

func TestArgumentErrorsPanicAsInGonum(t *testing.T) {
	lib := needLibrary(t)
	b, l := implBLAS{lib: &lib.blas}, implLAPACK{lib: &lib.lapack}
	const n = 40
	a, x, short := make([]float64, n*n), make([]float64, n*n), make([]float64, n*n-1)
	work := make([]float64, 1<<15)
	cases := []struct {
		name, want string
		call       func()
	}{
		{"short a", "blas: insufficient length of a",
			func() { b.Dgemm(blas.NoTrans, blas.NoTrans, n, n, n, 1, short, n, x, n, 0, a, n) }},
		{"short b", "blas: insufficient length of b",
			func() { b.Dgemm(blas.NoTrans, blas.NoTrans, n, n, n, 1, a, n, short, n, 0, x, n) }},
		{"short c", "blas: insufficient length of c",
			func() { b.Dgemm(blas.NoTrans, blas.NoTrans, n, n, n, 1, a, n, x, n, 0, short, n) }},
		{"bad ld", "blas: bad leading dimension of A",
			func() { b.Dgemm(blas.Trans, blas.NoTrans, n, n, n, 1, a, n-1, x, n, 0, a, n) }},
		{"bad flag", "blas: illegal transpose", func() { b.Dgemm('X', blas.NoTrans, n, n, n, 1, a, n, x, n, 0, a, n) }},
		{"negative", "blas: m < 0", func() { b.Dgemm(blas.NoTrans, blas.NoTrans, -1, n, n, 1, a, n, x, n, 0, a, n) }},
		{"short x", "blas: insufficient length of x",
			func() { b.Dgemv(blas.NoTrans, n, n, 1, a, n, x[:n-1], 1, 0, x, 1) }},
		{"short y", "blas: insufficient length of y",
			func() { b.Dgemv(blas.Trans, n, n, 1, a, n, x, 1, 0, x[:n-1], 1) }},
		{"syrk", "blas: insufficient length of c",
			func() { b.Dsyrk(blas.Upper, blas.NoTrans, n, n, 1, a, n, 0, short, n) }},
		{"trsm", "blas: illegal diagonal", func() {
			b.Dtrsm(blas.Left, blas.Upper, blas.NoTrans, 'X', n, n, 1, a, n,
				x, n)
		}},
		{"trmm", "blas: insufficient length of b",
			func() { b.Dtrmm(blas.Left, blas.Upper, blas.NoTrans, blas.Unit, n, n, 1, a, n, short, n) }},
		{"symm", "blas: illegal side", func() { b.Dsymm('X', blas.Upper, n, n, 1, a, n, x, n, 0, x, n) }},
		{"svd s", "lapack: insufficient length of s", func() {
			l.Dgesvd(lapack.SVDNone, lapack.SVDNone, n, n, a, n, x[:n-1], nil, 1, nil, 1, work, len(work))
		}},
		{"svd u", "lapack: insufficient length of u", func() {
			l.Dgesvd(lapack.SVDStore, lapack.SVDStore, n, n, a, n, x, short, n, x, n, work, len(work))
		}},
		{"svd work", "lapack: insufficient length of work", func() {
			l.Dgesvd(lapack.SVDNone, lapack.SVDNone, n, n, a, n, x, nil, 1, nil, 1, work[:10], len(work))
		}},
		{"eigen", "lapack: insufficient length of w",
			func() { l.Dsyev(lapack.EVCompute, blas.Upper, n, a, n, x[:n-1], work, len(work)) }},
		{"cholesky", "lapack: insufficient length of a", func() { l.Dpotrf(blas.Upper, n, short, n) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			defer func() {
				if got := fmt.Sprint(recover()); got != c.want {
					t.Errorf("panics with %q, want %q", got, c.want)
				}
			}()
			c.call()
		})
	}
}

func TestCallsAllocateNothing(t *testing.T) {
	lib := needLibrary(t)
	if raceEnabled {
		t.Skip("the race detector empties pools at random")
	}
	b := implBLAS{lib: &lib.blas}
	const n = 50
	x, y, z := make([]float64, n*n), make([]float64, n*n), make([]float64, n*n)
	for name, call := range map[string]func(){
		"Dgemm": func() { b.Dgemm(blas.NoTrans, blas.Trans, n, n, n, 1, x, n, y, n, 0, z, n) },
		"Dgemv": func() { b.Dgemv(blas.NoTrans, n, n, 1, x, n, y, 1, 0, z, 1) },
		"Dsyrk": func() { b.Dsyrk(blas.Upper, blas.NoTrans, n, n, 1, x, n, 0, z, n) },
	} {
		if allocs := testing.AllocsPerRun(100, call); allocs > 0 {
			t.Errorf("%s allocates %v times a call", name, allocs)
		}
	}
}

// What mat computes is the end to which the registration is the means.
func TestMatGivesTheSameThroughTheLibrary(t *testing.T) {
	needLibrary(t)
	rng := rand.New(rand.NewPCG(9, 1))
	random := func(r, c int) *mat.Dense {
		d := mat.NewDense(r, c, nil)
		for i := range r {
			for j := range c {
				d.Set(i, j, rng.NormFloat64())
			}
		}
		return d
	}
	for _, size := range [][2]int{{60, 60}, {120, 40}, {40, 120}, {1, 80}, {80, 1}} {
		m, n := size[0], size[1]
		a := random(m, n)
		residual := func(what string, b *mat.Dense) {
			t.Helper()
			var d mat.Dense
			d.Sub(a, b)
			if e := mat.Norm(&d, math.Inf(1)); e > 1e-11 {
				t.Errorf("%s of a %d x %d matrix multiplies back to %g from it", what, m, n, e)
			}
		}
		var back mat.Dense
		for _, kind := range []mat.SVDKind{mat.SVDThin, mat.SVDFull} {
			var svd mat.SVD
			if !svd.Factorize(a, kind) {
				t.Fatal("SVD fails")
			}
			var u, v mat.Dense
			svd.UTo(&u)
			svd.VTo(&v)
			_, uc := u.Dims()
			_, vc := v.Dims()
			s := mat.NewDense(uc, vc, nil)
			for i, x := range svd.Values(nil) {
				s.Set(i, i, x)
			}
			back.Reset()
			back.Product(&u, s, v.T())
			residual("SVD", &back)
		}
		if m >= n {
			var qr mat.QR
			qr.Factorize(a)
			var q, r mat.Dense
			qr.QTo(&q)
			qr.RTo(&r)
			back.Reset()
			back.Mul(&q, &r)
			residual("QR", &back)
		} else {
			var lq mat.LQ
			lq.Factorize(a)
			var l, q mat.Dense
			lq.LTo(&l)
			lq.QTo(&q)
			back.Reset()
			back.Mul(&l, &q)
			residual("LQ", &back)
		}
		var gram mat.SymDense
		gram.SymOuterK(1, a.T())
		for i := range n {
			gram.SetSym(i, i, gram.At(i, i)+1)
		}
		var chol mat.Cholesky
		if !chol.Factorize(&gram) {
			t.Fatal("Cholesky fails")
		}
		var inv mat.SymDense
		if err := chol.InverseTo(&inv); err != nil {
			t.Fatal(err)
		}
		var id mat.Dense
		id.Mul(&gram, &inv)
		for i := range n {
			id.Set(i, i, id.At(i, i)-1)
		}
		if e := mat.Norm(&id, math.Inf(1)); e > 1e-9 {
			t.Errorf("a Gram matrix of order %d times its inverse is %g from the identity", n, e)
		}
		var eig mat.EigenSym
		if !eig.Factorize(&gram, true) {
			t.Fatal("EigenSym fails")
		}
		var v mat.Dense
		eig.VectorsTo(&v)
		var gv, vw mat.Dense
		gv.Mul(&gram, &v)
		vw.Mul(&v, mat.NewDiagDense(n, eig.Values(nil)))
		gv.Sub(&gv, &vw)
		if e := mat.Norm(&gv, math.Inf(1)); e > 1e-9 {
			t.Errorf("eigenvectors of order %d are off by %g", n, e)
		}
	}
}

func TestOpenNamesWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "libtext.so")
	if err := os.WriteFile(text, []byte("not a library"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "absent.so"), text} {
		_, err := Open(path, func(blas.Float64) error { return nil })
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("opening %s: error %v, want one that names it", path, err)
		}
	}
}

func BenchmarkGemm(b *testing.B) {
	lib := needLibrary(b)
	nat := implBLAS{lib: &lib.blas}
	for _, n := range []int{4, 6, 8, 12, 16, 32, 64, 500} {
		rng := rand.New(rand.NewPCG(1, 1))
		x, y, z := newMatrix(rng, n, n), newMatrix(rng, n, n), newMatrix(rng, n, n)
		flops := 2 * float64(n*n*n)
		for _, tB := range transposes[:2] {
			b.Run(fmt.Sprintf("native/%c/%d", tB, n), func(b *testing.B) {
				for b.Loop() {
					nat.lib.gemm(blas.NoTrans, tB, n, n, n, 1, x.data, x.ld, y.data, y.ld, 0, z.data, z.ld)
				}
				b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
			b.Run(fmt.Sprintf("gonum/%c/%d", tB, n), func(b *testing.B) {
				for b.Loop() {
					goBLAS.Dgemm(blas.NoTrans, tB, n, n, n, 1, x.data, x.ld, y.data, y.ld, 0, z.data, z.ld)
				}
				b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}

func BenchmarkGemv(b *testing.B) {
	lib := needLibrary(b)
	nat := implBLAS{lib: &lib.blas}
	for _, n := range []int{16, 32, 64, 128, 1000} {
		rng := rand.New(rand.NewPCG(1, 1))
		x, y, z := newMatrix(rng, n, n), newMatrix(rng, n, n), newMatrix(rng, n, n)
		for _, tA := range transposes[:2] {
			b.Run(fmt.Sprintf("native/%c/%d", tA, n), func(b *testing.B) {
				for b.Loop() {
					nat.Dgemv(tA, n, n, 1, x.data, x.ld, y.data, 1, 0, z.data, 1)
				}
			})
			b.Run(fmt.Sprintf("gonum/%c/%d", tA, n), func(b *testing.B) {
				for b.Loop() {
					goBLAS.Dgemv(tA, n, n, 1, x.data, x.ld, y.data, 1, 0, z.data, 1)
				}
			})
		}
	}
}

func BenchmarkSVD(b *testing.B) {
	lib := needLibrary(b)
	nat := implLAPACK{lib: &lib.lapack}
	for _, n := range []int{4, 8, 16, 32, 100, 500} {
		rng := rand.New(rand.NewPCG(1, 1))
		a, u, vt := newMatrix(rng, n, n), newMatrix(rng, n, n), newMatrix(rng, n, n)
		s, work := make([]float64, n), make([]float64, 40*n+n*n)
		c := a.clone()
		b.Run(fmt.Sprintf("native/%d", n), func(b *testing.B) {
			for b.Loop() {
				copy(c.data, a.data)
				tight := matrix{n, n, n, make([]float64, n*n)}
				for i := range n {
					copy(tight.data[i*n:(i+1)*n], c.data[i*c.ld:])
				}
				nat.gesdd(lapack.SVDStore, n, n, tight.data, s, u.data, u.ld, vt.data, vt.ld)
			}
		})
		b.Run(fmt.Sprintf("gonum/%d", n), func(b *testing.B) {
			for b.Loop() {
				copy(c.data, a.data)
				goLAPACK.Dgesvd(lapack.SVDStore, lapack.SVDStore, n, n, c.data, c.ld, s, u.data, u.ld, vt.data, vt.ld,
					work, len(work))
			}
		})
	}
}

// BenchmarkFactorizations is where the smallest orders in lapack.go come from.
func BenchmarkFactorizations(b *testing.B) {
	lib := needLibrary(b)
	for _, n := range []int{8, 16, 24, 32, 64} {
		rng := rand.New(rand.NewPCG(1, 1))
		square := spd(rng, n)
		w, work := make([]float64, n), make([]float64, 1<<15)
		run := func(name string, from matrix, native, inGo func(a matrix)) {
			c := from.clone()
			for who, f := range map[string]func(matrix){"native": native, "gonum": inGo} {
				b.Run(fmt.Sprintf("%s/%d/%s", name, n, who), func(b *testing.B) {
					for b.Loop() {
						copy(c.data, from.data)
						f(c)
					}
				})
			}
		}
		run("Cholesky", square,
			func(a matrix) { implLAPACK{lib: &lib.lapack}.Dpotrf(blas.Upper, n, a.data, a.ld) },
			func(a matrix) { goLAPACK.Dpotrf(blas.Upper, n, a.data, a.ld) })
		run("Eigen", square,
			func(a matrix) {
				implLAPACK{lib: &lib.lapack}.Dsyev(lapack.EVCompute, blas.Upper, n, a.data, a.ld, w, work, len(work))
			},
			func(a matrix) { goLAPACK.Dsyev(lapack.EVCompute, blas.Upper, n, a.data, a.ld, w, work, len(work)) })
	}
}

// What the choice of kernels is worth: run it with OPENBLAS_CORETYPE=Prescott
// too.
func BenchmarkDgemm1500(b *testing.B) {
	lib := needLibrary(b)
	const n = 1500
	rng := rand.New(rand.NewPCG(9, 1))
	x, y := make([]float64, n*n), make([]float64, n*n)
	for i := range x {
		x[i], y[i] = rng.NormFloat64(), rng.NormFloat64()
	}
	z := make([]float64, n*n)
	nat := lib.float64()
	for b.Loop() {
		nat.Dgemm(blas.NoTrans, blas.NoTrans, n, n, n, 1, x, n, y, n, 0, z, n)
	}
	b.ReportMetric(2*n*n*n*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gflop/s")
	b.Logf("%s, %s", lib.report.Name, lib.report.Core)
}
