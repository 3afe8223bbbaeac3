// Package spacetest checks that a [space.Space] keeps its contract.
package spacetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/space"
)

// tolerance is the error of a sum of products of numbers of size 1, relative to the size of the
// space.
const tolerance = 1e-12

// Check checks a space on dev against the dense matrix of its E: that its methods are linear and
// act on each vector of a batch alone, that Coordinates is the adjoint of Embed, Project the
// orthogonal projection on the range of E, and Dim its dimension; that every claim of its Form is
// true; and that it keeps no memory after Release, which Check calls.
func Check(t testing.TB, dev array.Device, s space.Space) {
	t.Helper()
	for _, err := range Errors(dev, s) {
		t.Error(err)
	}
	before := s.Bytes()
	s.Release()
	if before < 0 {
		t.Errorf("space: it holds %d bytes", before)
	}
}

// Errors lists what is wrong with a space. It does not release it.
func Errors(dev array.Device, s space.Space) []error {
	c := &checker{dev: dev, s: s}
	c.p, c.n = s.Dims()
	c.e = c.matrix(c.n, c.p, s.Embed)
	c.adjoint()
	c.projection()
	c.form()
	if err := dev.Err(); err != nil {
		c.errs = append(c.errs, err)
	}
	return c.errs
}

type checker struct {
	dev  array.Device
	s    space.Space
	p, n int
	e    *mat.Dense // p x n; nil where it has no entries
	errs []error
}

func (c *checker) failf(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("space: "+format, args...))
}

// matrix is that of a linear map of R^from to R^to, from all unit vectors at once, after a check on
// vectors one by one. It is nil where it has no entries.
func (c *checker) matrix(from, to int, apply func(dst, x array.Batch)) *mat.Dense {
	if from == 0 || to == 0 {
		return nil
	}
	in, out := c.dev.Alloc(from, from), c.dev.Alloc(from, to)
	defer in.Free()
	defer out.Free()
	c.dev.Fill(in, 0)
	c.dev.Fill(in.Diagonal(), 1)
	apply(out, in)
	m := mat.DenseCopyOf(mat.NewDense(from, to, out.ToHost()).T())
	rng := rand.New(rand.NewPCG(1, uint64(from)))
	x := mat.NewDense(from, 3, nil)
	x.Apply(func(int, int, float64) float64 { return rng.NormFloat64() }, x)
	xs, ys := c.dev.Alloc(3, from), c.dev.Alloc(3, to)
	defer xs.Free()
	defer ys.Free()
	c.dev.Upload(xs, mat.DenseCopyOf(x.T()).RawMatrix().Data)
	apply(ys, xs)
	var want mat.Dense
	want.Mul(m, x)
	if gap := distance(mat.NewDense(3, to, ys.ToHost()).T(), &want); gap > tolerance*(1+mat.Norm(&want, 2)) {
		c.failf("a map of R^%d to R^%d of three vectors is %g off that of unit vectors", from, to, gap)
	}
	return m
}

func distance(a, b mat.Matrix) float64 {
	var d mat.Dense
	d.Sub(a, b)
	return mat.Norm(&d, 2)
}

func (c *checker) adjoint() {
	t := c.matrix(c.p, c.n, c.s.Coordinates)
	if t == nil {
		return
	}
	if gap := distance(t, c.e.T()); gap > tolerance*(1+mat.Norm(c.e, 2)) {
		c.failf("Coordinates is %g off the adjoint of Embed", gap)
	}
}

// projection compares Project with U U*, U the left singular vectors of E.
func (c *checker) projection() {
	rank := 0
	want := mat.NewDense(max(c.p, 1), max(c.p, 1), nil)
	if c.e != nil {
		var svd mat.SVD
		if !svd.Factorize(c.e, mat.SVDThin) {
			c.failf("the singular value decomposition of E did not converge")
			return
		}
		values := svd.Values(nil)
		for rank < len(values) && values[rank] > 1e-10*values[0] {
			rank++
		}
		var u mat.Dense
		svd.UTo(&u)
		if rank > 0 {
			want.Mul(u.Slice(0, c.p, 0, rank), u.Slice(0, c.p, 0, rank).T())
		}
	}
	if d := c.s.Dim(); d != rank {
		c.failf("dimension %d, expected %d", d, rank)
	}
	if got := c.matrix(c.p, c.p, c.s.Project); got != nil {
		if gap := distance(got, want); gap > 1e-10 {
			c.failf("Project is %g off the orthogonal projection", gap)
		}
	}
}

