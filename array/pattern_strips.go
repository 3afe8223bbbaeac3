package array

import "sort"

// stripCuts divide the entries of all lines into strips by the other index: strip s has the entries cuts[s][i]
// to cuts[s+1][i]-1 of line i. The rows of the other factor that a strip reads stay in a processor's cache.
// Sums of rows have the same terms in the same order, rounded once in every strip.
type stripCuts [][]int32

// stripBytes is the size of the rows of the other factor that a strip reads, which is less than that of
// the second cache of current processors. A strip has at least stripEntries entries of a line on average.
var stripBytes = 1 << 20

const stripEntries = 8

func (a *adjacency) whole() stripCuts { return stripCuts{a.ptr[:len(a.ptr)-1], a.ptr[1:]} }

type stripKey struct {
	lines *adjacency
	count int
}

// cuts are the strips for products of one vector with factors of r columns. They are found once.
func (p *hostPattern) cuts(lines *adjacency, r int) stripCuts {
	n, others := len(lines.ptr)-1, p.rows
	if lines == &p.byRow {
		others = p.cols
	}
	count := min((8*r*others+stripBytes-1)/stripBytes, len(lines.other)/(stripEntries*max(n, 1)))
	if count < 2 {
		return lines.whole()
	}
	key := stripKey{lines, count}
	if c, ok := p.strips.Load(key); ok {
		return c.(stripCuts)
	}
	c := make(stripCuts, count+1)
	c[0], c[count] = lines.ptr[:n], lines.ptr[1:]
	for s := 1; s < count; s++ {
		first := int32(s * others / count)
		c[s] = make([]int32, n)
		for i := range n {
			line := lines.other[lines.ptr[i]:lines.ptr[i+1]]
			c[s][i] = lines.ptr[i] + int32(sort.Search(len(line), func(u int) bool { return line[u] >= first }))
		}
	}
	p.strips.Store(key, c)
	return c
}
