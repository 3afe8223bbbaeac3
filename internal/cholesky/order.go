package cholesky

import (
	"math"
	"slices"
	"sync/atomic"

	"surepipe/internal/parallel"
)

// leaf is the number of nodes of the matrix below which a part is not divided any more.
const leaf = 48

// dissection orders the nodes of a graph so that separators come after what they separate.
type dissection struct {
	ptr   []int64
	index []int32
	part  []int32      // of each node: the part that it is in now
	level []int32      // of each node, from the search that saw it last; -1 before
	last  atomic.Int32 // of the numbers of parts
	order []int32      // the node at each place
	leaf  int
}

// piece are nodes whose places in the order begin at at.
type piece struct {
	nodes []int32
	at    int
}

// shares is the number of pieces that goroutines share: they have no neighbours in each other.
const shares = 16

// by orders the nodes of a graph so that a factor has few entries; parts of up to leaf nodes need not be divided.
type by func(ptr []int64, index []int32, leaf int) []int32

// orderBy orders the nodes of a graph by a function for those that are left where nodes with the same neighbours are
// taken together, in blocks. The neighbours of node j are index[ptr[j]:ptr[j+1]]; j itself may be among them.
func orderBy(nodes by, ptr []int64, index []int32) (order []int32, block int) {
	n := len(ptr) - 1
	if first, after, groups := alike(ptr, index); 4*groups < 3*n {
		return orderGroups(nodes, ptr, index, first, after, groups)
	}
	return nodes(ptr, index, leaf), 1
}

// inRanges orders ranges of the nodes, each by levels towards a node that is far from the others (Cuthill and McKee
// 1969). Of neighbours in two ranges the one with more neighbours, or else the first, comes after all ranges.
func inRanges(ptr []int64, index []int32, _ int) []int32 {
	n := len(ptr) - 1
	d := &dissection{ptr: ptr, index: index, part: make([]int32, n), level: make([]int32, n)}
	degree := func(v int32) int64 { return ptr[v+1] - ptr[v] }
	between := make([]bool, n)
	for v := range int32(n) {
		for _, w := range index[ptr[v]:ptr[v+1]] {
			if w < v || int(v)*shares/n == int(w)*shares/n || between[v] || between[w] {
				continue
			}
			if degree(w) > degree(v) {
				between[w] = true
			} else {
				between[v] = true
			}
		}
	}
	ranges, last := make([][]int32, shares), []int32(nil)
	for v := range int32(n) {
		if r := int(v) * shares / n; between[v] {
			last = append(last, v)
		} else {
			ranges[r] = append(ranges[r], v)
		}
	}
	parallel.For(shares, func(r int) {
		for rest := ranges[r]; len(rest) > 0; {
			reached := d.reach(rest)
			copy(rest, d.search(rest[:reached], rest[reached-1]))
			slices.Reverse(rest[:reached])
			rest = rest[reached:]
		}
	})
	return append(slices.Concat(ranges...), last...)
}

// alike finds groups of nodes with the same neighbours, themselves included, such as the channels of a pixel: an
// order of the groups is one of the nodes (Ashcraft, Compressed graphs and the minimum degree algorithm, 1995). It
// returns the first node of each one's group, and the next one in it, -1 for none.
func alike(ptr []int64, index []int32) (first, after []int32, groups int) {
	n := len(ptr) - 1
	sum, degree := make([]uint64, n), make([]int32, n)
	hash := func(v int32) uint64 { return (uint64(v) + 1) * 0x9e3779b97f4a7c15 >> 16 }
	parallel.Ranges(n, parallel.Share, func(lo, hi int) {
		for v := lo; v < hi; v++ {
			sum[v] = hash(int32(v))
			for _, w := range index[ptr[v]:ptr[v+1]] {
				if int(w) != v {
					sum[v] += hash(w)
					degree[v]++
				}
			}
		}
	})
	first, after = make([]int32, n), make([]int32, n)
	mark := make([]int32, n)
	for v := range n {
		first[v], after[v], mark[v] = -1, -1, -1
	}
	for v := range n {
		if first[v] >= 0 {
			continue
		}
		groups++
		first[v] = int32(v)
		last := int32(v)
		neighbours := index[ptr[v]:ptr[v+1]]
		for _, w := range neighbours {
			if first[w] >= 0 || sum[w] != sum[v] || degree[w] != degree[v] {
				continue
			}
			if mark[v] != int32(v) {
				mark[v] = int32(v)
				for _, u := range neighbours {
					mark[u] = int32(v)
				}
			}
			if !slices.ContainsFunc(index[ptr[w]:ptr[w+1]], func(u int32) bool { return mark[u] != int32(v) }) {
				first[w], after[last] = int32(v), w
				last = w
			}
		}
	}
	return first, after, groups
}

// orderGroups orders groups of nodes as the nodes of a smaller graph. The size of a block divides that of every group.
func orderGroups(nodes by, ptr []int64, index, first, after []int32, groups int) (order []int32, block int) {
	n := len(ptr) - 1
	number, heads := make([]int32, n), make([]int32, 0, groups)
	for v := range n {
		if first[v] == int32(v) {
			number[v] = int32(len(heads))
			heads = append(heads, int32(v))
		}
	}
	fewer, between := make([]int64, 1, groups+1), make([]int32, 0, len(index)*groups/n)
	for _, v := range heads {
		for _, w := range index[ptr[v]:ptr[v+1]] {
			if first[w] == w {
				between = append(between, number[w])
			}
		}
		fewer = append(fewer, int64(len(between)))
	}
	order = make([]int32, 0, n)
	for _, g := range nodes(fewer, between, max(leaf*groups/n, 1)) {
		from := len(order)
		for v := heads[g]; v >= 0; v = after[v] {
			order = append(order, v)
		}
		for size := len(order) - from; size > 0; {
			block, size = size, block%size
		}
	}
	return order, block
}