func (c *checker) form() {
	f := c.s.Form()
	if f.Orthonormal && c.e != nil {
		var gram mat.Dense
		gram.Mul(c.e.T(), c.e)
		for i := range c.n {
			gram.Set(i, i, gram.At(i, i)-1)
		}
		if gap := mat.Norm(&gram, 2); gap > tolerance*float64(c.n) {
			c.failf("E*E is %g off the identity", gap)
		}
	}
	switch f.Kind {
	case space.Whole:
		if c.n != c.p {
			c.failf("all of R^%d has %d coordinates", c.p, c.n)
		}
	case space.Subset:
		c.columns(len(f.Set), func(i, j int) float64 {
			if f.Set[i] == j {
				return 1
			}
			return 0
		})
	case space.Cluster:
		c.cluster(f.Average())
	case space.FixedRank:
		c.fixedRank(f)
	case space.Product:
		c.product(f.Parts)
	}
}

// columns compares E with entry(i, j) in row j of column i.
func (c *checker) columns(n int, entry func(i, j int) float64) {
	if n != c.n {
		c.failf("the form has %d coordinates, the space %d", n, c.n)
		return
	}
	for i := range c.n {
		for j := range c.p {
			if got, want := c.e.At(j, i), entry(i, j); math.Abs(got-want) > tolerance*(1+math.Abs(want)) {
				c.failf("entry (%d, %d) of E is %g, the form has %g", j, i, got, want)
				return
			}
		}
	}
}

func (c *checker) cluster(rows space.Rows) {
	n := len(rows.Indptr) - 1
	dense := make([]float64, max(n, 0)*c.p)
	for i := range n {
		for u := rows.Indptr[i]; u < rows.Indptr[i+1]; u++ {
			dense[i*c.p+rows.Indices[u]] += rows.Values[u]
		}
	}
	c.columns(n, func(i, j int) float64 { return dense[i*c.p+j] })
}

func (c *checker) fixedRank(f space.Form) {
	m, n, r := f.Shape.Rows, f.Shape.Cols, f.Rank
	u, v := f.U.ToHost(), f.V.ToHost()
	if m*n != c.p || len(u) != m*r || len(v) != n*r {
		c.failf("matrices of %d x %d and rank %d with factors of %d and %d numbers in R^%d", m, n, r, len(u), len(v),
			c.p)
		return
	}
	c.columns((m+n)*r, func(i, j int) float64 {
		row, col := j/n, j%n
		if i < m*r {
			if i/r != row {
				return 0
			}
			return v[col*r+i%r]
		}
		i -= m * r
		if i/r != col {
			return 0
		}
		return u[row*r+i%r]
	})
}

func (c *checker) product(parts []space.Space) {
	p, n := 0, 0
	for _, s := range parts {
		dp, dn := s.Dims()
		if p+dp > c.p || n+dn > c.n {
			c.failf("parts are larger than the product")
			return
		}
		part := &checker{dev: c.dev, s: s, p: dp, n: dn}
		if e := part.matrix(dn, dp, s.Embed); e != nil {
			if gap := distance(e, c.e.Slice(p, p+dp, n, n+dn)); gap > tolerance*(1+mat.Norm(e, 2)) {
				c.failf("a part is %g off its block of E", gap)
			}
		}
		c.errs = append(c.errs, part.errs...)
		p, n = p+dp, n+dn
	}
	if p != c.p || n != c.n {
		c.failf("parts of %d x %d together in a space of %d x %d", p, n, c.p, c.n)
	}
}
