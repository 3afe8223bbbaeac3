package space_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/space"
	"surepipe/space/spacetest"
)

// factor is n orthogonal vectors of length n that are not of length 1, r of them, as columns.
func factor(dev array.Device, n, r int, seed uint64) array.Batch {
	rng := rand.New(rand.NewPCG(seed, 2))
	x := make([][]float64, r)
	for i := range x {
		x[i] = make([]float64, n)
		for j := range x[i] {
			x[i][j] = rng.NormFloat64()
		}
		for range 2 {
			for _, y := range x[:i] {
				xy, yy := 0.0, 0.0
				for j := range y {
					xy += x[i][j] * y[j]
					yy += y[j] * y[j]
				}
				for j := range y {
					x[i][j] -= xy / yy * y[j]
				}
			}
		}
	}
	flat := make([]float64, n*r)
	for i := range x {
		for j := range n {
			flat[j*r+i] = x[i][j] * float64(i+1)
		}
	}
	b := dev.Alloc(1, n*r)
	dev.Upload(b, flat)
	return b
}

func TestSpacesKeepTheContract(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for name, make := range spaces(dev) {
			t.Run(name, func(t *testing.T) {
				before := dev.Stats().LiveBytes
				s, release := make()
				spacetest.Check(t, dev, s)
				release()
				if after := dev.Stats().LiveBytes; after != before {
					t.Errorf("%d bytes are left", after-before)
				}
			})
		}
	})
}

func none() {}

// rotation is an orthogonal n x n matrix.
func rotation(dev array.Device, n int) array.Batch {
	b := factor(dev, n, n, 7)
	x := b.ToHost()
	for j := range n {
		size := 0.0
		for i := range n {
			size = math.Hypot(size, x[i*n+j])
		}
		for i := range n {
			x[i*n+j] /= size
		}
	}
	dev.Upload(b, x)
	return b
}

// spaces makes a space of each kind.
func spaces(dev array.Device) map[string]func() (space.Space, func()) {
	subset := func() space.Space { return space.Coordinates(dev, 7, []int{0, 2, 3, 6}) }
	clusters := func() space.Space {
		return space.Clusters(dev, 6, []int{0, 2, 3, 5}, []int{4, 0, 2, 1, 5}, []float64{1, -1, -1, 1, 1, 1})
	}
	tangent := func() (space.Space, func()) {
		u, v := factor(dev, 5, 2, 1), factor(dev, 4, 2, 3)
		return space.Tangent(array.Shape{Rows: 5, Cols: 4}, 2, u, v), func() { u.Free(); v.Free() }
	}
	alone := func(s func() space.Space) func() (space.Space, func()) {
		return func() (space.Space, func()) { return s(), none }
	}
	return map[string]func() (space.Space, func()){
		"orthogonal to vectors": alone(func() space.Space {
			return space.Orthogonal(dev, 9, []int{0, 1, 2, 4, 5, 6, 8},
				space.Rows{Indptr: []int{0, 3, 5}, Indices: []int{4, 0, 8, 2, 6}, Values: []float64{-3, 1, 2, 0, 1e-3}})
		}),
		"orthogonal to nothing": alone(func() space.Space {
			return space.Orthogonal(dev, 4, []int{0, 2}, space.Rows{Indptr: []int{0}})
		}),
		"orthogonal to all": alone(func() space.Space {
			return space.Orthogonal(dev, 3, []int{1}, space.Rows{Indptr: []int{0, 1}, Indices: []int{1},
				Values: []float64{2}})
		}),
		"symmetric matrices of rank 2": func() (space.Space, func()) {
			v := rotation(dev, 5)
			return space.SymmetricTangent(5, 2, v), v.Free
		},
		"symmetric matrices": func() (space.Space, func()) {
			v := rotation(dev, 3)
			return space.SymmetricTangent(3, 3, v), v.Free
		},
		"symmetric matrices of rank 0": func() (space.Space, func()) {
			v := rotation(dev, 3)
			return space.SymmetricTangent(3, 0, v), v.Free
		},
		"all":      alone(func() space.Space { return space.All(5) }),
		"subset":   alone(subset),
		"empty":    alone(func() space.Space { return space.Coordinates(dev, 4, nil) }),
		"clusters": alone(clusters),
		"positive": alone(func() space.Space {
			return space.Clusters(dev, 5, []int{0, 3, 5}, []int{0, 1, 2, 3, 4},
				nil)
		}),
		"tangent":   tangent,
		"full rank": func() (space.Space, func()) { return square(dev) },
		"product": func() (space.Space, func()) {
			s, free := tangent()
			return space.ProductOf(subset(), s, clusters(), space.All(2)), free
		},
		"product of sets":   alone(func() space.Space { return space.ProductOf(subset(), space.All(2)) }),
		"product of wholes": alone(func() space.Space { return space.ProductOf(space.All(3), space.All(2)) }),
		"regular product":   alone(func() space.Space { return space.ProductOf(subset(), clusters()) }),
		"hyperplane": alone(func() space.Space {
			return space.HyperplaneOf(dev, 7, []int{0, 2, 3, 6}, []float64{1, -1, 1, 1})
		}),
		"hyperplane of unequal numbers": alone(func() space.Space {
			return space.HyperplaneOf(dev, 6, []int{0, 1, 4}, []float64{-3, 1e-3, 2})
		}),
		"point": alone(func() space.Space {
			return space.HyperplaneOf(dev, 3, []int{1}, []float64{2})
		}),
		"span": alone(func() space.Space {
			rows := dev.Alloc(2, 3)
			h := math.Sqrt(0.5)
			dev.Upload(rows, []float64{h, h, 0, 0, 0, -1})
			return space.Span(rows)
		}),
	}
}

