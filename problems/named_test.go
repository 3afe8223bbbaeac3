package problems_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/internal/dataio"
	"surepipe/linops"
	"surepipe/problems"
	"surepipe/prox"
	"surepipe/prox/clustered"
	"surepipe/prox/denoise"
	"surepipe/prox/lowrank"
)

// byHand is a named problem written down without its specification.
type byHand struct {
	operator linops.Operator
	// regularizer is r at the weights lambda, lambda2 and gamma.
	regularizer func(lambda, lambda2, gamma float64) prox.Prox
	// maxLambda and maxGamma are the maxima of the weights, 0 where there are none.
	maxLambda, maxGamma float64
	solver              string
	muShape, bShape     []int
}

// singular is the largest singular value.
func singular(t *testing.T, x mat.Matrix) float64 {
	t.Helper()
	var svd mat.SVD
	if !svd.Factorize(x, mat.SVDNone) {
		t.Fatal("no singular values")
	}
	return svd.Values(nil)[0]
}

// handBuilt returns the named problem on the data.
func handBuilt(t *testing.T, dev array.Device, name string, data problems.Data) byHand {
	t.Helper()
	d := len(data.Y)
	switch name {
	case "ols", "ridge", "lasso", "elastic-net", "group-lasso":
		x := linops.NewDense(dev, data.X.(*mat.Dense))
		t.Cleanup(x.Release)
		_, p := data.X.Dims()
		c := mat.NewVecDense(p, nil)
		c.MulVec(data.X.T(), mat.NewVecDense(d, data.Y))
		h := byHand{operator: x, solver: "direct", muShape: []int{d}, bShape: []int{p}}
		switch name {
		case "ols":
			h.regularizer = func(_, _, _ float64) prox.Prox { return prox.Zero() }
			return h
		case "ridge":
			h.regularizer = func(lambda, _, _ float64) prox.Prox { return prox.NewSquaredL2(lambda) }
			return h
		}
		if name == "group-lasso" {
			groups, roots := make([][]int, p/4), slices.Repeat([]float64{2}, p/4)
			for g := range groups {
				norm := 0.0
				for j := g; j < p; j += p / 4 {
					groups[g] = append(groups[g], j)
					norm = math.Hypot(norm, c.AtVec(j))
				}
				h.maxLambda = max(h.maxLambda, norm/2)
			}
			h.solver = "active-set"
			h.regularizer = func(lambda, _, _ float64) prox.Prox {
				r, err := prox.NewGroupL2(dev, p, 1, groups, roots)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { prox.Release(r) })
				return prox.NewScaled(lambda, r)
			}
			return h
		}
		h.maxLambda, h.solver = mat.Norm(c, math.Inf(1)), "active-set"
		h.regularizer = func(lambda, _, _ float64) prox.Prox { return prox.NewL1(lambda) }
		if name == "elastic-net" {
			h.regularizer = func(lambda, lambda2, _ float64) prox.Prox { return prox.NewElasticNet(lambda, lambda2) }
		}
		return h
	case "matrix-completion":
		shape := array.Shape{Rows: data.Shape[0], Cols: data.Shape[1]}
		selection, err := linops.NewSelection(dev, shape.Len(), data.Indices)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(selection.Release)
		full := mat.NewDense(shape.Rows, shape.Cols, nil)
		for i, c := range data.Indices {
			full.Set(c/shape.Cols, c%shape.Cols, data.Y[i])
		}
		return byHand{selection, func(lambda, _, _ float64) prox.Prox { return lowrank.NewNuclear(shape, lambda) },
			singular(t, full), 0, "fista", []int{d}, data.Shape}
	case "local-low-rank":
		f, m, n := data.YShape[0], data.YShape[1], data.YShape[2]
		largest := 0.0
		for _, down := range []int{-8, -4} {
			for _, along := range []int{-8, -4} {
				for from := down; from < m; from += 8 {
					for left := along; left < n; left += 8 {
						var patch []float64
						for t := range f {
							for r := max(from, 0); r < min(from+8, m); r++ {
								for c := max(left, 0); c < min(left+8, n); c++ {
									patch = append(patch, data.Y[(t*m+r)*n+c])
								}
							}
						}
						if patch == nil {
							continue
						}
						pixels := len(patch) / f
						scale := (math.Sqrt(float64(f)) + math.Sqrt(float64(pixels))) / (math.Sqrt(float64(f)) + 8)
						largest = max(largest, singular(t, mat.NewDense(f, pixels, patch))/scale)
					}
				}
			}
		}
		s := prox.Series{Frames: f, Rows: m, Cols: n, Patch: 8, Stride: 4}
		return byHand{linops.Identity(d), func(lambda, _, _ float64) prox.Prox {
			return denoise.NewLocalLowRank(s,
				lambda)
		}, largest, 0, "ista", data.YShape, data.YShape}
	case "tv1d":
		most, sum, mean := 0.0, 0.0, mat.Sum(mat.NewVecDense(d, data.Y))/float64(d)
		for _, v := range data.Y[:d-1] {
			sum += v - mean
			most = max(most, math.Abs(sum))
		}
		return byHand{linops.Identity(d), func(lambda, _, _ float64) prox.Prox {
			return clustered.NewTV1D(d,
				lambda)
		}, most, 0, "ista", []int{d}, []int{d}}
	}
	shape := array.Shape{Rows: data.YShape[0], Cols: data.YShape[1]}
	y := mat.NewDense(shape.Rows, shape.Cols, data.Y)
	h := byHand{linops.Identity(d), func(lambda, _, _ float64) prox.Prox { return lowrank.NewNuclear(shape, lambda) },
		singular(t, y), 0, "ista", data.YShape, data.YShape}
	if name == "robust-pca" {
		h.operator, h.solver, h.bShape = linops.HStack(linops.Identity(d), linops.Identity(d)), "fista",
			[]int{2, shape.Rows, shape.Cols}
		h.maxGamma = max(mat.Max(y), -mat.Min(y))
		h.regularizer = func(lambda, _, gamma float64) prox.Prox {
			return prox.NewSeparable(prox.Block{Prox: lowrank.NewNuclear(shape, lambda), N: d},
				prox.Block{Prox: prox.NewL1(gamma), N: d})
		}
	}
	return h
}

