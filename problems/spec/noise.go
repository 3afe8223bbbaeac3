package spec

import (
	"fmt"
	"math"
	"math/cmplx"

	"go.yaml.in/yaml/v3"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/linops/imaging"
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

// noiseKind is a kind of noise in specifications: a row of the table that help, parser and errors read. y and A are
// whitened by an operator, or y are counts that a transform brings near to it.
type noiseKind struct {
	name       Noise
	forms      []Form
	parameters []Parameter
	// error2 is what SURE estimates, and unit that of the error of predicting an entry.
	error2, unit string
	// halves says that the variance of a complex number is the sum of those of both parts.
	halves bool
	// whiten makes W for a y of a shape, of pairs of numbers where it is complex; nil with counts.
	whiten func(a *Arguments, shape []int, pairs bool) (built, error)
	// counts transforms numbers of the name and the shape, and back means of the transform to those of counts, in
	// place.
	counts func(name string, x []float64, shape []int) ([]float64, error)
	back   func(x []float64)
}

var noises = table[noiseKind]{what: "noise", name: func(k noiseKind) string { return string(k.name) }}

func init() {
	noises.rows = []noiseKind{{
		name:       "variances",
		forms:      []Form{{"variances: v", "a variance for each entry of y"}},
		parameters: []Parameter{{Read: complexNumbers}},
		error2:     "the squared error of mu_hat, each entry over the variance of its noise",
		unit:       "over the variance of its noise",
		whiten:     whitenArray((*builder).byVariances),
	}, {
		name: "covariance",
		forms: []Form{{"covariance: C", "of all entries of y, or of its first axis (of coils, say);\n" +
			"complex: C is E n n*, and sigma2 by default 1/2"}},
		parameters: []Parameter{{Read: complexNumbers}},
		error2: "the squared error of mu_hat in the norm of the inverse covariance, (mu_hat - mu)* C^-1 " +
			"(mu_hat - mu)",
		unit:   "whitened",
		halves: true,
		whiten: whitenArray((*builder).byCovariance),
	}, {
		name:       "whitening",
		forms:      []Form{{"whitening: OPERATOR", "W with W cov(y) W* = sigma2 I"}},
		parameters: []Parameter{{Read: operatorValue}},
		error2:     "the squared error of mu_hat, whitened",
		unit:       "whitened",
		whiten: func(a *Arguments, shape []int, _ bool) (built, error) {
			return a.operator(argument[[]*operatorNode](a.Call, operand, nil)[0], nil, shape)
		},
	}, {
		// 2 sqrt(y + 3/8) has a variance of about 1 (Anscombe 1948). All of it is approximate: the transformed
		// counts are neither normal nor is their variance 1 where the mean count is below about 4.
		name: "anscombe",
		forms: []Form{{"anscombe",
			"Poisson counts, 2 sqrt(y + 3/8): approximate, also its\ninverse; for operator: identity"}},
		error2: "the squared error of mu_hat in the scale 2 sqrt(count + 3/8), and is approximate, poor " +
			"at low counts",
		unit:   "in that scale",
		counts: anscombe,
		back:   fromAnscombe,
	}}
}

// noiseNode is the key noise.
type noiseNode struct {
	Call
	row noiseKind
}

// parseNoise reads the key noise, and rejects keys that it excludes.
func (s *Spec) parseNoise(at *yaml.Node) error {
	row, call, args, err := noises.find(s, at)
	if err != nil {
		return err
	}
	s.noise = &noiseNode{call, row}
	if err := s.noise.read(args, row.parameters, "noise: {"+row.forms[0].Syntax+"}"); err != nil {
		return err
	}
	switch {
	case row.counts != nil && !s.operator.row.identity:
		return s.Errorf(at.Line, "noise is %s, but the operator is %s: expected operator: identity, because the "+
			"transform is not linear", row.name, s.operator.name)
	case s.lossWeights != nil:
		return s.Errorf(at.Line, "noise and weights exclude each other: noise whitens y, which weighs its entries")
	case !s.Loss.Squared():
		return s.Errorf(at.Line, "noise is that of the squared loss, found loss: %s", s.Loss.Name)
	case s.Intercept || s.Standardize:
		return s.Errorf(at.Line, "noise excludes intercept and standardize: a column of ones is no longer constant "+
			"once it is whitened")
	}
	return nil
}

// Noise says how the noise of y is not white; "" where it is.
func (s *Spec) Noise() Noise {
	if s.noise == nil {
		return ""
	}
	return s.noise.row.name
}

// Counts says that y are counts, transformed so that their noise is white.
func (s *Spec) Counts() bool { return s.noise != nil && s.noise.row.counts != nil }

// whiten replaces y and mu by the whitened ones. s has its arrays.
func (s *Spec) whiten(data *Data) error {
	if s.noise == nil {
		return nil
	}
	row := s.noise.row
	s.observedShape = data.YShape
	data.Depth = dataio.Depth{}
	if data.Sigma2 == nil && s.Sigma2Method == "" {
		one := 1.0
		if row.halves && data.Complex {
			one = 0.5 // of the real part, where E |n|^2 = 1
		}
		data.Sigma2 = &one
	}
	apply := row.counts
	if apply == nil {
		dev := array.NewHost()
		defer dev.Close()
		b := &builder{Spec: s, dev: dev, parts: &Parts{}, data: *data}
		defer b.parts.Release()
		w, err := b.whitening()
		if err != nil {
			return err
		}
		apply = func(_ string, x []float64, _ []int) ([]float64, error) { return ImageOf(dev, w.op, x), nil }
		data.YShape = w.rows
	}
	for _, x := range []struct {
		name   string
		values *[]float64
	}{{"y", &data.Y}, {"mu", &data.Mu}} {
		if *x.values == nil {
			continue
		}
		var err error
		if *x.values, err = apply(x.name, *x.values, s.observedShape); err != nil {
			return s.At(s.noise.line, err)
		}
	}
	return nil
}

func (b *builder) whitening() (built, error) {
	w, err := b.noise.row.whiten(&Arguments{&b.noise.Call, b}, b.observedShape, b.data.Complex)
	return w, b.At(b.noise.line, err)
}

func whitenArray(by func(*builder, dataio.Array, []int, bool) (linops.Operator, error)) func(*Arguments, []int,
	bool) (built, error) {
	return func(a *Arguments, shape []int, pairs bool) (built, error) {
		v, _ := a.Array("")
		op, err := by(a.builder, v, shape, pairs)
		return built{op: op, rows: shape, cols: shape}, err
	}
}

func (b *builder) byVariances(a dataio.Array, shape []int, pairs bool) (linops.Operator, error) {
	d := lists.Product(shape)
	each := 1
	if pairs && 2*len(a.Data) == d {
		each = 2
	}
	if a.Complex || len(a.Data)*each != d {
		return nil, fmt.Errorf("array %q has shape %s, expected %s, a variance for each entry of y", a.Name,
			ndarray.ShapeString(a.Shape), ndarray.ShapeString(shape))
	}
	positive := func(v float64) bool { return v > 0 && !math.IsInf(v, 0) }
	if err := a.Expect("variances, positive numbers", positive); err != nil {
		return nil, err
	}
	op := linops.NewDiagonal(b.dev, lists.Make(d, func(i int) float64 { return 1 / math.Sqrt(a.Data[i/each]) }))
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
	d, k := lists.Product(shape), 0
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
	c := lists.Make(k*k, func(i int) complex128 { return complex(a.Data[2*i], a.Data[2*i+1]) })
	w, err := whiteningMatrix(c, k)
	if err != nil {
		return nil, fmt.Errorf("array %q %w", a.Name, err)
	}
	op, err := imaging.NewChannels(k, d/k, w, pairs)
	made, err := b.held(op, err, shape, shape)
	return made.op, err
}

// Entries of a covariance and their mirror images may differ by hermitianTol of their size, and a pivot must be more
// than leastPivot of its diagonal entry, both by rounding.
const (
	hermitianTol = 1e-8
	leastPivot   = 1e-12
)

// whiteningMatrix is L^{-1} for the Hermitian matrix C = L L*.
func whiteningMatrix(c []complex128, k int) ([]complex128, error) {
	l := make([]complex128, k*k)
	for i := range k {
		for j := range i + 1 {
			v := c[i*k+j]
			if other := cmplx.Conj(c[j*k+i]); cmplx.Abs(v-other) > hermitianTol*(cmplx.Abs(v)+cmplx.Abs(other)) ||
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
			if x := real(v); !(x > leastPivot*real(c[i*k+i])) || math.IsInf(x, 0) {
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

func anscombe(name string, x []float64, shape []int) ([]float64, error) {
	counts := dataio.Array{Name: name, Shape: shape, Data: x}
	err := counts.Expect("Poisson counts or their means, numbers of at least 0",
		func(v float64) bool { return v >= 0 && !math.IsInf(v, 0) })
	return lists.Map(x, func(v float64) float64 { return 2 * math.Sqrt(v+3./8) }), err
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
	case b.Counts():
		b.parts.Original = b.noise.row.back
		return a, measured, nil
	}
	w, err := b.whitening()
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
	for _, k := range noises.rows {
		if k.name != n {
			continue
		}
		join := func(s, more string) string {
			if s == "" {
				return more
			}
			return more + "; " + s
		}
		return Targets{Noise: n, SURE: join(t.SURE, k.error2),
			Prediction: join(t.Prediction, "the squared error of predicting an entry of y, "+k.unit+", noise included")}
	}
	return t
}
