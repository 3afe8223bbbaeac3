package banded

import "gonum.org/v1/gonum/mat"

// Inverse is what is known of Z = (M*M)^{-1}.
type Inverse struct {
	w int       // diagonals of the band above the main one
	z []float64 // Z_{j,j+k} at j (w+1) + k
	// Frobenius2 is sum_ij g_i g_j Z_ij^2 over all entries, in the band or not.
	Frobenius2 float64
}

// At is Z_ij, of the band.
func (v *Inverse) At(i, j int) float64 { return v.z[min(i, j)*(v.w+1)+max(i-j, j-i)] }

// Inverse computes Z's diagonal, and the rest of the band of R if it is asked for, and the norm for g
// >= 0, in about 5 w^2 operations a row (Takahashi, Fagan and Chin 1973; for smoothing splines
// Hutchinson and de Hoog 1985). Z is the covariance of a vector x with R x = e, for independent e_i of
// variance 1. Row i of R gives x_i by e_i and the w numbers after it. So the covariance P of the w
// numbers from x_i on follows from that of those from x_{i+1} on, and so does
//
//	V = sum over j >= i of g_j c_j c_j*,    c_j the covariances of these numbers with x_j,
//
// whose first entry is the sum over j >= i of g_j Z_ij^2.
func (t *Triangle) Inverse(g []float64, band bool) *Inverse {
	v := &Inverse{}
	if band {
		v.w = t.w
	}
	v.z = make([]float64, t.n*(v.w+1))
	s := newRecurrence(t)
	s.begin(v, g)
	for i := t.n - t.w - 1; i >= 0; i-- {
		z := v.z[i*(v.w+1):][:v.w+1]
		s.step(t.r[i*(t.w+1):][:t.w+1], z[1:])
		z[0] = s.p[0]
		if t.w == 0 {
			v.Frobenius2 += g[i] * g[i] * z[0] * z[0]
			continue
		}
		s.add(g[i])
		v.Frobenius2 += g[i] * (2*s.v[0] - g[i]*z[0]*z[0])
	}
	return v
}

// recurrence is the state of the recurrence: P and V of x_i, ..., x_{i+w-1}, or of x_i and its differences up
// to order w - 1. Where x is smooth differences are small, by a length L that is the longer the heavier the
// penalty, and rounding errors of the numbers themselves would be enlarged by L for each order.
type recurrence struct {
	*Triangle
	smooth  bool
	p, v    []float64 // w x w
	tau, c  []float64
	numbers []float64 // x_{i+k} by the state, k = 0, ..., w-1: w x w
}

// mostSmooth is the largest w for which the state is of differences: they lose digits of an x that is
// not smooth.
const mostSmooth = 8

func newRecurrence(t *Triangle) *recurrence {
	w := t.w
	s := &recurrence{
		Triangle: t, smooth: w <= mostSmooth, p: make([]float64, max(w*w, 1)), v: make([]float64, max(w*w, 1)),
		tau: make([]float64, w), c: make([]float64, w), numbers: make([]float64, w*w)}
	for k := range w {
		if s.numbers[k*w+k] = 1; !s.smooth {
			continue
		}
		for l := range k { // binomial coefficients
			s.numbers[k*w+l] = s.numbers[(k-1)*w+l]
			if l > 0 {
				s.numbers[k*w+l] += s.numbers[(k-1)*w+l-1]
			}
		}
	}
	return s
}

