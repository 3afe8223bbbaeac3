package spec

import (
	"fmt"
	"math"
	"math/cmplx"
	"slices"

	"go.yaml.in/yaml/v3"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/problems/internal/check"
)

// A Noise says how the noise of y is not white, in a specification's key noise. y and the operator
// are replaced by W y and W A, where W whitens the noise: with y ~ N(mu, sigma2 C) and W C W* = I
//
//	W y ~ N(W mu, sigma2 I),    mu_hat = W A argmin_b 1/2 ||W (A b - y)||^2 + r(b),
//
// and SURE of the whitened problem is unbiased for E ||mu_hat - W mu||^2, that is for
//
//	E (A b - mu)* C^{-1} (A b - mu).
//
// sigma2 is 1 unless it is given.
type Noise string

const (
	// NoiseVariances: C is diagonal, a variance for each entry of y.
	NoiseVariances Noise = "variances"
	// NoiseCovariance: C is a matrix, of all entries of y or of the channels that are its first axis.
	NoiseCovariance Noise = "covariance"
	// NoiseWhitening: W is an operator.
	NoiseWhitening Noise = "whitening"
	// NoiseAnscombe: y are Poisson counts, and 2 sqrt(y + 3/8) has a variance of about 1 (Anscombe
	// 1948). The estimate is transformed back by an approximation of the unbiased inverse. All of it is
	// approximate: the transformed counts are neither normal nor is their variance 1 where the mean
	// count is below about 4.
	NoiseAnscombe Noise = "anscombe"
)

// noiseNode is the key noise.
type noiseNode struct {
	kind Noise
	line int
	// ref is the array of variances or the covariance, and operator the whitening operator.
	ref      *arrayRef
	operator *operatorNode
}

func (s *Spec) parseNoise(n *yaml.Node) error {
	s.noise = &noiseNode{line: n.Line}
	if n.Kind == yaml.ScalarNode {
		kind, err := s.choice(n, "noise", []string{string(NoiseAnscombe)})
		s.noise.kind = Noise(kind)
		if err == nil && !s.operator.row.identity {
			err = s.Errorf(n.Line, "noise is anscombe, but the operator is %s: expected operator: identity, "+
				"because the transform is not linear", s.operator.name)
		}
		return s.checkNoise(n, err)
	}
	f, err := s.fields(n, "noise", string(NoiseVariances), string(NoiseCovariance), string(NoiseWhitening))
	if err != nil {
		return err
	}
	if len(f.nodes) != 1 {
		return s.Errorf(n.Line, "noise has the keys %s, expected one of variances, covariance and whitening, or "+
			"noise: anscombe", keysOf(n))
	}
	for key, v := range f.nodes {
		s.noise.kind = Noise(key)
		if s.noise.kind == NoiseWhitening {
			s.noise.operator, err = s.parseOperator(v)
		} else if s.noise.ref, err = s.ref(v, key); err == nil {
			s.noise.ref.complex = true
		}
	}
	return s.checkNoise(n, err)
}

// checkNoise rejects keys that noise excludes.
func (s *Spec) checkNoise(n *yaml.Node, err error) error {
	switch {
	case err != nil:
		return err
	case s.lossWeights != nil:
		return s.Errorf(n.Line, "noise and weights exclude each other: noise whitens y, which weighs its entries")
	case !s.Loss.Squared():
		return s.Errorf(n.Line, "noise is that of the squared loss, found loss: %s", s.Loss.Name)
	case s.Intercept || s.Standardize:
		return s.Errorf(n.Line, "noise excludes intercept and standardize: a column of ones is no longer constant "+
			"once it is whitened")
	}
	return nil
}

// Noise says how the noise of y is not white; "" where it is.
func (s *Spec) Noise() Noise {
	if s.noise == nil {
		return ""
	}
	return s.noise.kind
}