func square(dev array.Device) (space.Space, func()) {
	u, v := factor(dev, 3, 3, 1), factor(dev, 3, 3, 3)
	return space.Tangent(array.Shape{Rows: 3, Cols: 3}, 3, u, v), func() { u.Free(); v.Free() }
}

// A product of sets of coordinates has the form of one set.
func TestProductsOfSetsAreSets(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	s := space.ProductOf(space.Coordinates(dev, 3, []int{0, 2}), space.All(1), space.Coordinates(dev, 2, []int{1}))
	defer s.Release()
	if f := s.Form(); f.Kind != space.Subset || fmt.Sprint(f.Set) != "[0 2 3 5]" {
		t.Errorf("kind %d, set %v", f.Kind, f.Set)
	}
}

// wrong is a space with one method or claim that is false.
type wrong struct {
	space.Space
	embed, coordinates, project float64
	form                        func(space.Form) space.Form
	dim                         int
}

func (w wrong) Embed(dst, c array.Batch) {
	w.Space.Embed(dst, c)
	dst.Device().Lin(dst, 1+w.embed, dst, 0, array.Batch{})
}

func (w wrong) Coordinates(dst, z array.Batch) {
	w.Space.Coordinates(dst, z)
	dst.Device().Lin(dst, 1+w.coordinates, dst, 0, array.Batch{})
}

func (w wrong) Project(dst, z array.Batch) {
	w.Space.Project(dst, z)
	dst.Device().Lin(dst, 1+w.project, dst, 0, array.Batch{})
}

func (w wrong) Dim() int { return w.Space.Dim() + w.dim }

func (w wrong) Form() space.Form {
	if w.form == nil {
		return w.Space.Form()
	}
	return w.form(w.Space.Form())
}

