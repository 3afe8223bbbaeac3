package arraytest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"surepipe/array"
)

// A method is an operation whose result for vector i must depend on vector i of
// its one batched operand alone; it returns the k vectors of the result.
type method struct {
	name string
	n    int
	do   func(x array.Batch) array.Batch
}

// methods lists the operations on batches, with other operands fixed, and a
// function that frees these.
func methods(dev array.Device) ([]method, func()) {
	rng := rand.New(rand.NewPCG(8, 0))
	var list []method
	var frees []func()
	fixed := func(k, n int) array.Batch {
		b := put(dev, newTable(rng, k, n), packed)
		frees = append(frees, b.free)
		return b.Batch
	}
	add := func(name string, n, out int, do func(dst, x array.Batch)) {
		list = append(list, method{name, n, func(x array.Batch) array.Batch {
			dst := dev.Alloc(x.K(), out)
			dev.Fill(dst, math.NaN())
			do(dst, x)
			return dst
		}})
	}
	numbers := func(name string, n int, do func(out []float64, x array.Batch)) {
		add(name, n, 1, func(dst, x array.Batch) {
			out := make([]float64, x.K())
			do(out, x)
			dev.Upload(dst, out)
		})
	}
	const n = 5003
	w := fixed(1, n)
	add("Lin", n, n, func(dst, x array.Batch) { dev.Lin(dst, 0.3, x, 0.7, w) })
	add("Soft", n, n, func(dst, x array.Batch) { dev.Soft(dst, x, none, 0.3) })
	numbers("Dot", n, func(out []float64, x array.Batch) { dev.Dot(out, x, x) })
	numbers("Dot with one vector", n, func(out []float64, x array.Batch) { dev.Dot(out, w, x) })
	numbers("Dot of short vectors", 37, func(out []float64, x array.Batch) { dev.Dot(out, x, x) })
	sizes := [][2]int{{1, 1}, {5, 3}, {17, 200}, {200, 17}, {63, 64}, {513, 770}}
	// BLAS kernels have many edge cases, and this list does not cover them all.
	for range 12 {
		sizes = append(sizes, [2]int{1 + rng.IntN(200), 1 + rng.IntN(200)})
	}
	for _, size := range sizes {
		inner, cols := size[0], size[1]
		a, at := fixed(inner, cols), fixed(cols, inner)
		name := fmt.Sprintf("Gemm %d to %d", inner, cols)
		add(name, inner, cols, func(dst, x array.Batch) { dev.Gemm(false, false, 1.1, x, a, 0, dst) })
		add(name+", B transposed", inner, cols, func(dst, x array.Batch) { dev.Gemm(false, true, 1.1, x, at, 0, dst) })
		add(name+", added", inner, cols, func(dst, x array.Batch) {
			dev.Fill(dst, 0.1)
			dev.Gemm(false, false, 1.1, x, a, 0.7, dst)
		})
	}
	eachMethods(dev, fixed, add)
	indptr, indices, values, _ := randomCSR(rng, 300, 70)
	m := dev.NewCSR(300, 70, indptr, indices, values)
	frees = append(frees, m.Free)
	add("MulCSR", 70, 300, func(dst, x array.Batch) { dev.MulCSR(dst, m, x) })
	const rows, cols, r = 30, 23, 6
	p := dev.NewPattern(rows, cols, randomPlaces(rng, rows, cols, 0.5))
	frees = append(frees, p.Free)
	u, v := fixed(1, rows*r), fixed(1, cols*r)
	add("SampleProduct, second shared", rows*r, p.Len(),
		func(dst, x array.Batch) { dev.SampleProduct(dst, p, 1, x, v, 0) })
	add("SampleProduct, first shared", cols*r, p.Len(),
		func(dst, x array.Batch) { dev.SampleProduct(dst, p, 1, u, x, 0) })
	add("SpreadProduct", p.Len(), rows*r, func(dst, x array.Batch) { dev.SpreadProduct(false, 1, p, x, v, 0, dst) })
	add("SpreadProduct, transposed", p.Len(), cols*r,
		func(dst, x array.Batch) { dev.SpreadProduct(true, 1, p, x, u, 0, dst) })
	frees = append(frees, blockMethods(dev, rng, add), transformMethods(dev, add))
	return list, func() {
		for _, f := range frees {
			f()
		}
	}
}

