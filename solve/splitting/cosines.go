package splitting

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"surepipe/array"
	"surepipe/linops/imaging"
	"surepipe/solve/engine"
)

// Where a cosine transform T diagonalizes K*K, A*A is replaced by M = T* diag(a) T, whose a is a function of K*K's
// eigenvalues: scanners and blurs are about the same in every direction. The system of an iteration,
//
//	(A*A + rho K*K) b = rhs,   is   (c M + rho K*K) b = rhs - (A*A - c M) b',
//
// at b' = b, and b' is an iterate before: it follows the iterates after some of them, which take no product with A.
// That comes to the same b, and b follows as long as A*A + rho K*K is less than twice c M + rho K*K in the
// directions in which the iterates move; else c is doubled. A change of b' is a step of conjugate gradients on the
// system, with c M + rho K*K as its preconditioner: where A counts for more than K, iterates wait for these.

// cosines is the transform and what it makes of both parts.
type cosines struct {
	t *imaging.DCT
	k []float64 // K*K's eigenvalues
	// a are M's, squares are K*K's again, and inverse one over these, 0 for 0.
	a, squares, inverse array.Batch
	seen                bool // A is not about 0 in any octave
	// null is the index of the one eigenvalue 0 of K*K, -1 where there is none; constant is its vector, scaled for a
	// mean square of A x of 1, and bent A*A times it. Both are zero where A maps it to 0.
	null           int
	constant, bent array.Batch
}

// octaves is the number of octaves of K*K's eigenvalues at most.
const octaves = 40

// cosinesSeed is that of the vectors with which A is tried: any constant.
const cosinesSeed = 0x636f73

// newCosines tries A on a random vector for every octave of K*K's eigenvalues; nil where a transform is not known.
func newCosines(ctx context.Context, s *Penalized) (*cosines, error) {
	spectrum, dev := s.k.Cosines, s.p.Device
	f := &cosines{k: spectrum.Values(), null: -1}
	n, top := len(f.k), 0.0
	for _, v := range f.k {
		top = math.Max(top, v)
	}
	octave := make([]int, n)
	for j, v := range f.k {
		octave[j] = int(math.Min(-math.Log2(v/top), octaves))
		if octave[j] == octaves {
			if f.null >= 0 {
				return nil, nil // K says nothing of several directions
			}
			f.null = j
		}
	}
	d, _ := s.p.A.Dims()
	f.t = imaging.NewDCT2D(spectrum.Shape.Rows, spectrum.Shape.Cols)
	f.t.Load(dev)
	x, t, z, rng := dev.Alloc(1, n), dev.Alloc(1, n), dev.Alloc(1, d), rand.New(rand.NewPCG(cosinesSeed, 0))
	defer array.Free(x, t, z)
	var at, size []float64 // logarithms of eigenvalues, from the top, and of ||A x||^2/||x||^2
	host := make([]float64, n)
	for o := range octaves + 1 {
		count, sum := 0.0, 0.0
		for j := range host {
			if host[j] = 0; octave[j] == o {
				host[j] = float64(2*rng.IntN(2) - 1)
				count++
				sum += math.Log(f.k[j])
			}
		}
		if count == 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			f.release()
			return nil, context.Cause(ctx)
		}
		dev.Upload(t, host)
		f.t.Adjoint(x, t)
		s.p.A.Forward(z, x)
		norm := engine.Norm(z)
		if o == octaves {
			f.onConstants(s, x, z, norm)
		}
		at, size = append(at, sum/count), append(size, math.Log(norm*norm/count))
	}
	f.interpolate(host, at, size)
	f.a, f.squares = dev.Put(slices.Clone(host), 1, n), dev.Put(f.k, 1, n)
	for j, v := range f.k {
		if host[j] = 0; j != f.null {
			host[j] = 1 / v
		}
	}
	f.inverse = dev.Put(host, 1, n)
	return f, dev.Err()
}

// onConstants keeps the vector that K maps to 0.
func (f *cosines) onConstants(s *Penalized, x, z array.Batch, norm float64) {
	if !(norm > 0) {
		return
	}
	dev := x.Device()
	f.constant, f.bent = dev.Alloc(1, x.N()), dev.Alloc(1, x.N())
	dev.Lin(f.constant, 1/norm, x, 0, array.Batch{})
	s.p.A.Adjoint(f.bent, z)
	dev.Lin(f.bent, 1/norm, f.bent, 0, array.Batch{})
}