// whiten replaces y and mu by the whitened ones. s has its arrays.
func (s *Spec) whiten(data *Data) error {
	if s.noise == nil {
		return nil
	}
	s.observedShape = data.YShape
	data.Depth = dataio.Depth{}
	if data.Sigma2 == nil && s.Sigma2Method == "" {
		one := 1.0
		if s.noise.kind == NoiseCovariance && data.Complex {
			one = 0.5 // of the real part, where E |n|^2 = 1
		}
		data.Sigma2 = &one
	}
	if s.noise.kind == NoiseAnscombe {
		for _, a := range []struct {
			name string
			x    *[]float64
		}{{"y", &data.Y}, {"mu", &data.Mu}} {
			if err := anscombe(a.name, a.x, data.YShape); err != nil {
				return s.At(s.noise.line, err)
			}
		}
		return nil
	}
	dev := array.NewHost()
	defer dev.Close()
	b := &builder{Spec: s, dev: dev, parts: &Parts{}, data: *data}
	defer b.parts.Release()
	w, err := b.whitening(data.YShape, data.Complex)
	if err != nil {
		return err
	}
	for _, x := range []*[]float64{&data.Y, &data.Mu} {
		if *x != nil {
			*x = ImageOf(dev, w.op, *x)
		}
	}
	data.YShape = w.rows
	return nil
}

// whitening builds W for a y of the given shape.
func (b *builder) whitening(shape []int, pairs bool) (built, error) {
	n := b.noise
	if n.operator != nil {
		w, err := b.operator(n.operator, nil, shape)
		return w, err
	}
	a := b.array(n.ref)
	var op linops.Operator
	var err error
	if n.kind == NoiseVariances {
		op, err = b.byVariances(a, shape, pairs)
	} else {
		op, err = b.byCovariance(a, shape, pairs)
	}
	return built{op: op, rows: shape, cols: shape}, b.At(n.ref.line, err)
}

// byVariances is diag(v)^{-1/2}.
func (b *builder) byVariances(a dataio.Array, shape []int, pairs bool) (linops.Operator, error) {
	d := check.Length(shape)
	each := 1
	if pairs && 2*len(a.Data) == d {
		each = 2
	}
	if a.Complex || len(a.Data)*each != d {
		return nil, fmt.Errorf("array %q has shape %s, expected %s, a variance for each entry of y", a.Name,
			ndarray.ShapeString(a.Shape), ndarray.ShapeString(shape))
	}
	w := make([]float64, d)
	for i := range w {
		v := a.Data[i/each]
		if !(v > 0) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("array %q holds %g at %s, expected variances, positive numbers", a.Name, v,
				ndarray.PlaceString(i/each, a.Shape))
		}
		w[i] = 1 / math.Sqrt(v)
	}
	op := linops.NewDiagonal(b.dev, w)
	b.parts.Own(op.Release)
	return op, nil
}

// byCovariance is the inverse of the Cholesky factor of the covariance of y, or of its channels.
func (b *builder) byCovariance(a dataio.Array, shape []int, pairs bool) (linops.Operator, error) {
	matrix := a.Shape
	if a.Complex {
		matrix = matrix[:len(matrix)-1]
	} else {
		a = a.WithImaginary()
	}
	d, k := check.Length(shape), 0
	if pairs {
		d /= 2
	}
	if len(matrix) == 2 && matrix[0] == matrix[1] {
		k = matrix[0]
	}
	if k == 0 || k != d && k != shape[0] {
		return nil, fmt.Errorf("array %q has shape %s, expected (%d, %d), the covariance of the entries of y, or "+
			"(%d, %d), that of the channels that are its first axis", a.Name,
			ndarray.ShapeString(matrix), d, d, shape[0], shape[0])
	}
	c := make([]complex128, k*k)
	for i := range c {
		c[i] = complex(a.Data[2*i], a.Data[2*i+1])
	}
	w, err := whiteningMatrix(c, k)
	if err != nil {
		return nil, fmt.Errorf("array %q %w", a.Name, err)
	}
	op, err := imaging.NewChannels(k, d/k, w, pairs)
	if err != nil {
		return nil, Trim(err)
	}
	b.hold(op)
	return op, nil
}

