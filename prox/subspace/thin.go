package subspace

import (
	"math"

	"surepipe/array"
)

// Thin returns the triplets of l r*, for matrices with few columns: those with values above 1e-6 of
// the largest, accurate to about eps of that. It takes O((m + n) k^2) for k columns.
func Thin(l, r array.Batch) (Triplets, error) {
	dev := l.Device()
	q, _, err := orthonormalize(l)
	if err != nil {
		return Triplets{}, err
	}
	if q != l {
		defer q.Free()
	}
	kq := q.N()
	if kq == 0 {
		return none(dev, l.K(), r.K()), nil
	}
	c, z := dev.Alloc(l.N(), kq), dev.Alloc(r.K(), kq)
	defer array.Free(c, z)
	dev.Gemm(true, false, 1, l, q, 0, c)
	dev.Gemm(false, false, 1, r, c, 0, z)
	p, sigma, err := eigenGram(z)
	if err != nil {
		return Triplets{}, err
	}
	count := 0
	for i, v := range sigma {
		sigma[i] = math.Sqrt(math.Max(v, 0))
		if sigma[i] > tiniest*sigma[0] {
			count++
		}
	}
	if count == 0 {
		return none(dev, l.K(), r.K()), nil
	}
	f, err := resolved(z, p, sigma[:count])
	if err != nil {
		return Triplets{}, err
	}
	defer f.free()
	return f.triplets(q, count), nil
}
