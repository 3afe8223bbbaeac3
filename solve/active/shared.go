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
	users atomic.Int32
	all   allColumns // where they are few beside the rows
}

func (c *sharedColumns) Structure() linops.Structure { return linops.StructureOf(c.Restricted) }
func (c *sharedColumns) use() *sharedColumns         { c.users.Add(1); return c }

// Release frees them when the last user does.
func (c *sharedColumns) Release() {
	if c.users.Add(-1) == 0 {
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

// beginning is the residual, or the loss's slope, and the gradient at b.
type beginning struct{ y, b, z, g []float64 }

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
