package active_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/together"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/internal/roomtest"
	"surepipe/solve/solvetest"
)

// Paths on a matrix that is not in memory are those of one that is, by few passes, also where few
// columns fit into memory and where their lengths differ.
func TestScreenedPaths(t *testing.T) {
	if testing.Short() {
		t.Skip("short: an algorithm above the device, shown by the full run")
	}
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		const d, p, weights = 40, 500, 30
		rng := rand.New(rand.NewPCG(12, 5))
		x := mat.NewDense(d, p, solvetest.Gaussian(rng, d*p))
		truth := mat.NewVecDense(p, nil)
		for j := range 5 {
			truth.SetVec(97*j, 3)
		}
		var mu mat.VecDense
		mu.MulVec(x, truth)
		y := solvetest.Gaussian(rng, d)
		for i := range y {
			y[i] += mu.AtVec(i)
		}
		uneven := mat.DenseCopyOf(x)
		uneven.Apply(func(_, j int, v float64) float64 { return v * math.Exp2(float64(j%9-4)) }, uneven)
		penalties := map[string]func(w float64) prox.Prox{
			"l1":          func(w float64) prox.Prox { return prox.NewL1(w) },
			"elastic net": func(w float64) prox.Prox { return prox.NewElasticNet(w, 0.3) },
			"blocks": func(w float64) prox.Prox {
				return prox.NewSeparable(prox.Block{Prox: prox.NewL1(w), N: p - 3},
					prox.Block{Prox: prox.NewL1(0), N: 3})
			},
		}
		for name, r := range penalties {
			for kind, x := range map[string]*mat.Dense{"even": x, "uneven": uneven} {
				var c mat.VecDense
				c.MulVec(x.T(), mat.NewVecDense(d, y))
				most := mat.Norm(&c, math.Inf(1))
				whole := pathOf(t, dev, linops.Operator(roomtest.Dense(t, dev, d, p, x.RawMatrix().Data)), y, r, most,
					weights)
				a := roomtest.Stored(x)
				parts := pathOf(t, dev, a, y, r, most, weights)
				for i := range whole {
					roomtest.Near(t, name+" "+kind, parts[i], whole[i], 1e-8)
				}
				passes, _ := linops.StructureOf(a).Passes.Count()
				// a gap with free columns takes passes of its own
				if passes > 2*weights && name != "blocks" || passes > 3*weights {
					t.Errorf("%s %s: %d passes for %d weights", name, kind, passes, weights)
				}
			}
		}
	})
}