// Every false claim is found.
func TestTheCheckerFindsWhatIsWrong(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	clusters := func() space.Space { return space.Clusters(dev, 4, []int{0, 2, 4}, []int{0, 1, 2, 3}, nil) }
	for name, c := range map[string]struct {
		w    wrong
		says string
	}{
		"embedding":  {wrong{Space: clusters(), embed: 1e-3}, "adjoint"},
		"adjoint":    {wrong{Space: clusters(), coordinates: 1e-3}, "adjoint"},
		"projection": {wrong{Space: clusters(), project: 1e-3}, "projection"},
		"dimension":  {wrong{Space: clusters(), dim: 1}, "dimension"},
		"set": {wrong{Space: space.Coordinates(dev, 3, []int{1}),
			form: func(f space.Form) space.Form { f.Set = []int{0}; return f }}, "entry"},
		"average": {wrong{Space: clusters(),
			form: func(f space.Form) space.Form {
				rows := f.Average()
				rows.Values = []float64{1, 1, 1, 1}
				f.Average = func() space.Rows { return rows }
				return f
			}}, "entry"},
		"kind": {wrong{Space: clusters(),
			form: func(space.Form) space.Form { return space.Form{Kind: space.Whole} }}, "coordinates"},
		"orthonormal": {wrong{Space: scaled{space.All(3)},
			form: func(f space.Form) space.Form { return space.Form{Orthonormal: true} }}, "identity"},
		"parts": {wrong{Space: space.ProductOf(space.All(2), space.Span(unit(dev))),
			form: func(f space.Form) space.Form { f.Parts = f.Parts[:1]; return f }}, "together"},
	} {
		errs := fmt.Sprint(spacetest.Errors(dev, c.w))
		if !strings.Contains(errs, c.says) {
			t.Errorf("%s: %s, expected something about %q", name, errs, c.says)
		}
	}
}

// scaled is a space with E twice as large.
type scaled struct{ space.Space }

func (s scaled) Embed(dst, c array.Batch) { dst.Device().Lin(dst, 2, c, 0, array.Batch{}) }

func (s scaled) Coordinates(dst, z array.Batch) { s.Embed(dst, z) }

func TestSpacesRefuseWhatIsNone(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	for name, f := range map[string]func(){
		"order":     func() { space.Coordinates(dev, 3, []int{1, 1}) },
		"range":     func() { space.Coordinates(dev, 3, []int{3}) },
		"overlap":   func() { space.Clusters(dev, 3, []int{0, 2, 3}, []int{0, 1, 1}, nil) },
		"emptySet":  func() { space.Clusters(dev, 3, []int{0, 0, 1}, []int{1}, nil) },
		"parts":     func() { space.ProductOf() },
		"normal":    func() { space.HyperplaneOf(dev, 2, []int{0, 1}, []float64{0, 0}) },
		"normalLen": func() { space.HyperplaneOf(dev, 2, []int{0, 1}, []float64{1}) },
		"shape": func() {
			b := dev.Alloc(1, 2)
			defer b.Free()
			space.All(3).Project(b, b)
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if r := recover(); r == nil || !strings.HasPrefix(fmt.Sprint(r), "space: ") {
					t.Errorf("panic %v", r)
				}
			}()
			f()
		})
	}
}

// The tangent space of a LASSO's penalty at a solution with the support {0, 2}.
func ExampleCoordinates() {
	dev := array.NewHost()
	defer dev.Close()
	s := space.Coordinates(dev, 4, []int{0, 2})
	defer s.Release()
	z := dev.Alloc(1, 4)
	defer z.Free()
	dev.Upload(z, []float64{1, 2, 3, 4})
	s.Project(z, z)
	fmt.Println(s.Dim(), z.ToHost())
	// Output: 2 [1 0 3 0]
}

// Two coordinates that a fused LASSO holds equal move together.
func ExampleClusters() {
	dev := array.NewHost()
	defer dev.Close()
	s := space.Clusters(dev, 3, []int{0, 2, 3}, []int{0, 1, 2}, nil)
	defer s.Release()
	z := dev.Alloc(1, 3)
	defer z.Free()
	dev.Upload(z, []float64{1, 3, 5})
	s.Project(z, z)
	fmt.Printf("%d %.0f\n", s.Dim(), z.ToHost())
	// Output: 2 [2 2 5]
}

// unit is the first unit vector of R^2, as a row.
func unit(dev array.Device) array.Batch {
	b := dev.Alloc(1, 2)
	dev.Upload(b, []float64{1, 0})
	return b
}
