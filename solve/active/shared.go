package active

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/solve/engine"
	"surepipe/solve/restrict"
	"surepipe/space"
)

// sharedColumns are columns in memory, which the screening and points of solutions share.
type sharedColumns struct {
	linops.Restricted
	dev   array.Device
	set   space.Space
	users array.Users
	all   allColumns           // where they are few beside the rows
	spare atomic.Pointer[pool] // of a screening that has ended, for the next one with these columns
}

func (c *sharedColumns) Structure() linops.Structure { return linops.StructureOf(c.Restricted) }
func (c *sharedColumns) use() *sharedColumns         { c.users.Join(); return c }

// Release frees them when the last user does.
func (c *sharedColumns) Release() {
	if c.users.Leave() {
		c.lend().parts.Release()
		c.all.release()
		c.Restricted.Release()
		c.set.Release()
	}
}

// lastSets are the columns in memory that each family of solvers has chosen last, where it has begun last, and the Gram
// matrix of all columns where these are not in memory. All problems with the same A share them. The solvers hold them.
type lastSets struct {
	mu    sync.Mutex
	holds map[*engine.Family]int
	last  map[*engine.Family]*sharedColumns
	begun map[*engine.Family]beginning
	every allColumns
}

// beginning is the residual, or the loss's slope, and the gradient at b, with the lengths of the columns.
type beginning struct{ y, b, z, g, lengths []float64 }

// beginning is that at b, which is computed where the family has not begun there last: searches for a minimum start all
// their solves at one solution.
func (a *lastSets) beginning(family *engine.Family, y, b []float64, compute func(*beginning) error) (beginning, error) {
	a.mu.Lock()
	o, ok := a.begun[family]
	a.mu.Unlock()
	if ok && slices.Equal(o.b, b) && slices.Equal(o.y, y) {
		return o, nil
	}
	o = beginning{y: y, b: b}
	err := compute(&o)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil && a.holds[family] > 0 {
		a.begun[family] = o
	}
	return o, err
}

// keep makes columns the last ones of a family, nil for none.
func (a *lastSets) keep(family *engine.Family, c *sharedColumns) {
	if before := a.last[family]; before != nil {
		before.Release()
	}
	if delete(a.last, family); c != nil {
		a.last[family] = c.use()
	}
}

// around is the set of the columns in memory that a family has chosen last, where it holds what is needed, else the set
// that is given.
func (a *lastSets) around(dev array.Device, family *engine.Family, set, needed []int) []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.last[family]
	if c == nil || c.dev != dev {
		return set
	}
	if last := c.set.Form().Set; len(restrict.Union(last, needed)) == len(last) {
		return last
	}
	return set
}

// columns are those of a set, which are read where no family has them. Who asks for all of the columns waits for
// another that reads them.
func (a *lastSets) columns(dev array.Device, family *engine.Family, set space.Space, all bool,
	read func() (*sharedColumns, error)) (*sharedColumns, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.last {
		if c.dev == dev && slices.Equal(c.set.Form().Set, set.Form().Set) {
			set.Release()
			c.use()
			a.keep(family, c)
			return c, nil
		}
	}
	a.keep(family, nil)
	if locked := read; !all {
		read = func() (*sharedColumns, error) {
			a.mu.Unlock()
			defer a.mu.Lock()
			return locked()
		}
	}
	c, err := read()
	if err == nil && dev.Err() == nil && a.holds[family] > 0 {
		a.keep(family, c)
	}
	return c, err
}

func (a *lastSets) hold(family *engine.Family) *lastSets {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.holds == nil {
		a.holds, a.last = map[*engine.Family]int{}, map[*engine.Family]*sharedColumns{}
		a.begun = map[*engine.Family]beginning{}
	}
	if a.holds[family]++; len(a.holds) == 1 && a.holds[family] == 1 {
		a.every.hold()
	}
	return a
}

func (a *lastSets) release(family *engine.Family) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.holds[family]--; a.holds[family] > 0 {
		return
	}
	a.keep(family, nil)
	delete(a.begun, family)
	if delete(a.holds, family); len(a.holds) == 0 {
		a.every.release()
	}
}

// Held is A in memory, where it is read from a store and so many problems share it that the columns which each of them
// would hold are as many as A's; nil where all columns, with a copy, do not fit into the bytes.
func Held(ctx context.Context, dev array.Device, a linops.Operator, problems int, bytes int64) (linops.Restricted,
	error) {
	passes := linops.StructureOf(a).Passes
	d, p := a.Dims()
	if passes.Bytes == 0 || problems < 2 || problems*leastColumns < p {
		return nil, nil
	}
	for j := range p {
		bytes -= 2 * passes.ColumnBytes(j)
	}
	if bytes < 0 {
		return nil, nil
	}
	all := space.Coordinates(dev, p, lists.Upto(p))
	defer all.Release()
	columns, err := passes.Columns(ctx, dev, all)
	if err != nil {
		return nil, err
	}
	stored := linops.StructureOf(columns).Stored
	if stored.K() != d { // a sparse one
		return columns, nil
	}
	defer columns.Release()
	return linops.NewDense(dev, mat.NewDense(d, p, stored.ToHost())), nil
}

// pool are columns with their Gram matrix, which workspaces that are used one after the other share.
type pool struct {
	parts restrict.Parts
	place []int       // of coordinates, -1 for columns that it does not have
	gram  [][]float64 // row i: the products with the columns up to i
}

// lend is the pool of the screening that has ended, or a new one.
func (c *sharedColumns) lend() *pool {
	if p := c.spare.Swap(nil); p != nil {
		return p
	}
	return &pool{place: slices.Repeat([]int{-1}, c.set.Dim())}
}

// giveBack takes a pool from the workspaces that have used it.
func (c *sharedColumns) giveBack(p *pool) {
	kept := *p
	if *p = (pool{}); !c.spare.CompareAndSwap(nil, &kept) {
		kept.parts.Release()
	}
}

// join is [restrict.Parts.Join], for a set of coordinates whose products with those of a working set are handed out; of
// several outcomes the first have places.
func (p *pool) join(ctx context.Context, dev array.Device, a linops.Operator, set, working, place []int, outcomes int,
	entry func(i, j int, v float64)) error {
	var missing []int
	for i := 0; i < len(set); i += outcomes {
		if k := set[i]; p.place[k] < 0 {
			missing = append(missing, set[i:i+outcomes]...)
			p.place[k] = len(p.gram)
			p.gram = append(p.gram, make([]float64, len(p.gram)+1))
		}
	}
	if len(missing) > 0 {
		err := p.parts.Join(ctx, dev, a, missing, p.place, outcomes, func(i, j int, v float64) {
			p.gram[i][j] = v
		})
		if err != nil {
			return err
		}
	}
	for s := 0; s < len(set); s += outcomes {
		i := p.place[set[s]]
		for t := 0; t < len(working); t += outcomes {
			j := p.place[working[t]]
			entry(place[set[s]], place[working[t]], p.gram[max(i, j)][min(i, j)])
		}
	}
	return nil
}