func (s *recurrence) begin(to *Inverse, g []float64) {
	w, first := s.w, s.n-s.w
	if w == 0 {
		return
	}
	r := mat.NewDense(w, w, nil)
	for i := range w {
		for k := i; k < w; k++ {
			r.Set(i, k, s.r[(first+i)*(w+1)+k-i])
		}
	}
	lift := mat.NewDense(w, w, s.numbers)
	var by, inverse mat.Dense
	by.Mul(r, lift)
	_ = inverse.Inverse(&by) // whatever its condition
	p := mat.NewDense(w, w, s.p)
	p.Mul(&inverse, inverse.T())
	var c, z mat.Dense
	c.Mul(p, lift.T()) // with x_j in column j
	z.Mul(lift, &c)
	for i := range w {
		for j := i; j < w && j-i <= to.w; j++ {
			to.z[(first+i)*(to.w+1)+j-i] = z.At(i, j)
		}
		for j := range w {
			to.Frobenius2 += g[first+i] * g[first+j] * z.At(i, j) * z.At(i, j)
			for a := range w {
				s.v[i*w+a] += g[first+j] * c.At(i, j) * c.At(a, j)
			}
		}
	}
}

// step goes on to the row before. It sets beside to the entries of Z in the row, beyond the diagonal,
// unless it is empty.
func (s *recurrence) step(row, beside []float64) {
	w, inverse := s.w, 1/row[0]
	if w == 0 {
		s.p[0] = inverse * inverse
		return
	}
	// The new number, x_i or its difference of order w, is e_i/R_ii - <tau, state>, up to its sign.
	clear(s.tau)
	for k, r := range row[1:] {
		for l, b := range s.numbers[k*w:][:w] {
			s.tau[l] += r * b
		}
	}
	sign := 1.0
	for l := range s.tau {
		if s.smooth {
			s.tau[l] += sign * row[0]
			sign = -sign
		}
		s.tau[l] *= inverse
	}
	variance := inverse*inverse + s.times(s.p)
	if len(beside) > 0 {
		s.besideDiagonal(beside)
	}
	s.update(s.p, variance, sign)
	s.update(s.v, s.times(s.v), sign)
}

// times sets c = X tau, and returns <tau, c>.
func (s *recurrence) times(x []float64) (form float64) {
	w := s.w
	for a := range w {
		sum := 0.0
		for b, v := range x[a*w:][:w] {
			sum += v * s.tau[b]
		}
		s.c[a] = sum
		form += sum * s.tau[a]
	}
	return form
}

// besideDiagonal sets the covariances of x_i with the w numbers after it, for c = P tau.
func (s *recurrence) besideDiagonal(beside []float64) {
	w := s.w
	for k := range beside {
		beside[k] = 0
		for a, b := range s.numbers[k*w:][:w] {
			covariance := -s.c[a]
			if s.smooth { // x_i is the alternating sum of the state, and the new difference
				for l, sign := 0, 1.0; l < w; l, sign = l+1, -sign {
					covariance += sign * s.p[a*w+l]
				}
			}
			beside[k] += b * covariance
		}
	}
}

// update goes on from the state to that one number before, in the forms X: the new number has the
// given form with itself, and -c with the state, times the sign.
func (s *recurrence) update(x []float64, form, sign float64) {
	w := s.w
	if !s.smooth {
		for a := w - 1; a > 0; a-- {
			copy(x[a*w+1:(a+1)*w], x[(a-1)*w:])
		}
		x[0] = form
		for a := 1; a < w; a++ {
			x[a], x[a*w] = -s.c[a-1], -s.c[a-1]
		}
		return
	}
	// The last difference less the new one, and every other less that of the next order.
	last := w - 1
	for a := range last {
		x[last*w+a] += sign * s.c[a]
		x[a*w+last] = x[last*w+a]
	}
	x[last*w+last] += form + 2*sign*s.c[last]
	for a := last - 1; a >= 0; a-- {
		x[a*w+a] += x[(a+1)*w+a+1] - 2*x[(a+1)*w+a]
		for b := range w {
			if b != a {
				x[a*w+b] -= x[(a+1)*w+b]
				x[b*w+a] = x[a*w+b]
			}
		}
	}
}

func (s *recurrence) add(g float64) {
	w := s.w
	for a := range w {
		for b := range w {
			s.v[a*w+b] += g * s.p[a*w] * s.p[b*w]
		}
	}
}