// leastCosine bounds a below, relative to the largest, and from leastSeen on A sees an octave.
const leastCosine, leastSeen = 1e-6, 1e-4

// interpolate sets host to a, in logarithms linear between the eigenvalues at which it is known, which fall.
func (f *cosines) interpolate(host, at, size []float64) {
	most := math.Inf(-1)
	for _, v := range size {
		most = math.Max(most, v)
	}
	f.seen = slices.Min(size) > most+math.Log(leastSeen)
	for i := range size {
		size[i] = math.Max(size[i], most+math.Log(leastCosine))
	}
	for j, v := range f.k {
		i, x := 0, math.Log(v)
		for i+2 < len(at) && at[i+1] > x {
			i++
		}
		value := size[i]
		if i+1 < len(at) {
			if share := (at[i] - x) / (at[i] - at[i+1]); share > 0 {
				value += math.Min(share, 1) * (size[i+1] - size[i])
			}
		}
		host[j] = math.Exp(value)
	}
	if f.null >= 0 {
		host[f.null] = math.Exp(size[len(size)-1])
	}
}

func (f *cosines) release() {
	f.t.Release()
	array.Free(f.a, f.squares, f.inverse, f.constant, f.bent)
}

// scaled is one over the eigenvalues of c M + rho K*K.
func (s *Penalized) scaled(rho, c float64) (array.Batch, error) {
	return s.weighted([2]float64{rho, c}, func() []float64 {
		host := s.cosines.a.ToHost()
		for j, a := range host {
			host[j] = 1 / (c*a + rho*s.cosines.k[j])
		}
		return host
	})
}

func (s *Penalized) byCosines(rho float64) (func(dst, r array.Batch), error) {
	w, err := s.scaled(rho, 1)
	return func(dst, r array.Batch) {
		t := dst.Device().Alloc(r.K(), r.N())
		defer t.Free()
		s.cosines.t.Forward(t, r)
		dst.Device().Mul(t, t, w)
		s.cosines.t.Adjoint(dst, t)
	}, err
}

// move is a vector, its coefficients, and A*A times it.
type move struct{ b, coefficients, normal array.Batch }

func newMove(scratch []array.Batch) move { return move{scratch[0], scratch[1], scratch[2]} }

// add adds factor times another one to scale times m.
func (m move) add(scale, factor float64, other move) {
	dev := m.b.Device()
	dev.Lin(m.b, scale, m.b, factor, other.b)
	dev.Lin(m.coefficients, scale, m.coefficients, factor, other.coefficients)
	dev.Lin(m.normal, scale, m.normal, factor, other.normal)
}

// set makes m factor times another one.
func (m move) set(other move, factor float64) {
	dev := m.b.Device()
	dev.Lin(m.b, factor, other.b, 0, array.Batch{})
	dev.Lin(m.coefficients, factor, other.coefficients, 0, array.Batch{})
	dev.Lin(m.normal, factor, other.normal, 0, array.Batch{})
}

// follower is b', the way to it from the one before, and the c of c M.
type follower struct {
	at, last     move
	c            float64
	steps, since int // iterations, and those since b' changed
	moves        int // changes of b' since A*A b' was computed
}

// resolved is the way, relative to b, from which rounding errors do not decide on c.
const resolved = 1e-8

// b' changes after one in mostBehind of the iterations so far, and at most mostBehind of them. tooFar is the share of
// c M + rho K*K from which c is doubled.
const (
	mostBehind = 16
	tooFar     = 1.5
)

// follow is an iteration: it sets b to the solution of the system with b'.
func (s *Penalized) follow(b, rhs array.Batch, rho float64, f *follower) error {
	dev, t := b.Device(), s.cosines.t
	now, next := dev.Alloc(1, b.N()), dev.Alloc(1, b.N())
	defer array.Free(now, next)
	if f.steps == 0 {
		f.c, f.moves = 1, mostKept
		dev.Copy(f.at.b, b)
		t.Forward(f.at.coefficients, b)
	}
	if f.moves >= mostKept {
		f.moves = 0
		s.normal(f.at.normal, f.at.b)
	}
	w, err := s.scaled(rho, f.c)
	if err != nil {
		return err
	}
	dev.Lin(next, 1, rhs, -1, f.at.normal)
	t.Forward(now, next)
	dev.Mul(next, f.at.coefficients, s.cosines.a)
	dev.Lin(now, 1, now, f.c, next)
	dev.Mul(now, now, w)
	t.Adjoint(b, now)
	f.steps++
	if f.since++; f.since >= min(max(f.steps/mostBehind, 2), mostBehind) {
		f.since = 0
		s.advance(b, now, rho, f)
	}
	return dev.Err()
}