// eachMethods are products of matrices of which each vector is one.
func eachMethods(dev array.Device, fixed func(k, n int) array.Batch,
	add func(name string, n, out int, do func(dst, x array.Batch))) {
	for _, size := range [][3]int{{2, 3, 4}, {20, 30, 10}, {100, 7, 90}} {
		sa, sb := array.Shape{Rows: size[0], Cols: size[1]}, array.Shape{Rows: size[1], Cols: size[2]}
		b := fixed(1, sb.Len())
		name := fmt.Sprintf("GemmEach %v", size)
		add(name, sa.Len(), sa.Rows*sb.Cols,
			func(dst, x array.Batch) { dev.GemmEach(false, false, 1, x, sa, b, sb, 0, dst) })
		add(name+", transposed", sa.Len(), sa.Rows*sb.Cols, func(dst, x array.Batch) {
			dev.GemmEach(true, false, 1, x, sa.T(), b, sb, 0, dst)
		})
		a := fixed(1, sa.Len())
		add(name+", from the left", sb.Len(), sa.Rows*sb.Cols,
			func(dst, x array.Batch) { dev.GemmEach(false, false, 1, a, sa, x, sb, 0, dst) })
	}
}

// batchSizes holds two, the sizes about register tiles, a third of Hutch++'s
// queries and, as the whole, all of them.
var batchSizes = []int{2, 3, 8, 24, 25, 34, 35, 37, 73, 101}

const allVectors = 102

func batchIndependence(dev array.Device) error {
	rng := rand.New(rand.NewPCG(9, 0))
	list, free := methods(dev)
	defer free()
	for _, m := range list {
		all := newTable(rng, allVectors, m.n)
		// Vectors on two sides of the whole that are equal must give equal results.
		copy(all.v[(allVectors-1)*m.n:], all.v[:m.n])
		whole := put(dev, all, packed)
		y := m.do(whole.Batch)
		out := y.N()
		want := y.ToHost()
		y.Free()
		if !bits(want[:out], want[(allVectors-1)*out:]) {
			return fmt.Errorf("%s: the first and the last vector of %s are equal, their results are not", m.name,
				whole.Batch)
		}
		for _, k := range batchSizes {
			for _, i := range []int{0, 1, allVectors - k - 1 - rng.IntN(allVectors-k), allVectors - k} {
				i = max(i, 0)
				y := m.do(whole.Rows(i, i+k))
				got := y.ToHost()
				y.Free()
				if !bits(got, want[i*out:(i+k)*out]) {
					return fmt.Errorf("%s: vectors %d to %d have different bits on their own and in a batch of %d",
						m.name, i, i+k-1, allVectors)
				}
			}
		}
		whole.free()
	}
	return nil
}