// Every named problem is the estimator of its formula: what its specification builds has the
// operator, the maxima, the shapes and the solution of one that is built by hand.
func TestNamedProblemsAreTheirFormulas(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		all := generated(t, 8)
		for _, name := range problems.Names() {
			data, ok := all[name]
			if slices.Contains([]string{"tv2d", "trend1d", "whittaker", "fused-lasso", "generalized-lasso"}, name) {
				continue // TestProblemsWithTermsAreTheirFormulas
			}
			if !ok {
				t.Errorf("%s has no data", name)
				continue
			}
			data.Lambda2 = value(2)
			want := handBuilt(t, dev, name, data)
			hypers := []problems.Hyper{{}}
			if want.maxLambda > 0 {
				hyper := problems.Hyper{Lambda: problems.OfMax(0.3)}
				if want.maxGamma > 0 {
					hyper.Gamma = problems.OfMax(0.2)
				}
				hypers = append(hypers, hyper)
			}
			for i, hyper := range hypers {
				p, err := problems.New(name, dev, data, hyper)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if p.Name != name || p.DefaultSolver != want.solver || !slices.Equal(p.MuShape, want.muShape) ||
					!slices.Equal(p.BShape, want.bShape) {
					t.Errorf("%s by %s, shapes %v and %v; expected %s by %s, %v and %v", p.Name, p.DefaultSolver,
						p.MuShape, p.BShape, name, want.solver, want.muShape, want.bShape)
				}
				if !mat.Equal(linops.ToDense(dev, p.Operator), linops.ToDense(dev, want.operator)) {
					t.Errorf("%s: the operators differ", name)
				}
				if i > 0 {
					if m := 0.3 * want.maxLambda; math.Abs(p.Lambda-m) > 1e-12*m {
						t.Errorf("%s: lambda is %g, expected %g", name, p.Lambda, m)
					}
					if m := 0.2 * want.maxGamma; want.maxGamma > 0 && math.Abs(p.Gamma-m) > 1e-12*m {
						t.Errorf("%s: gamma is %g, expected %g", name, p.Gamma, m)
					}
				}
				got := solve(t, dev, p, data.Y)
				p.Operator, p.Regularizer = want.operator, want.regularizer(p.Lambda, p.Lambda2, p.Gamma)
				if b := solve(t, dev, p, data.Y); !slices.Equal(b, got) {
					t.Errorf("%s: the solutions differ", name)
				}
				p.Release()
			}
		}
	})
}