// advance moves b' to where the function that the system minimizes is least on the plane through b' along b - b' and
// the way before, as a step of conjugate gradients does, and b with it.
func (s *Penalized) advance(b, coefficients array.Batch, rho float64, f *follower) {
	dev := b.Device()
	d := move{dev.Alloc(1, b.N()), dev.Alloc(1, b.N()), dev.Alloc(1, b.N())}
	bent, penalty := dev.Alloc(1, b.N()), dev.Alloc(1, b.N())
	defer array.Free(d.b, d.coefficients, d.normal, bent, penalty)
	dev.Lin(d.b, 1, b, -1, f.at.b)
	dev.Lin(d.coefficients, 1, coefficients, -1, f.at.coefficients)
	s.normal(d.normal, d.b)
	// With the residual r of the system at b', (c M + rho K*K) (b - b') = r.
	dev.Mul(penalty, d.coefficients, s.cosines.squares)
	dev.Mul(bent, d.coefficients, s.cosines.a)
	dev.Lin(bent, f.c, bent, rho, penalty)
	slope := engine.Inner(d.coefficients, bent)
	curved := engine.Inner(d.b, d.normal) + rho*engine.Inner(d.coefficients, penalty)
	along, before := 1.0, 0.0
	if engine.Norm(d.b) > resolved*engine.Norm(b) {
		along = slope / curved
		if f.moves > 0 {
			mixed := engine.Inner(f.last.b, d.normal) + rho*engine.Inner(f.last.coefficients, penalty)
			slopeLast := engine.Inner(f.last.coefficients, bent)
			dev.Mul(penalty, f.last.coefficients, s.cosines.squares)
			curvedLast := engine.Inner(f.last.b, f.last.normal) + rho*engine.Inner(f.last.coefficients, penalty)
			if det := curved*curvedLast - mixed*mixed; det > leastPlane*curved*curvedLast {
				along, before = (slope*curvedLast-slopeLast*mixed)/det, (slopeLast*curved-slope*mixed)/det
			}
		}
		if curved > tooFar*slope {
			f.c *= 2
		}
	}
	if f.moves == 0 {
		f.last.set(d, along)
	} else {
		f.last.add(before, along, d)
	}
	f.at.add(1, 1, f.last)
	f.moves++
	dev.Copy(b, f.at.b)
}

// leastPlane is the square of the sine, in the norm of the system, from which two ways span a plane.
const leastPlane = 1e-8

func (s *Penalized) normal(dst, b array.Batch) {
	d, _ := s.p.A.Dims()
	z := b.Device().Alloc(1, d)
	defer z.Free()
	s.p.A.Forward(z, b)
	s.p.A.Adjoint(dst, z)
}

// feasible changes b by a multiple of the vector that K maps to 0, and u by as little as possible, until
//
//	A*(A b - y) + K* u = 0,
//
// which a duality gap asks for. aty is A* y.
func (s *Penalized) feasible(b, u, aty array.Batch) {
	f, dev := s.cosines, b.Device()
	e, t, ku := dev.Alloc(1, b.N()), dev.Alloc(1, b.N()), dev.Alloc(1, u.N())
	defer array.Free(e, t, ku)
	s.normal(e, b)
	dev.Lin(e, 1, e, -1, aty)
	s.p.K.Adjoint(t, u)
	dev.Lin(e, 1, e, 1, t)
	if !f.constant.IsZero() {
		along := e.Dot(f.constant)
		dev.Lin(b, 1, b, -along, f.constant)
		dev.Lin(e, 1, e, -along, f.bent)
	}
	f.t.Forward(t, e)
	dev.Mul(t, t, f.inverse)
	f.t.Adjoint(e, t)
	s.p.K.Forward(ku, e)
	dev.Lin(u, 1, u, -1, ku)
}