// whiteningMatrix is L^{-1} for the Hermitian matrix C = L L*.
func whiteningMatrix(c []complex128, k int) ([]complex128, error) {
	l := make([]complex128, k*k)
	for i := range k {
		for j := range i + 1 {
			v := c[i*k+j]
			if other := cmplx.Conj(c[j*k+i]); cmplx.Abs(v-other) > 1e-8*(cmplx.Abs(v)+cmplx.Abs(other)) ||
				cmplx.IsNaN(v) {
				return nil, fmt.Errorf("is not Hermitian: it holds %.6g at (%d, %d) and %.6g at (%d, %d)", v, i, j,
					c[j*k+i], j, i)
			}
			for u := range j {
				v -= l[i*k+u] * cmplx.Conj(l[j*k+u])
			}
			if i > j {
				l[i*k+j] = v / l[j*k+j]
				continue
			}
			if x := real(v); !(x > 1e-12*real(c[i*k+i])) || math.IsInf(x, 0) {
				return nil, fmt.Errorf("is not positive definite: pivot %d is %.3g, expected a covariance "+
					"of full rank", i, x)
			}
			l[i*k+i] = complex(math.Sqrt(real(v)), 0)
		}
	}
	w := make([]complex128, k*k)
	for j := range k {
		for i := j; i < k; i++ {
			v := complex128(0)
			if i == j {
				v = 1
			}
			for u := j; u < i; u++ {
				v -= l[i*k+u] * w[u*k+j]
			}
			w[i*k+j] = v / l[i*k+i]
		}
	}
	return w, nil
}

// anscombe replaces counts by 2 sqrt(x + 3/8).
func anscombe(name string, x *[]float64, shape []int) error {
	if *x == nil {
		return nil
	}
	out := slices.Clone(*x)
	for i, v := range out {
		if !(v >= 0) || math.IsInf(v, 0) {
			return fmt.Errorf("array %q holds %g at %s, expected Poisson counts or their means, "+
				"numbers of at least 0", name, v, ndarray.PlaceString(i, shape))
		}
		out[i] = 2 * math.Sqrt(v+3./8)
	}
	*x = out
	return nil
}

// fromAnscombe replaces means of the transform by means of counts, in place, by the closed form of
// Makitalo and Foi (2011) for the unbiased inverse, off by at most about 0.02 counts,
//
//	x^2/4 + sqrt(3/2)/(4 x) - 11/(8 x^2) + 5 sqrt(3/2)/(8 x^3) - 1/8,
//
// and 0 below the transform of 0.
func fromAnscombe(x []float64) {
	root := math.Sqrt(1.5)
	for i, v := range x {
		if v <= 2*math.Sqrt(3./8) {
			x[i] = 0
			continue
		}
		x[i] = max(0, v*v/4+root/(4*v)-11/(8*v*v)+5*root/(8*v*v*v)-1./8)
	}
}

// whitened are the operators W A of A and of its part without the synthesis. It sets the problem's
// signal in the units of y where it has no other.
func (b *builder) whitened(a, measured built) (built, built, error) {
	switch {
	case b.noise == nil:
		return a, measured, nil
	case b.noise.kind == NoiseAnscombe:
		b.parts.Original = fromAnscombe
		return a, measured, nil
	}
	w, err := b.whitening(b.observedShape, b.data.Complex)
	if err != nil {
		return a, measured, err
	}
	if b.parts.Signal == nil {
		b.parts.Signal, b.parts.SignalShape, b.parts.SignalComplex = a.op, a.rows, b.data.Complex
	}
	return multiply([]built{w, a}), multiply([]built{w, measured}), nil
}

// OfNoise says that risks are those of the whitened problem.
func (t Targets) OfNoise(n Noise) Targets {
	what, unit := "", ""
	switch n {
	case "":
		return t
	case NoiseVariances:
		what, unit = "the squared error of mu_hat, each entry over the variance of its noise",
			"over the variance of its noise"
	case NoiseCovariance:
		what, unit = "the squared error of mu_hat in the norm of the inverse covariance, (mu_hat - mu)* C^-1 "+
			"(mu_hat - mu)", "whitened"
	case NoiseWhitening:
		what, unit = "the squared error of mu_hat, whitened", "whitened"
	case NoiseAnscombe:
		what, unit = "the squared error of mu_hat in the scale 2 sqrt(count + 3/8), and is approximate, poor "+
			"at low counts", "in that scale"
	}
	join := func(s string, more string) string {
		if s == "" {
			return more
		}
		return more + "; " + s
	}
	return Targets{Noise: n, SURE: join(t.SURE, what),
		Prediction: join(t.Prediction, "the squared error of predicting an entry of y, "+unit+", noise included")}
}
