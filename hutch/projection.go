package hutch

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
)

// ProjectionSize is the number s of values that a [Projection] keeps of a vector, and
// ProjectionProbes the largest number of probes whose images are kept together.
const (
	ProjectionSize   = 256
	ProjectionProbes = 24
)

// CommonProbes is the number k of probes of length d from whose images Frobenius norms of
// differences are estimated: ProjectionProbes up to d = 4096, and fewer, down to 4, in proportion to
// 1/sqrt(d) beyond. For a difference of rank r the relative error of the squared norm is about
// sqrt(2/(k r)), and r grows with d as a rule.
func CommonProbes(d int) int {
	const most, fewest = 4096, 4
	if d > most {
		return max(fewest, int(ProjectionProbes*math.Sqrt(most/float64(d))))
	}
	return min(d, ProjectionProbes)
}

// projectionSeed is the seed of the map: the same in every run, so that what different runs have
// kept can be compared.
const projectionSeed = 0x5ca1ab1e

// Projection is a fixed random linear map S from R^d to R^s that nearly keeps distances, so that
// those between the vectors of different runs follow from s numbers of each: E ||S x||^2 = ||x||^2
// and Var ||S x||^2 <= 2/s ||x||^4. Because S is linear the relative error of ||S x - S z||^2 is that
// of a single vector's, sqrt(2/s), however near x and z are (Johnson and Lindenstrauss 1984). S adds
// each coordinate, with a random sign, to one random entry of the s (Charikar, Chen, Farach-Colton
// 2002; the variance is that of Thorup and Zhang 2004), which takes d additions. A vector of at most
// s values is kept as it is.
type Projection struct {
	dev     array.Device
	d, size int
	csr     array.CSR
}

// NewProjection puts the map for vectors of length d on a device. The caller frees it.
func NewProjection(dev array.Device, d int) *Projection { return newProjection(dev, d, ProjectionSize) }

func newProjection(dev array.Device, d, size int) *Projection {
	at := make([]uint16, d)
	indptr := make([]int, size+1)
	for i := range at {
		r, _ := entry(i, size)
		at[i] = uint16(r)
		indptr[r+1]++
	}
	for r := range size {
		indptr[r+1] += indptr[r]
	}
	next := append([]int(nil), indptr[:size]...)
	indices, values := make([]int, d), make([]float64, d)
	for i, r := range at {
		u := next[r]
		next[r]++
		indices[u] = i
		_, values[u] = entry(i, size)
	}
	return &Projection{dev, d, size, dev.NewCSR(size, d, indptr, indices, values)}
}

func entry(i, size int) (at int, sign float64) {
	stream, signs := splitMix(splitMix(0, projectionSeed), 0), splitMix(splitMix(0, projectionSeed), 1)
	at = int(splitMix(stream, uint64(i)) % uint64(size))
	if splitMix(signs, uint64(i))&1 == 1 {
		return at, -1
	}
	return at, 1
}

// Device is where the map is, and the vectors that it takes.
func (p *Projection) Device() array.Device { return p.dev }

// Free gives the map's memory back.
func (p *Projection) Free() { p.csr.Free() }

// Vector is S x for a single vector, or x itself where it is no longer than S x.
func (p *Projection) Vector(x array.Batch) []float64 {
	if x.K() != 1 || x.N() != p.d {
		panic(fmt.Sprintf("hutch: the projection of %s, expected one vector of length %d", x, p.d))
	}
	if p.d <= p.size {
		return x.ToHost()
	}
	s := x.Device().Alloc(1, p.size)
	defer s.Free()
	x.Device().MulCSR(s, p.csr, x)
	return s.ToHost()
}

// Images sets row i of dst, s values each, to S_{first+i} x_i for every vector of the batch. The S_j
// differ in the signs, which are independent, and in a rotation of the s entries, so that the sum
// over j is one map of the concatenation of the vectors, with the same variance. They are those
// of the probes 0 to ProjectionProbes-1.
func (p *Projection) Images(dst []float64, first int, x array.Batch) {
	k := x.K()
	if x.N() != p.d || len(dst) != k*ProjectionSize || first < 0 || first+k > ProjectionProbes {
		panic(fmt.Sprintf("hutch: the projection of %s as images of probes %d to %d into %d values", x, first,
			first+k-1, len(dst)))
	}
	signs := x.Device().Alloc(k, p.d)
	defer signs.Free()
	Rademacher(signs, projectionSeed, 1, first)
	p.turned(dst, first, signs, x)
}

// turned is Images for known signs.
func (p *Projection) turned(dst []float64, first int, signs, x array.Batch) {
	dev, k := x.Device(), x.K()
	signed, out := dev.Alloc(k, p.d), dev.Alloc(k, ProjectionSize)
	defer array.Free(signed, out)
	dev.Mul(signed, signs, x)
	dev.MulCSR(out, p.csr, signed)
	for i := range k {
		turn := turn(first + i)
		row, from := dst[i*ProjectionSize:][:ProjectionSize], out.Rows(i, i+1).Read()
		copy(row[turn:], from)
		copy(row[:turn], from[ProjectionSize-turn:])
	}
}

func turn(j int) int { return j * (ProjectionSize / ProjectionProbes) }

// Mapped are the first k probes of a seed with the maps of their images; nil for none. The caller frees the vectors.
func (p *Projection) Mapped(seed uint64, k int) *array.Mapped {
	if k == 0 {
		return nil
	}
	v := p.dev.Alloc(k, p.d)
	Rademacher(v, projectionSeed, 1, 0)
	drawn, entries := v.ToHost(), make([]int, p.d)
	signs := slices.Clone(drawn)
	for i := range entries {
		at, sign := entry(i, ProjectionSize)
		entries[i] = at
		for j := range k {
			signs[j*p.d+i] *= sign
		}
	}
	Rademacher(v, seed, 0, 0)
	add := func(sums []float64, first, m int, rows []float64) {
		for i := range k {
			own := sums[i*ProjectionSize*m:][:ProjectionSize*m]
			for r := range len(rows) / m {
				at := first + r
				to := (entries[at] + turn(i)) % ProjectionSize
				floats.AddScaled(own[to*m:][:m], signs[i*p.d+at], rows[r*m:][:m])
			}
		}
	}
	if k*ProjectionSize >= p.d {
		add = nil
	}
	sum := func(x array.Batch) []float64 {
		signs, all := x.Device().Put(drawn, k, p.d), make([]float64, k*ProjectionSize)
		defer signs.Free()
		p.turned(all, 0, signs, x)
		for one := range slices.Chunk(all[ProjectionSize:], ProjectionSize) {
			floats.Add(all[:ProjectionSize], one)
		}
		return all[:ProjectionSize]
	}
	return &array.Mapped{Fixed: array.Fixed{Batch: v}, Size: ProjectionSize, Add: add, Sum: sum}
}