// The table of named problems is complete: every entry has a specification with a summary, the
// layout's arrays are those of the generated data, and lookups agree with the list.
func TestNamedProblemsAreRegistered(t *testing.T) {
	for _, n := range problems.Registered() {
		if summary := problems.SpecSummary(n.Name); summary == "" {
			t.Errorf("%s has no summary", n.Name)
		}
		if n.Arrays == "" || n.YRank < 1 || strings.Count(n.YShape, ",") != max(n.YRank-1, 1) {
			t.Errorf("%s: layout %+v", n.Name, n.Layout)
		}
		if found, ok := problems.Lookup(n.Name); !ok || found.Name != n.Name || found.Layout != n.Layout {
			t.Errorf("%s is found as %+v", n.Name, found)
		}
	}
	for _, g := range problems.Generators() {
		n, named := problems.Lookup(g.Name)
		arrays, err := g.Draw([]int{40, 30, 0, 0}[:len(g.Sizes)+len(g.Optional)], 1)
		if err != nil || named == g.Scanner || g.Help == "" {
			t.Errorf("%s: %v, named %t", g.Name, err, named)
		}
		by := map[string]dataio.Array{}
		for _, a := range arrays {
			by[a.Name] = a
		}
		if rank := len(by["y"].Shape); !g.Scanner && (rank != n.YRank || (by["X"].Data != nil) != n.Design ||
			(by["indices"].Ints != nil) != n.Selection || by["lambda"].Data == nil) {
			t.Errorf("%s: the data have y of %d axes, the layout is %+v", g.Name, rank, n.Layout)
		}
	}
	if _, ok := problems.Lookup("lars"); ok {
		t.Error("lars is found")
	}
}

// A matrix may be dense or sparse, in a file or in the text.
func TestMatrixTakesWhatIsStored(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		dir := t.TempDir()
		want := mat.NewDense(2, 3, []float64{1, 0, 3, 0, 5, 6})
		for file, write := range map[string]func(path string) error{
			"x.npy": func(path string) error {
				return dataio.WriteNPY(path, dataio.Array{Shape: []int{2, 3}, Data: want.RawMatrix().Data})
			},
			"x.mtx": func(path string) error {
				return writeText(path, "%%MatrixMarket matrix coordinate real general\n2 3 4\n1 1 1\n1 3 3\n2 "+
					"2 5\n2 3 6\n")
			},
		} {
			if err := write(dir + "/" + file); err != nil {
				t.Fatal(err)
			}
		}
		for _, x := range []string{"x.npy", "x.mtx", "[[1, 0, 3], [0, 5, 6]]"} {
			p, _ := built(t, dev, dir, fmt.Sprintf("data: {X: %s, y: [1, 2]}\noperator: {matrix: X}\nregularizer: "+
				"{squared-l2: 1}\n", x), problems.Hyper{})
			if got := linops.ToDense(dev, p.Operator); !mat.Equal(got, want) || p.DefaultSolver != "direct" {
				t.Errorf("%s: by %s,\n%v", x, p.DefaultSolver, mat.Formatted(got))
			}
		}
		if _, err := load(t, dir, "data: {y: [1, 2]}\noperator: {matrix: X}\nregularizer: zero\n"); err == nil ||
			!strings.Contains(err.Error(), `problem.yaml:2: array "X" is missing`) {
			t.Errorf("error %v", err)
		}
	})
}

// What a problem cannot have is refused, with the problems that can.
func TestWhatAProblemCannotHave(t *testing.T) {
	one := 1
	for want, ask := range map[string]func(d *problems.Data){
		"vectorial total variation is asked for, but svt cannot have that: expected tv2d, or": func(d *problems.Data) {
			d.Vectorial = true
		},
		"anisotropic total variation is asked for, but svt cannot have that: expected tv2d": func(d *problems.Data) {
			d.Anisotropic = true
		},
		"an order of differences is asked for, but svt cannot have that: expected trend1d, wh": func(d *problems.Data) {
			d.Order = &one
		},
		"places of the values of y are asked for, but svt cannot have that: expected whitt": func(d *problems.Data) {
			d.At = []float64{1}
		},
		"the loss multinomial is asked for, but svt cannot have that: expected ols": func(d *problems.Data) {
			d.Loss = problems.Loss{Name: "multinomial"}
		},
	} {
		d := problems.Data{Y: []float64{1, 2, 3, 4}, YShape: []int{2, 2}}
		ask(&d)
		_, err := problems.New("svt", array.NewHost(), d, problems.Hyper{Lambda: problems.Absolute(1)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