func concurrency(dev array.Device) error {
	list, free := methods(dev)
	defer free()
	rng := rand.New(rand.NewPCG(10, 0))
	const callers, k = 6, 9
	errs := make([]error, callers)
	inputs, want := make([]held, len(list)), make([][]float64, len(list))
	for i, m := range list {
		inputs[i] = put(dev, newTable(rng, k, m.n), framed)
		y := m.do(inputs[i].Batch)
		want[i] = y.ToHost()
		y.Free()
	}
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for step := range 2 * len(list) {
				i := (step*(c+1) + c) % len(list)
				y := list[i].do(inputs[i].Batch)
				if !bits(y.ToHost(), want[i]) {
					errs[c] = fmt.Errorf("%s on %s gives different bits with %d concurrent callers", list[i].name,
						inputs[i].Batch, callers-1)
				}
				y.Free()
			}
		})
	}
	wg.Wait()
	for i := range inputs {
		inputs[i].free()
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// A mismatch is a call that must panic with a text that mentions all parts.
type mismatch struct {
	name  string
	parts []string
	do    func()
}

// allPanic checks that each case panics with a text that mentions all of its parts.
func allPanic(cases []mismatch) error {
	for _, c := range cases {
		text := panics(c.do)
		if text == "" {
			return fmt.Errorf("%s does not panic", c.name)
		}
		if !mentions(text, c.parts...) {
			return fmt.Errorf("%s panics with %q, which does not mention all of %q", c.name, text, c.parts)
		}
	}
	return nil
}

func mismatches(dev array.Device) error {
	a, b, one := dev.Alloc(3, 5), dev.Alloc(4, 5), dev.Alloc(1, 6)
	places := dev.NewPattern(2, 5, []int{0, 7, 4})
	defer places.Free()
	idx, m := dev.NewIndex([]int{0, 4}), dev.NewCSR(2, 5, []int{0, 1, 2}, []int{0, 4}, []float64{1, 1})
	far := dev.NewIndex([]int{5})
	along, four := dev.NewBlocks([]int{3}, []int{2}), dev.Alloc(1, 4)
	defer along.Free()
	pair, single := dev.Alloc(3, 2), dev.Alloc(3, 1)
	sa, sb := array.Shape{Rows: 5, Cols: 1}, array.Shape{Rows: 2, Cols: 1}
	cases := []mismatch{
		{"Upload", []string{"3 x 5", "14"}, func() { dev.Upload(a, make([]float64, 14)) }},
		{"Download", []string{"3 x 5", "16"}, func() { dev.Download(make([]float64, 16), a) }},
		{"Copy", []string{"3 x 5", "4 x 5"}, func() { dev.Copy(a, b) }},
		{"Lin", []string{"3 x 5", "4 x 5"}, func() { dev.Lin(a, 1, a, 1, b) }},
		{"Lin of another length", []string{"3 x 5", "1 x 6"}, func() { dev.Lin(a, 1, one, 1, a) }},
		{"LinEach", []string{"3 x 5", "4 x 5"},
			func() { dev.LinEach(a, make([]float64, 3), b, make([]float64, 3), a) }},
		{"LinEach's coefficients", []string{"3 x 5", "2"},
			func() { dev.LinEach(a, make([]float64, 2), a, make([]float64, 3), a) }},
		{"Mul", []string{"3 x 5", "1 x 6"}, func() { dev.Mul(a, a, one) }},
		{"Dot", []string{"3 x 5", "4 x 5"}, func() { dev.Dot(make([]float64, 3), a, b) }},
		{"MaxAbs", []string{"3 x 5", "4"}, func() { dev.MaxAbs(make([]float64, 4), a) }},
		{"Soft", []string{"3 x 5", "4 x 5"}, func() { dev.Soft(a, b, none, 1) }},
		{"Soft's weights", []string{"3 x 5", "1 x 6"}, func() { dev.Soft(a, a, one, 1) }},
		{"SoftMask", []string{"3 x 5", "4 x 5"}, func() { dev.SoftMask(a, b, none, 1) }},
		{"Clamp", []string{"3 x 5", "4 x 5"}, func() { dev.Clamp(a, a, a, b) }},
		{"ClampMask", []string{"3 x 5", "4 x 5"}, func() { dev.ClampMask(a, a, b, a) }},
		{"Shrink", []string{"3 x 5", "1 x 6"}, func() { dev.Shrink(a, one, none, 1) }},
		{"ShrinkSlope", []string{"3 x 5", "1 x 6"}, func() { dev.ShrinkSlope(a, a, one, 1) }},
		{"Gemm", []string{"3 x 5", "4 x 5", "3 x 2"}, func() { dev.Gemm(false, false, 1, a, b, 0, pair) }},
		{"Gemm's result", []string{"3 x 5", "4 x 5", "3 x 2"}, func() { dev.Gemm(false, true, 1, a, b, 0, pair) }},
		{"GemmEach", []string{"3 x 5", "3 x 2", "3 x 1"},
			func() { dev.GemmEach(true, false, 1, a, sa, pair, sb, 0, single) }},
		{"Gather", []string{"3 x 5", "3 x 1", "2"}, func() { dev.Gather(single, a, idx) }},
		{"Scatter", []string{"3 x 5", "3 x 1", "2"}, func() { dev.Scatter(a, single, idx) }},
		{"Gather beyond the end", []string{"3 x 5", "3 x 1", "5"}, func() { dev.Gather(single, a, far) }},
		{"Scatter beyond the end", []string{"3 x 5", "3 x 1", "5"}, func() { dev.Scatter(a, single, far) }},
		{"MulCSR", []string{"2 x 5", "3 x 5", "3 x 1"}, func() { dev.MulCSR(single, m, a) }},
		{"NewCSR", []string{"2 x 5"}, func() { dev.NewCSR(2, 5, []int{0, 1}, []int{0}, []float64{1}) }},
		{"NewCSR with a column too many", []string{"5"},
			func() { dev.NewCSR(1, 5, []int{0, 1}, []int{5}, []float64{1}) }},
		{"NewCSR with rows that go back", []string{"1", "2"},
			func() { dev.NewCSR(2, 5, []int{0, 2, 1}, []int{0}, []float64{1}) }},
		{"SampleProduct", []string{"3 x 5", "3 x 2", "3 x 1", "2 x 5"},
			func() { dev.SampleProduct(single, places, 1, a, pair, 0) }},
		{"SpreadProduct", []string{"3 x 5", "3 x 2", "3 x 1", "2 x 5"},
			func() { dev.SpreadProduct(false, 1, places, single, a, 0, pair) }},
		{"MulBlocks beyond the end", []string{"3 x 5", "3 x 1", "1 x 4", "5"},
			func() { dev.MulBlocks(single, along, four, a) }},
		{"MulBlocks' values", []string{"3 x 5", "1 x 6", "4"}, func() { dev.MulBlocks(a, along, one, a) }},
		{"NewBlocks that overlap", []string{"1", "2", "3"}, func() { dev.NewBlocks([]int{0, 2}, []int{3, 2}) }},
		{"NewPattern with a place too many", []string{"10", "9"}, func() { dev.NewPattern(2, 5, []int{10}) }},
		{"NewIndex of a negative coordinate", []string{"-1"}, func() { dev.NewIndex([]int{-1}) }},
		{"Rows", []string{"3 x 5", "2", "4"}, func() { a.Rows(2, 4) }},
		{"Cols", []string{"3 x 5", "4", "6"}, func() { a.Cols(4, 6) }},
		{"Reshape", []string{"3 x 5", "4 x 4"}, func() { a.Reshape(4, 4) }},
		{"Reshape of a view", []string{"3 x 2", "2 x 3"}, func() { a.Cols(0, 2).Reshape(2, 3) }},
		{"Alloc of a negative number", []string{"-1 x 5"}, func() { dev.Alloc(-1, 5) }},
		{"Alloc beyond all memory", []string{fmt.Sprintf("%d x %d", math.MaxInt/2, 5)},
			func() { dev.Alloc(math.MaxInt/2, 5) }},
		{"Copy of nothing", nil, func() { dev.Copy(a, array.Batch{}) }},
	}
	if big := int64(math.MaxInt32) + 1; int64(int(big)) == big {
		cases = append(cases, mismatch{"NewIndex beyond an int32", []string{fmt.Sprint(big)},
			func() { dev.NewIndex([]int{int(big)}) }})
	}
	more, free := transformMismatches(dev, a, pair, single)
	defer free()
	if err := allPanic(append(cases, more...)); err != nil {
		return err
	}
	for _, x := range []array.Batch{a, b, one, four, pair, single} {
		x.Free()
	}
	idx.Free()
	far.Free()
	m.Free()
	return dev.Err()
}

func memory(dev array.Device) error {
	before := dev.Stats()
	a := dev.Alloc(34, 1000)
	if a.K() != 34 || a.N() != 1000 || a.Stride() != 1000 || a.Offset() != 0 || a.Device() != dev ||
		!a.Contiguous() || a.Bytes() != 272000 {
		return fmt.Errorf("Alloc(34, 1000) gives %s, stride %d, offset %d", a, a.Stride(), a.Offset())
	}
	during := dev.Stats()
	if during.Live != before.Live+1 || during.LiveBytes < before.LiveBytes+a.Bytes() ||
		during.PeakBytes < during.LiveBytes {
		return fmt.Errorf("before Alloc of 272000 bytes Stats is %+v, after it %+v", before, during)
	}
	a.Free()
	if text := panics(a.Free); text == "" {
		return fmt.Errorf("a second Free of %s does not panic", a)
	}
	array.Batch{}.Free()
	idx, m := dev.NewIndex(make([]int, 1000)), dev.NewCSR(1, 1, []int{0, 1000}, make([]int, 1000),
		make([]float64, 1000))
	if now := dev.Stats(); idx.Bytes() <= 0 || m.Bytes() <= 0 ||
		now.LiveBytes < before.LiveBytes+idx.Bytes()+m.Bytes() {
		return fmt.Errorf("an index of %d bytes and a sparse matrix of %d take Stats from %+v to %+v", idx.Bytes(),
			m.Bytes(), before, now)
	}
	idx.Free()
	m.Free()
	settled := dev.Stats()
	if settled.Live != before.Live || settled.LiveBytes != before.LiveBytes {
		return fmt.Errorf("before Alloc and Free Stats is %+v, after them %+v", before, settled)
	}
	// A loop that frees what it takes holds no more after many turns than after
	// one.
	for range 100 {
		x, y := dev.Alloc(34, 1000), dev.Alloc(1, 17)
		dev.Fill(x, 1)
		dev.Fill(y, 1)
		y.Free()
		x.Free()
		z := dev.Alloc(33, 1000)
		z.Free()
	}
	grown := dev.Stats()
	for range 100 {
		x, y := dev.Alloc(34, 1000), dev.Alloc(1, 17)
		x.Free()
		y.Free()
		z := dev.Alloc(33, 1000)
		z.Free()
	}
	if now := dev.Stats(); now.PooledBytes != grown.PooledBytes || now.PeakBytes != grown.PeakBytes ||
		now.Live != before.Live {
		return fmt.Errorf("after 100 turns of a loop Stats is %+v, after 200 %+v", grown, now)
	}
	for _, s := range [][2]int{{0, 0}, {0, 7}, {7, 0}} {
		b := dev.Alloc(s[0], s[1])
		if b.K() != s[0] || b.N() != s[1] || len(b.ToHost()) != 0 {
			return fmt.Errorf("Alloc(%d, %d) gives %s", s[0], s[1], b)
		}
		b.Free()
	}
	return nil
}
