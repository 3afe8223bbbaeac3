package problems

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/space"
)

// Loss names a loss. The zero Loss is that of the specification, the squared one where it names
// none.
type Loss struct {
	// Name is one of [loss.Names].
	Name string
	// Parameter is that of the loss ([loss.Parameter]), such as delta of the Huber loss, in units of y; 0 where it
	// has none.
	Parameter float64
}

// kind is the loss's row in the table.
func (l Loss) kind() (loss.Kind, error) {
	k, ok := loss.KindOf(l.Name)
	if !ok {
		return k, fmt.Errorf("the loss is %q, expected one of %s", l.Name, strings.Join(loss.Names(), ", "))
	}
	return k, nil
}

// Squared reports that it is the squared loss.
func (l Loss) Squared() bool {
	k, err := l.kind()
	return err == nil && k.Squared()
}

// Transforms reports that the expectation of y is not mu_hat, the linear predictor, but a function of
// it.
func (l Loss) Transforms() bool {
	k, _ := l.kind()
	return k.Transforms
}

// Check reports a name or a parameter that is not one.
func (l Loss) Check() error {
	k, err := l.kind()
	if err != nil {
		return err
	}
	return k.Check(l.Parameter)
}

// Structure is what is known of the loss without weights; nothing of the squared one.
func (l Loss) Structure() (loss.Structure, error) {
	if err := l.Check(); err != nil || l.Squared() {
		return loss.Structure{}, err
	}
	f, err := l.make(nil)
	if err != nil {
		return loss.Structure{}, err
	}
	return f.Structure(), nil
}

// make is the loss with weights of the observations, nil for none; l is not squared.
func (l Loss) make(weights []float64) (*loss.Pointwise, error) {
	k, err := l.kind()
	if err != nil {
		return nil, err
	}
	return k.New(weights, l.Parameter)
}

// of are the targets with the loss: SURE is not defined for other losses than the squared one.
func (t Targets) of(l Loss) Targets {
	if l.Squared() {
		return t
	}
	about := strings.Replace(t.Prediction, "the squared error", "the "+l.Name+" loss", 1)
	return Targets{Prediction: strings.TrimSuffix(about, ", noise included")}
}

// parseLoss reads the key loss: a name, or a mapping with the name and its parameter, {name: huber, delta: 1.5}.
func (s *Spec) parseLoss(n *yaml.Node) (err error) {
	name := n
	keys := []string{"name"}
	for _, k := range loss.Kinds() {
		if k.Parameter != nil {
			keys = append(keys, k.Parameter.Name)
		}
	}
	var nodes map[string]*yaml.Node
	if n.Kind == yaml.MappingNode {
		f, err := s.fields(n, "loss", keys...)
		if err != nil {
			return err
		}
		nodes = f.nodes
		if name = nodes["name"]; name == nil {
			return s.errorf(n.Line, "loss has no name, expected one of %s", strings.Join(loss.Names(), ", "))
		}
	}
	if s.Loss.Name, err = s.choice(name, "loss", loss.Names()); err != nil {
		return err
	}
	k, _ := s.Loss.kind()
	for _, key := range keys[1:] {
		v := nodes[key]
		switch own := k.Parameter != nil && k.Parameter.Name == key; {
		case own && v == nil:
			return s.errorf(n.Line, "the %s loss has no %s, expected loss: {name: %s, %s: NUMBER}, %s", k.Name, key,
				k.Name, key, k.Parameter.Unit)
		case v != nil && !own:
			return s.errorf(v.Line, "loss has the key %s, but the %s loss has no such parameter", key, k.Name)
		case own:
			if s.Loss.Parameter, err = s.number(v, key); err != nil {
				return err
			}
		}
	}
	return s.at(n.Line, s.Loss.Check())
}

// lossOf is that of the data, or else of the specification.
func (s *Spec) lossOf(data Data) Loss {
	if data.Loss.Name != "" {
		return data.Loss
	}
	return s.Loss
}

// checkY rejects y at which a loss is not defined, or is least at an infinite intercept.
func (l Loss) checkY(p *loss.Pointwise, data Data) error {
	if err := p.Structure().Check(data.Y); err != nil {
		return fmt.Errorf("array %w", err)
	}
	if !data.Intercept {
		return nil
	}
	least, most := data.Y[0], data.Y[0]
	for _, v := range data.Y {
		least, most = min(least, v), max(most, v)
	}
	if k, _ := l.kind(); k.Unbounded != nil && k.Unbounded(least, most) {
		return fmt.Errorf("array \"y\" is %g everywhere: the %s loss has no least intercept", most, l.Name)
	}
	return nil
}

// unpenalize puts an unpenalized column of ones beside the operator: [A 1], where the columns of A
// have been centered. Where they are those of a matrix, so is the result.
func (p *Problem) unpenalize() {
	d, n := p.Operator.Dims()
	p.constant = n
	var a linops.Operator
	if matrix := matrixOf(p.Operator, smallSparse); matrix != nil {
		with := mat.NewDense(d, n+1, nil)
		x := matrix()
		for i := range d {
			row := with.RawRowView(i)
			copy(row, x.RawRowView(i))
			row[n] = 1
		}
		dense := linops.NewDense(p.dev, with)
		p.own(dense.Release)
		a = dense
	} else {
		one := mat.NewDense(d, 1, slices.Repeat([]float64{1}, d))
		ones := linops.NewDense(p.dev, one)
		p.own(ones.Release)
		a = linops.HStack(p.Operator, ones)
	}
	p.Operator = a
}

// intercept is the penalty of its coordinate: none.
func intercept() *penalty {
	return &penalty{
		n: 1, factor: 1, free: true, unpenalized: []int{0},
		make: func(map[string]float64) (prox.Prox, error) { return prox.NewSquaredL2(0), nil },
	}
}

// slope is -l'(z; y) at the fit z by some columns of A alone, whose coordinates have no penalty; at 0
// where there are none.
func (m *maximizer) slope(columns []int) ([]float64, error) {
	p, dev := m.b.p, m.b.dev
	y, z := dev.Alloc(1, p.D), dev.Alloc(1, p.D)
	defer y.Free()
	defer z.Free()
	dev.Upload(y, m.y)
	dev.Fill(z, 0)
	if len(columns) > 0 {
		if err := m.fitBy(columns, z, y); err != nil {
			return nil, err
		}
	}
	p.loss.Gradient(z, z, y)
	out := z.ToHost()
	floats.Scale(-1, out)
	return out, dev.Err()
}

// fitBy sets z to the fit by some columns of A.
func (m *maximizer) fitBy(columns []int, z, y array.Batch) error {
	p, dev := m.b.p, m.b.dev
	on := space.Coordinates(dev, p.P+p.extra(), columns)
	defer on.Release()
	op, _ := linops.On(dev, p.Operator, on)
	defer op.Release()
	ctx := context.Background()
	solver, err := solve.New(ctx, "active-set", solve.Problem{A: op, Loss: p.loss, R: prox.NewSquaredL2(0),
		Device: dev}, solve.Options{Tol: 1e-12})
	if err != nil {
		return err
	}
	defer solver.Release()
	sol, err := solver.Solve(ctx, y, solve.From{})
	if err != nil {
		return err
	}
	defer sol.Release()
	if sol.Optimality > 1e-6 {
		return fmt.Errorf("the fit by the coordinates without a penalty has not converged; expected a number")
	}
	dev.Copy(z, sol.MuHat)
	return nil
}

// extra is the number of coordinates that the intercept has added.
func (p *Problem) extra() int {
	if p.constant > 0 {
		return 1
	}
	return 0
}
