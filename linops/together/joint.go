// Package together lets several problems with one operator take their products with it at once.
package together

import (
	"context"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/internal/product"
)

// Joint is an operator A that several problems share, such as those of several responses on one X. While they solve at
// once, in [Joint.Do], products A* z are computed when every problem that is left has asked for one, so that one
// product of matrices reads A once for all.
type Joint struct {
	a      linops.Operator
	lanes  chan struct{}
	known  []product.Known
	norms2 func() []float64 // of the columns; nil where they are not known
	shared map[any]any      // what solvers of all members keep

	mu   sync.Mutex
	done *sync.Cond // told of each round of products
	// live is how many members are in work, and asked how many of these wait.
	live, asked, round int
	slots              []*joining // what the members ask for, nil for nothing
}

// joining is what a member asks for: dst = A* z.
type joining struct {
	dst, z   array.Batch
	panicked any
}

// mostJoint is the number of vectors in one product.
const mostJoint = 64

// NewJoint shares A, which must outlive it.
func NewJoint(a linops.Operator) *Joint {
	j := &Joint{a: a, shared: map[any]any{}}
	if norms2 := linops.StructureOf(a).ColumnNorms2; norms2 != nil {
		j.norms2 = sync.OnceValue(norms2)
	}
	j.done = sync.NewCond(&j.mu)
	return j
}

// Member is A for one of the problems.
type Member struct {
	joint     *Joint
	structure linops.Structure
	number    int
	// in says that the problem is in work, together with others; waits that it has no lane meanwhile.
	in, waits bool
}

// Member is A for one more problem.
func (j *Joint) Member() *Member {
	m := &Member{joint: j}
	s := linops.StructureOf(j.a)
	if inner := s.Passes.Adjoint; inner != nil {
		s.Passes.Adjoint = func(ctx context.Context, dst, z array.Batch) error {
			if !j.recall(dst, z) && !m.ask(dst, z) {
				return inner(ctx, dst, z)
			}
			return ctx.Err()
		}
	}
	if j.norms2 != nil {
		s.ColumnNorms2 = func() []float64 { return slices.Clone(j.norms2()) }
	}
	s.Shared = j.share
	m.structure = s
	j.mu.Lock()
	defer j.mu.Unlock()
	m.number, j.slots = len(j.slots), append(j.slots, nil)
	return m
}

// share is [linops.Storage].Shared.
func (j *Joint) share(key any, make func() any) any {
	j.mu.Lock()
	defer j.mu.Unlock()
	kept, ok := j.shared[key]
	if !ok {
		kept = make()
		j.shared[key] = kept
	}
	return kept
}

func (m *Member) Structure() linops.Structure { return m.structure }
func (m *Member) Dims() (d, p int)            { return m.joint.a.Dims() }
func (m *Member) Forward(dst, b array.Batch)  { m.joint.a.Forward(dst, b) }

func (m *Member) Adjoint(dst, z array.Batch) {
	if !m.joint.recall(dst, z) && !m.ask(dst, z) {
		m.joint.a.Adjoint(dst, z)
	}
}

// mostKnown is the number of entries of products that are kept.
const mostKnown = 1 << 26

// Know computes A* z for each z, at once, where the products may be kept. Members that ask for one of them, or minus
// it, have it without a product. No problem may be in work.
func (j *Joint) Know(dev array.Device, all [][]float64) {
	d, p := j.a.Dims()
	if len(all)*p > mostKnown {
		return
	}
	for len(all) > 0 {
		some := all[:min(len(all), mostJoint)]
		all = all[len(some):]
		z, dst := dev.Alloc(len(some), d), dev.Alloc(len(some), p)
		for k, v := range some {
			dev.Upload(z.Rows(k, k+1), v)
		}
		j.a.Adjoint(dst, z)
		values := dst.ToHost()
		for k, v := range some {
			if of := values[k*p : (k+1)*p]; !floats.HasNaN(of) { // of a failed pass
				j.known = append(j.known, product.Known{Z: v, Product: of})
			}
		}
		array.Free(z, dst)
	}
}

// recall sets dst = A* z where that is known.
func (j *Joint) recall(dst, z array.Batch) bool {
	if z.K() != 1 || len(j.known) == 0 {
		return false
	}
	v := z.ToHost()
	return slices.ContainsFunc(j.known, func(k product.Known) bool { return k.Recall(dst, v) })
}

// Do calls each function on a goroutine of its own, as many at once as lanes, with products of the members taken
// together. A function that waits for the others leaves its lane to them. It returns when all have.
func (j *Joint) Do(lanes int, of []*Member, each func(k int)) {
	j.mu.Lock()
	j.lanes = make(chan struct{}, lanes)
	for _, m := range of {
		m.in = true
	}
	j.live, j.asked = len(of), 0
	j.mu.Unlock()
	var all sync.WaitGroup
	for k, m := range of {
		all.Go(func() {
			j.lanes <- struct{}{}
			defer func() {
				j.leave(m)
				<-j.lanes
			}()
			each(k)
		})
	}
	all.Wait()
}

// leave takes a member out: the others go on without it.
func (j *Joint) leave(m *Member) {
	j.mu.Lock()
	defer j.mu.Unlock()
	m.in = false
	if j.live--; j.live > 0 && j.asked == j.live {
		j.next()
	}
}

// ask computes a product together with those of the others. It returns false where the member is alone, or waits for
// another product already, as of another of its goroutines.
func (m *Member) ask(dst, z array.Batch) bool {
	j := m.joint
	j.mu.Lock()
	if !m.in || m.waits || z.K() >= mostJoint || dst.Device() != z.Device() {
		j.mu.Unlock()
		return false
	}
	r := &joining{dst: dst, z: z}
	m.waits, j.slots[m.number] = true, r
	if j.asked++; j.asked == j.live {
		j.next()
	} else {
		<-j.lanes
		for round := j.round; round == j.round; {
			j.done.Wait()
		}
		j.mu.Unlock()
		j.lanes <- struct{}{}
		j.mu.Lock()
	}
	m.waits = false
	j.mu.Unlock()
	if r.panicked != nil {
		panic(r.panicked)
	}
	return true
}

// next computes all that has been asked for, in the order of the members, as many vectors at once as are allowed.
func (j *Joint) next() {
	var all []*joining
	for k, r := range j.slots {
		if r != nil {
			all = append(all, r)
			j.slots[k] = nil
		}
	}
	j.asked = 0
	j.round++
	defer j.done.Broadcast()
	for len(all) > 0 {
		n, count := 0, 0
		for n < len(all) && (n == 0 || count+all[n].z.K() <= mostJoint) {
			count += all[n].z.K()
			n++
		}
		j.compute(all[:n], count)
		all = all[n:]
	}
}

// compute multiplies the count vectors of some members at once.
func (j *Joint) compute(some []*joining, count int) {
	defer func() {
		failed := recover()
		for _, r := range some {
			r.panicked = failed
		}
	}()
	if len(some) == 1 {
		j.a.Adjoint(some[0].dst, some[0].z)
		return
	}
	dev := some[0].z.Device()
	d, p := j.a.Dims()
	z, dst := dev.Alloc(count, d), dev.Alloc(count, p)
	defer array.Free(z, dst)
	at := 0
	for _, r := range some {
		dev.Copy(z.Rows(at, at+r.z.K()), r.z)
		at += r.z.K()
	}
	j.a.Adjoint(dst, z)
	at = 0
	for _, r := range some {
		dev.Copy(r.dst, dst.Rows(at, at+r.z.K()))
		at += r.z.K()
	}
}
