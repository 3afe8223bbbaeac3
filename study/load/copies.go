package load

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"

	"surepipe/internal/lists"
	"surepipe/problems"
	"surepipe/problems/spec"
	"surepipe/risk/warning"
	"surepipe/study"
)

const (
	// fewestCopies is the number of copied rows from which they are told, and shareOfCopies their share of all.
	fewestCopies, shareOfCopies = 3, 0.05
	// beyondTies is by how many times pairs of rows that agree in X must agree in y more often than other pairs do:
	// where X decides y, rounding makes ties.
	beyondTies = 10
	// leastRich is the share of the distinct rows of X among those of X and y from which single rows that are equal say
	// something: a design with several observations for each row of X has ties by rounding.
	leastRich = 0.75
	// fewestDistinct is the number of distinct rows from which it is no chance that all of them come equally often.
	fewestDistinct = 10
)

// noteCopies says that rows of a regression are copies of others, as of a table that was read twice. Equal rows of a
// design with few values, or of rounded y, are none: X must have many distinct rows, and pairs of rows that agree in it
// agree in y far more often than others do; or the numbers of times that each row comes have a common divisor.
func (f *Source) noteCopies(n *study.Notes, data problems.Data) {
	if l, _ := LayoutOf(f.Problem); !l.Design || f.Specification != nil || f.Table.Groups != "" || data.X == nil {
		return
	}
	x := spec.MatrixOf(data.X)
	rows, _ := x.Dims()
	if x.Dense == nil || rows == 0 || len(data.Y)%rows != 0 {
		return
	}
	each := len(data.Y) / rows
	beside := [][]float64{data.Weights, data.Times.Time, data.Times.Start, data.Times.Strata, data.Offset}
	var row []byte
	y := lists.Make(rows, func(i int) uint64 {
		row = appendNumbers(row[:0], data.Y[i*each:(i+1)*each])
		for _, v := range beside {
			k := len(v) / rows
			row = appendNumbers(row, v[i*k:(i+1)*k])
		}
		return maphash.Bytes(seed, row)
	})
	alike := pairs(y)
	if alike.equal == 0 {
		return
	}
	in := lists.Make(rows, func(i int) uint64 {
		row = appendNumbers(row[:0], x.Dense.RawRowView(i))
		return maphash.Bytes(seed, row)
	})
	same := pairs(in)
	both := pairs(lists.Make(rows, func(i int) uint64 { return maphash.Comparable(seed, [2]uint64{in[i], y[i]}) }))
	copies := rows - both.distinct
	all := float64(rows) * float64(rows-1) / 2
	ties := 0.0
	if same.equal < all {
		ties = (alike.equal - both.equal) / (all - same.equal)
	}
	partial := copies >= max(fewestCopies, int(shareOfCopies*float64(rows))) &&
		both.equal > beyondTies*ties*same.equal && float64(same.distinct) >= leastRich*float64(both.distinct)
	if whole := both.each > 1 && both.distinct >= fewestDistinct; !partial && !whole {
		return
	}
	n.Add(warning.Copies, "%d of %d rows are copies of others, in X and y: they count as observations of their own, "+
		"so that error bars are too small, and leave-one-out and folds predict a row from its copy; drop them, or "+
		"leave copies out together, --groups COLUMN with a number for each distinct row", copies, rows)
}

// multiplicities are the number of distinct values, of pairs of equal ones, and the greatest common divisor of how
// often each comes.
type multiplicities struct {
	distinct, each int
	equal          float64
}

func pairs(hashes []uint64) (m multiplicities) {
	sorted := slices.Clone(hashes)
	slices.Sort(sorted)
	for first := 0; first < len(sorted); {
		next := first
		for next < len(sorted) && sorted[next] == sorted[first] {
			next++
		}
		k := next - first
		m.distinct++
		m.equal += float64(k) * float64(k-1) / 2
		for a := k; a > 0; { // Euclid's algorithm
			m.each, a = a, m.each%a
		}
		first = next
	}
	return m
}

var seed = maphash.MakeSeed()

// appendNumbers appends the bytes of finite values, the same of 0 and -0.
func appendNumbers(to []byte, values []float64) []byte {
	for _, v := range values {
		to = binary.NativeEndian.AppendUint64(to, math.Float64bits(v+0))
	}
	return to
}