// Paths of groups, and with the logistic loss, are those of a matrix in memory.
func TestScreenedGroupsAndLosses(t *testing.T) {
	dev := array.NewHost()
	const d, p, weights = 40, 300, 12
	rng := rand.New(rand.NewPCG(12, 7))
	x := mat.NewDense(d, p, solvetest.Gaussian(rng, d*p))
	y, classes, groups := solvetest.Gaussian(rng, d), make([]float64, d), make([][]int, p/3)
	for i := range y {
		y[i] += 2 * (x.At(i, 0) + x.At(i, 1) - x.At(i, 7))
		if y[i] > 0 {
			classes[i] = 1
		}
	}
	for j := range p {
		groups[j/3] = append(groups[j/3], j)
	}
	grouped := func(w float64) prox.Prox {
		r, err := prox.NewGroupL2(dev, p, w, groups, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	l1 := func(w float64) prox.Prox { return prox.NewL1(w) }
	free := func(w float64) prox.Prox {
		return prox.NewSeparable(prox.Block{Prox: prox.NewL1(w), N: p - 1}, prox.Block{Prox: prox.NewSquaredL2(0), N: 1})
	}
	logistic, err := loss.Logistic(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		r    func(w float64) prox.Prox
		l    loss.Loss
		y    []float64
		most float64
	}{
		{"groups", grouped, nil, y, 100}, {"logistic", l1, logistic, classes, 12},
		{"logistic with a free column", free, logistic, classes, 12},
		{"logistic, groups", grouped, logistic, classes, 20},
	} {
		whole := pathWith(t, dev, roomtest.Dense(t, dev, d, p, x.RawMatrix().Data), c.l, c.y, c.r, c.most, weights, 90)
		a := roomtest.Stored(x)
		parts := pathWith(t, dev, a, c.l, c.y, c.r, c.most, weights, 90)
		for i := range whole {
			roomtest.Near(t, c.name, parts[i], whole[i], 1e-6)
		}
		if passes, _ := linops.StructureOf(a).Passes.Count(); passes > 5*weights {
			t.Errorf("%s: %d passes for %d weights", c.name, passes, weights)
		}
	}
}

// pathOf are the estimates along a path, with room for 90 columns in memory.
func pathOf(t *testing.T, dev array.Device, a linops.Operator, y []float64, r func(w float64) prox.Prox, most float64,
	weights int) [][]float64 {
	t.Helper()
	return pathWith(t, dev, a, nil, y, r, most, weights, 90)
}

// pathWith is pathOf with a loss, and with room for some columns.
func pathWith(t *testing.T, dev array.Device, a linops.Operator, l loss.Loss, y []float64, r func(w float64) prox.Prox,
	most float64, weights, room int) [][]float64 {
	t.Helper()
	d, _ := a.Dims()
	observed := roomtest.On(t, dev, y)
	weight := func(i int) float64 { return most * math.Pow(0.03, float64(i+1)/float64(weights)) }
	base := roomtest.NewSolver(t, "active-set", solve.Problem{A: a, Loss: l, R: r(weight(0)), Device: dev},
		solve.Options{Point: true, Columns: int64(room*8) * int64(d)})
	var path solve.Path
	defer path.Release()
	var all [][]float64
	for i := range weights {
		at := r(weight(i))
		s, err := base.Reweight(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		sol, err := s.Solve(t.Context(), observed, solve.From{Path: &path, Ahead: func(n int) (prox.Prox, error) {
			if i+n >= weights {
				return nil, nil
			}
			return r(weight(i + n)), nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if !sol.Converged {
			t.Errorf("weight %d: %+v", i, sol.Convergence)
		}
		all = append(all, sol.MuHat.ToHost())
		wide := sol.B.ToHost()
		if back := sol.At.Back; back != nil {
			back(sol)
			roomtest.Near(t, "b of the point", sol.B.ToHost(), wide, 1e-14)
		}
		sol.Release()
		s.Release()
		prox.Release(at)
	}
	return all
}

// Where the Gram matrix of all columns is known a pass finds the first gradient, and another the columns that matter: no
// solution takes one, also where a path begins again.
func TestGradientsByTheGramMatrixTakeNoPass(t *testing.T) {
	dev := array.NewHost()
	const d, p, weights = 64 * 120, 120, 20
	rng := rand.New(rand.NewPCG(12, 11))
	x, y := mat.NewDense(d, p, solvetest.Gaussian(rng, d*p)), solvetest.Gaussian(rng, d)
	x.Apply(func(_, j int, v float64) float64 { return v * math.Exp2(float64(j%3-1)) }, x)
	for i := range y {
		y[i] += x.At(i, 0) - x.At(i, 50)/2
	}
	l1 := func(w float64) prox.Prox { return prox.NewL1(w) }
	a := roomtest.Stored(x)
	whole := pathOf(t, dev, linops.Operator(roomtest.Dense(t, dev, d, p, x.RawMatrix().Data)), y, l1, d, weights)
	parts := pathOf(t, dev, a, y, l1, d, weights)
	for i := range whole {
		roomtest.Near(t, "path", parts[i], whole[i], 1e-10)
	}
	if passes, _ := linops.StructureOf(a).Passes.Count(); passes > 2 {
		t.Errorf("%d passes", passes)
	}
}

// Where few columns fit into memory, those that the path takes are read once, as the Gram matrix of all foresees them:
// most of the others follow the first column, and are nearer to mattering at b = 0.
func TestColumnsOfAPathAreReadOnce(t *testing.T) {
	dev := array.NewHost()
	const d, p, taken, weights = 64 * 100, 100, 8, 20
	rng := rand.New(rand.NewPCG(12, 17))
	x, y := mat.NewDense(d, p, solvetest.Gaussian(rng, d*p)), solvetest.Gaussian(rng, d)
	x.Apply(func(i, j int, v float64) float64 {
		if j >= taken {
			v += 0.7 * x.At(i, 0)
		}
		return v
	}, x)
	for i := range y {
		for k := range taken {
			y[i] += x.At(i, k) * math.Exp2(float64(-k)/4)
		}
	}
	l1 := func(w float64) prox.Prox { return prox.NewL1(w) }
	whole := pathOf(t, dev, linops.Operator(roomtest.Dense(t, dev, d, p, x.RawMatrix().Data)), y, l1, 8*d, weights)
	for _, room := range []int{taken, taken + 4} {
		a := roomtest.Stored(x)
		parts := pathWith(t, dev, a, nil, y, l1, 8*d, weights, room)
		for i := range whole {
			roomtest.Near(t, "path", parts[i], whole[i], 1e-10)
		}
		if passes, _ := linops.StructureOf(a).Passes.Count(); passes > 2 {
			t.Errorf("%d passes with room for %d columns, of which %d are active", passes, room, taken)
		}
	}
}

// Where all columns fit into memory they are read once: for all weights of a path, and for several y. The products with
// these are one pass. Paths are those of a matrix in memory.
func TestAllColumnsAreReadOnce(t *testing.T) {
	dev := array.NewHost()
	const d, p, weights = 300, 21, 12
	rng := rand.New(rand.NewPCG(12, 9))
	x := mat.NewDense(d, p, solvetest.Gaussian(rng, d*p))
	all := [][]float64{solvetest.Gaussian(rng, d), solvetest.Gaussian(rng, d)}
	a := roomtest.Stored(x)
	joint := together.NewJoint(a)
	joint.Know(dev, all)
	l1 := func(w float64) prox.Prox { return prox.NewL1(w) }
	for _, y := range all {
		parts := pathOf(t, dev, joint.Member(), y, l1, 50, weights)
		whole := pathOf(t, dev, linops.Operator(roomtest.Dense(t, dev, d, p, x.RawMatrix().Data)), y, l1, 50, weights)
		for i := range whole {
			roomtest.Near(t, "path", parts[i], whole[i], 1e-11)
		}
	}
	if passes, _ := linops.StructureOf(a).Passes.Count(); passes != 2 {
		t.Errorf("%d passes, expected one for the products and one for the columns", passes)
	}
}

// Solves that start at one solution, as those of a search for a minimum, take its gradient once, and none of their own
// where the residual moves by less than what would change the columns that matter.
func TestSolvesNearOneSolutionTakeNoPass(t *testing.T) {
	dev := array.NewHost()
	const d, p = 100, 600
	rng := rand.New(rand.NewPCG(12, 13))
	x, y := mat.NewDense(d, p, solvetest.Gaussian(rng, d*p)), solvetest.Gaussian(rng, d)
	for i := range y {
		y[i] += 2 * (x.At(i, 0) - x.At(i, 50))
	}
	stored := roomtest.Stored(x)
	observed := roomtest.On(t, dev, y)
	solver := func(a linops.Operator) solve.Solver {
		o := solve.Options{Columns: 90 * 8 * d}
		return roomtest.NewSolver(t, "active-set", solve.Problem{A: a, R: prox.NewL1(100), Device: dev}, o)
	}
	base, whole := solver(stored), solver(roomtest.Dense(t, dev, d, p, x.RawMatrix().Data))
	at := func(base solve.Solver, weight float64, from array.Batch) (mu, b []float64) {
		s, err := base.Reweight(t.Context(), prox.NewL1(weight))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		var path solve.Path
		defer path.Release()
		sol, err := s.Solve(t.Context(), observed, solve.From{B: from, Path: &path})
		if err != nil {
			t.Fatal(err)
		}
		defer sol.Release()
		return sol.MuHat.ToHost(), sol.B.ToHost()
	}
	_, b := at(base, 100, array.Batch{})
	start := roomtest.On(t, dev, b)
	at(base, 99, start)
	before, _ := linops.StructureOf(stored).Passes.Count()
	for _, weight := range []float64{98.5, 99.5, 101} {
		got, _ := at(base, weight, start)
		want, _ := at(whole, weight, array.Batch{})
		roomtest.Near(t, "near", got, want, 1e-10)
	}
	if after, _ := linops.StructureOf(stored).Passes.Count(); after != before {
		t.Errorf("%d passes for three weights near to a solution", after-before)
	}
	got, _ := at(base, 30, start) // far from it
	want, _ := at(whole, 30, array.Batch{})
	roomtest.Near(t, "far", got, want, 1e-10)
	if after, _ := linops.StructureOf(stored).Passes.Count(); after == before {
		t.Error("no pass for a weight far from a solution")
	}
}
