package figure

import (
	"math"
	"strconv"

	"gonum.org/v1/plot/vg"
)

// axis maps values to [0, 1], linearly or by their logarithm. On a logarithmic axis zero has its
// own position at the low end, before a break.
type axis struct {
	label    string
	min, max float64
	log      bool
	zero     bool // the axis shows zero (logarithmic axes only)
	zeroOnly bool // and nothing else
	whole    bool // labels are at whole numbers only
}

// The place of zero ends at zeroShare of the axis, where the positive values begin; the
// break of the axis is just before.
const (
	zeroShare = 0.09
	breakAt   = 0.82 * zeroShare
)

// tick is a mark at a place in [0, 1]; minor ones have no label.
type tick struct {
	at    float64
	label text
	minor bool
}

// linearAxis holds all values, with some room around them.
func linearAxis(label string, low, high float64) *axis {
	room := 0.06 * (high - low)
	// Ranges below the resolution of a float64 have no ticks.
	if size := max(math.Abs(low), math.Abs(high)); high-low <= 1e-9*size {
		room = 0.05 * size
	}
	if low == 0 && high == 0 {
		room = 1
	}
	return &axis{label: label, min: low - room, max: high + room}
}

// logAxis holds all values, none negative. With open, its ends lie beyond the
// least and greatest value.
func logAxis(label string, values []float64, open bool) *axis {
	a := &axis{label: label, log: true, min: math.Inf(1), max: math.Inf(-1)}
	for _, v := range values {
		if v == 0 {
			a.zero = true
			continue
		}
		a.min, a.max = min(a.min, v), max(a.max, v)
	}
	if math.IsInf(a.min, 1) {
		a.min, a.max, a.zeroOnly = 1, 1, true
	}
	if a.max < a.min*(1+1e-9) {
		a.min, a.max = a.min/2, a.max*2
		return a
	}
	if open {
		room := math.Pow(a.max/a.min, 0.04)
		if math.IsInf(room, 1) {
			room = 1
		}
		a.min, a.max = a.min/room, a.max*room
	}
	return a
}

// norm is the position of v: in [0, 1] for values on the axis, bounded beyond it.
func (a *axis) norm(v float64) float64 {
	if !a.log {
		return max(-9, min(10, (v-a.min)/(a.max-a.min)))
	}
	begin := 0.0
	if a.zeroOnly {
		return 0.5
	}
	if a.zero {
		begin = zeroShare
		if v == 0 {
			return zeroShare / 3
		}
	}
	if v <= 0 {
		return -9
	}
	u := (math.Log10(v) - math.Log10(a.min)) / (math.Log10(a.max) - math.Log10(a.min))
	return max(-9, min(10, begin+(1-begin)*u))
}

// room is the share of the axis' length that a label needs.
type room func(text) vg.Length

func widthRoom(t text) vg.Length { return t.width(tickSize) + 9 }

func heightRoom(text) vg.Length { return 1.6 * tickSize }

// ticks are the marks of the axis, as many as have room, and the factor and offset of their labels.
func (a *axis) ticks(length vg.Length, need room) (marks []tick, factor text) {
	if !a.log {
		return a.linearTicks(length, need)
	}
	if a.zero {
		zero := tick{at: a.norm(0), label: text{{s: "0"}}}
		if a.zeroOnly {
			return []tick{zero}, nil
		}
		marks = a.logTicks(length, need)
		for i, m := range marks {
			if !apart([]tick{zero, m}, length, need) {
				marks[i].minor = true
			}
		}
		return append(marks, zero), nil
	}
	return a.logTicks(length, need), nil
}

// apart reports whether the labels have enough room.
func apart(marks []tick, length vg.Length, need room) bool {
	last, lastNeed := math.Inf(-1), vg.Length(0)
	for _, m := range marks {
		if m.minor {
			continue
		}
		n := need(m.label)
		if vg.Length(m.at-last)*length < (n+lastNeed)/2 {
			return false
		}
		last, lastNeed = m.at, n
	}
	return true
}

// logTicks labels 1, 2 and 5 of every decade, or every decade, or every few of
// them: the most that have room. Where the axis is so short that too few of these
// lie on it, the labels are those of a linear axis.
func (a *axis) logTicks(length vg.Length, need room) []tick {
	low := int(math.Floor(math.Log10(a.min)))
	high := int(math.Ceil(math.Log10(a.max)))
	inside := func(v float64) bool {
		return v >= a.min*(1-1e-9) && v <= a.max*(1+1e-9) && (!a.whole || v >= 1)
	}
	powers := low < -3 || high > 5
	labelled := func(mantissas []int, step int) (marks []tick) {
		for e := low; e <= high; e++ {
			if e%step != 0 {
				continue
			}
			for _, m := range mantissas {
				v := decimal(m, e)
				if !inside(v) {
					continue
				}
				var label text
				switch {
				case !powers:
					label = text{{s: strconv.FormatFloat(v, 'f', -1, 64)}}
				case m == 1:
					label = power(e)
				default:
					label = join(text{{s: strconv.Itoa(m) + "×"}}, power(e))
				}
				marks = append(marks, tick{at: a.norm(v), label: label})
			}
		}
		return marks
	}
	major, step := labelled([]int{1, 2, 5}, 1), 1
	if len(major) < 3 {
		return a.shortLogTicks(length, need)
	}
	// Over many decades powers of ten are clear without 2 and 5 between them.
	if !apart(major, length, need) || powers && len(major) > 7 {
		for _, step = range []int{1, 2, 3, 5, 10, 20, 30, 50, 100, 200} {
			if major = labelled([]int{1}, step); apart(major, length, need) {
				break
			}
		}
		if len(major) < 2 || !apart(major, length, need) {
			return a.shortLogTicks(length, need)
		}
	}
	// Marks without a label, unless they are too close to distinguish.
	decade := vg.Length(1/(math.Log10(a.max)-math.Log10(a.min))) * length
	mantissas := []int{1}
	if step == 1 && decade > 18 {
		mantissas = []int{1, 2, 3, 4, 5, 6, 7, 8, 9}
	}
	if decade > 2.5 {
		for e := low; e <= high; e++ {
			for _, m := range mantissas {
				if v := decimal(m, e); inside(v) {
					major = append(major, tick{at: a.norm(v), minor: true})
				}
			}
		}
	}
	return major
}