// orderNodes orders by nested dissection.
func orderNodes(ptr []int64, index []int32, leaf int) []int32 {
	n := len(ptr) - 1
	d := &dissection{ptr: ptr, index: index, part: make([]int32, n), level: make([]int32, n), order: make([]int32, n),
		leaf: leaf}
	nodes := d.withoutHubs()
	for todo := []piece{{nodes, 0}}; len(todo) > 0; {
		more := make([][]piece, len(todo))
		parallel.For(len(todo), func(i int) { more[i] = d.divide(todo[i]) })
		todo = slices.Concat(more...)
	}
	return d.order
}

// A hub is a node with more than hubs times the mean number of neighbours, such as the pixels of a flat region taken
// together. It makes near what else is far, and separators wide. Up to mostHubs sqrt(n) hubs come last, about as many
// as the nodes of a separator of a grid, and the others are ordered without them.
const (
	hubs     = 3
	mostHubs = 2
)

// withoutHubs places the hubs, and returns the other nodes.
func (d *dissection) withoutHubs() []int32 {
	n := len(d.order)
	nodes, last := make([]int32, 0, n), []int32(nil)
	degree := func(v int32) int { return int(d.ptr[v+1] - d.ptr[v]) }
	for v := range int32(n) {
		if degree(v)*n > hubs*len(d.index) {
			last = append(last, v)
		} else {
			nodes = append(nodes, v)
		}
	}
	slices.SortStableFunc(last, func(v, w int32) int { return degree(v) - degree(w) })
	if more := len(last) - int(mostHubs*math.Sqrt(float64(n))); more > 0 {
		nodes, last = append(nodes, last[:more]...), last[more:]
	}
	copy(d.order[len(nodes):], last)
	return nodes
}

// divide orders a piece but for those of its parts that are large, which it returns.
func (d *dissection) divide(p piece) (large []piece) {
	for todo := []piece{p}; len(todo) > 0; {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for rest := p.nodes; len(rest) > 0; {
			// The nodes that a search reaches come first; the others follow.
			reached := d.reach(rest)
			comp := rest[:reached]
			at := p.at
			p.at += reached
			rest = rest[reached:]
			left, right := d.split(comp)
			if right == 0 {
				copy(d.order[at:], comp)
				continue
			}
			copy(d.order[at+left+right:], comp[left+right:])
			for _, q := range []piece{{comp[:left], at}, {comp[left : left+right], at + left}} {
				if shares*len(q.nodes) > len(d.order) {
					large = append(large, q)
				} else {
					todo = append(todo, q)
				}
			}
		}
	}
	return large
}

// reach moves the nodes of the component of the first one to the front, in the order of a search, and
// returns their number.
func (d *dissection) reach(nodes []int32) int {
	found := d.search(nodes, nodes[0])
	if len(found) < len(nodes) {
		rest := make([]int32, 0, len(nodes)-len(found))
		for _, v := range nodes {
			if d.level[v] < 0 {
				rest = append(rest, v)
			}
		}
		copy(nodes[len(found):], rest)
	}
	copy(nodes, found)
	return len(found)
}

// search makes nodes a part, and lists those that are reached from a node, level by level.
func (d *dissection) search(nodes []int32, from int32) []int32 {
	part := d.last.Add(1)
	for _, v := range nodes {
		d.part[v], d.level[v] = part, -1
	}
	list := append(make([]int32, 0, len(nodes)), from)
	d.level[from] = 0
	for i := 0; i < len(list); i++ {
		v := list[i]
		for _, w := range d.index[d.ptr[v]:d.ptr[v+1]] {
			if d.part[w] == part && d.level[w] < 0 {
				d.level[w] = d.level[v] + 1
				list = append(list, w)
			}
		}
	}
	return list
}

// split reorders a connected part, listed in the order of a search, into left and right parts that are
// not neighbours, and a separator after them. It returns the sizes of the two; right is 0 where the
// part is not divided.
func (d *dissection) split(nodes []int32) (left, right int) {
	n := len(nodes)
	if n <= d.leaf {
		return n, 0
	}
	// From a node that is far from all others the levels are narrow: the last one is far from the first.
	copy(nodes, d.search(nodes, nodes[n-1]))
	last := int(d.level[nodes[n-1]])
	if last < 2 {
		return n, 0
	}
	ends := make([]int, last+2) // level l is nodes[ends[l]:ends[l+1]]
	for _, v := range nodes {
		ends[d.level[v]+1]++
	}
	for l := range last + 1 {
		ends[l+1] += ends[l]
	}
	best, width := 0, n+1
	for l := 1; l < last; l++ {
		if w := ends[l+1] - ends[l]; ends[l] >= n*35/100 && n-ends[l+1] >= n*35/100 && w < width {
			best, width = l, w
		}
	}
	if best == 0 {
		for l := 1; l < last; l++ {
			if best = l; ends[l+1] >= n/2 {
				break
			}
		}
	}
	out := make([]int32, 0, n)
	var middle []int32
	out = append(out, nodes[:ends[best]]...)
	for _, v := range nodes[ends[best]:ends[best+1]] {
		touches := false
		for _, w := range d.index[d.ptr[v]:d.ptr[v+1]] {
			if d.part[w] == d.part[v] && d.level[w] == int32(best)+1 {
				touches = true
				break
			}
		}
		if touches {
			middle = append(middle, v)
		} else {
			out = append(out, v)
		}
	}
	left = len(out)
	out = append(out, nodes[ends[best+1]:]...)
	right = len(out) - left
	copy(nodes, append(out, middle...))
	return left, right
}