// shortLogTicks are ticks at round numbers, for an axis of less than a decade.
func (a *axis) shortLogTicks(length vg.Length, need room) []tick {
	var most []tick
	for n := mostSteps; n > 0; n-- {
		step, _ := roundStep((a.max - a.min) / float64(n))
		if a.whole {
			step = max(step, 1)
		}
		var marks []tick
		for k := math.Ceil(a.min / step); k*step <= a.max && len(marks) < 100; k++ {
			if v := k * step; v > 0 {
				digits := 1 + int(math.Round(math.Floor(math.Log10(v*(1+1e-9)))-math.Floor(math.Log10(step*(1+1e-9)))))
				marks = append(marks, tick{at: a.norm(v), label: number(v, max(1, digits))})
			}
		}
		if len(marks) > 0 && apart(marks, length, need) {
			return marks
		}
		if n == mostSteps {
			most = marks
		}
	}
	return ends(most, length, need)
}

// mostSteps is the number of steps of round numbers that is tried first on an axis.
const mostSteps = 8

// ends is the first and the last mark, or the one in the middle if these two have no room.
func ends(marks []tick, length vg.Length, need room) []tick {
	if len(marks) < 2 {
		return marks
	}
	two := []tick{marks[0], marks[len(marks)-1]}
	if apart(two, length, need) {
		return two
	}
	return marks[len(marks)/2 : len(marks)/2+1]
}

// decimal is m 10^e, rounded once.
func decimal(m, e int) float64 {
	v, _ := strconv.ParseFloat(strconv.Itoa(m)+"e"+strconv.Itoa(e), 64)
	return v
}

// roundStep is the least of 1, 2, 5 times a power of ten, 10^e, that is at least v.
func roundStep(v float64) (step float64, e int) {
	e = int(math.Floor(math.Log10(v)))
	for _, m := range []int{1, 2, 5} {
		if s := decimal(m, e); s >= v*(1-1e-9) {
			return s, e
		}
	}
	return decimal(1, e+1), e + 1
}

// linearTicks are at multiples of 1, 2 or 5 times a power of ten. Labels of large or small numbers
// are multiples of a common factor, and those of numbers that differ only in late digits are
// differences.
func (a *axis) linearTicks(length vg.Length, need room) (marks []tick, factor text) {
	var most []tick
	var mostFactor text
	for n := mostSteps; n > 0; n-- {
		step, e := roundStep((a.max - a.min) / float64(n))
		if a.whole && step < 1 {
			step, e = 1, 0
		}
		first := math.Ceil(a.min/step - 1e-9)
		var base float64
		if math.Abs(first) > 1e5 {
			base = first * step
		}
		size := max(math.Abs(a.min-base), math.Abs(a.max-base))
		scale := int(math.Floor(math.Log10(size)))
		factor = nil
		if scale >= 5 || scale < -3 {
			factor = join(text{{s: "×"}}, power(scale))
		} else {
			scale = 0
		}
		if base != 0 {
			sign := "+ "
			if base < 0 {
				sign = "− "
			}
			s := strconv.FormatFloat(math.Abs(base), 'e', -1, 64)
			if b := math.Abs(base); b >= 1e-3 && b < 1e9 {
				s = text{{s: strconv.FormatFloat(b, 'f', max(0, -e), 64)}}.trim()[0].s
			}
			if factor != nil {
				sign = " " + sign
			}
			factor = join(factor, text{{s: sign + minus(s)}})
		}
		marks = nil
		for k := 0.0; (first+k)*step <= a.max && k < 100; k++ {
			v := (first + k) * step
			shown := v
			if base != 0 {
				shown = k * step
			}
			shown /= math.Pow10(scale)
			label := strconv.FormatFloat(shown, 'f', max(0, scale-e), 64)
			if shown == 0 {
				label = "0"
			}
			marks = append(marks, tick{at: a.norm(v), label: text{{s: minus(label)}}})
		}
		if len(marks) > 0 && apart(marks, length, need) {
			return marks, factor
		}
		if n == mostSteps {
			most, mostFactor = marks, factor
		}
	}
	return ends(most, length, need), mostFactor
}
