package figure

import (
	"iter"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
)

// axis maps values to places: the values themselves, or their logarithms to base ten. The axes of the plots are
// linear in these: gonum's heat map puts the borders of its cells half way between places.
type axis struct {
	label    string
	min, max float64 // the places of the ends
	log      bool
	whole    bool // labels are at whole numbers only
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

// logAxis holds all values from low > 0 to high, with some room around them.
func logAxis(label string, low, high float64) *axis {
	a := &axis{label: label, log: true, min: math.Log10(low), max: math.Log10(high)}
	room := 0.04 * (a.max - a.min)
	if room < 1e-11 {
		room = math.Log10(2)
	}
	a.min, a.max = a.min-room, a.max+room
	return a
}

// place is where v stands, within bounds that a canvas can do with.
func (a *axis) place(v float64) float64 {
	far := 9 * (a.max - a.min)
	if a.log {
		v = math.Log10(max(v, 0))
	}
	return max(a.min-far, min(a.max+far, v))
}

func (a *axis) places(values []float64) []float64 {
	at := make([]float64, len(values))
	for i, v := range values {
		at[i] = a.place(v)
	}
	return at
}

// holds reports whether v is on the axis.
func (a *axis) holds(v float64) bool {
	at := a.place(v)
	return at >= a.min-1e-9 && at <= a.max+1e-9
}

// ruler is the length of an axis, and the room that its labels need along it.
type ruler struct {
	length  vg.Length
	upright bool
}

func (r ruler) need(label string) vg.Length {
	if r.upright {
		return 1.6 * tickSize
	}
	return width(label, tickSize) + 9
}

// ticks are the marks of the axis, with as many labels as have room, and the factor and offset of these.
func (a *axis) ticks(r ruler) (marks []plot.Tick, factor string) {
	var most []plot.Tick
	var mostFactor string
	for marks, factor := range a.labellings() {
		if len(marks) > 0 && a.fit(marks, r) {
			return append(marks, a.minor(r)...), factor
		}
		if len(marks) > len(most) {
			most, mostFactor = marks, factor
		}
	}
	// The first and the last label, or the one in the middle if these two have no room.
	if two := []plot.Tick{most[0], most[len(most)-1]}; a.fit(two, r) {
		return two, mostFactor
	}
	return most[len(most)/2 : len(most)/2+1], mostFactor
}

// fit reports whether the labels have enough room.
func (a *axis) fit(marks []plot.Tick, r ruler) bool {
	for i, m := range marks[1:] {
		apart := vg.Length((m.Value-marks[i].Value)/(a.max-a.min)) * r.length
		if apart < (r.need(marks[i].Label)+r.need(m.Label))/2 {
			return false
		}
	}
	return true
}

// labellings are the possible labels, from many to few. On a logarithmic axis they are at 1, 2 and 5 of every
// decade, at every decade, or at every few of them; where fewer than three of the first lie on it, and on a
// linear axis, at round numbers.
func (a *axis) labellings() iter.Seq2[[]plot.Tick, string] {
	return func(yield func([]plot.Tick, string) bool) {
		if fine := a.decades(1, 1, 2, 5); a.log && len(fine) >= 3 {
			// Over many decades powers of ten are clear without 2 and 5 between them.
			if (len(fine) <= 7 || !a.powers()) && !yield(fine, "") {
				return
			}
			for _, step := range []int{1, 2, 3, 5, 10, 20, 30, 50, 100, 200} {
				if marks := a.decades(step, 1); len(marks) > 1 && !yield(marks, "") {
					return
				}
			}
		}
		for n := 8; n > 0; n-- {
			if !yield(a.round(n)) {
				return
			}
		}
	}
}

// powers reports whether the labels of a logarithmic axis are powers of ten, and not decimal fractions.
func (a *axis) powers() bool { return math.Floor(a.min) < -3 || math.Ceil(a.max) > 5 }

// decades are marks at the multiples of every few powers of ten.
func (a *axis) decades(step int, multiples ...int) (marks []plot.Tick) {
	if !a.log {
		return nil
	}
	for e := int(math.Floor(a.min)); e <= int(math.Ceil(a.max)); e++ {
		for _, m := range multiples {
			v := decimal(m, e)
			if e%step != 0 || !a.holds(v) || a.whole && v < 1 {
				continue
			}
			label := strconv.FormatFloat(v, 'f', -1, 64)
			if a.powers() {
				if label = power(e); m > 1 {
					label = strconv.Itoa(m) + "×" + label
				}
			}
			marks = append(marks, plot.Tick{Value: a.place(v), Label: label})
		}
	}
	return marks
}

// minor are marks without labels of a logarithmic axis, unless they are too close to distinguish.
func (a *axis) minor(r ruler) (marks []plot.Tick) {
	switch decade := r.length / vg.Length(a.max-a.min); {
	case decade > 18:
		marks = a.decades(1, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	case decade > 2.5:
		marks = a.decades(1, 1)
	}
	for i := range marks {
		marks[i].Label = ""
	}
	return marks
}

// round are marks at multiples of 1, 2 or 5 times a power of ten, about n of them. On a linear axis labels of
// large or small numbers are multiples of a common factor, and those of numbers that differ only in late digits
// are differences.
func (a *axis) round(n int) (marks []plot.Tick, factor string) {
	low, high := a.min, a.max
	if a.log {
		low, high = math.Pow(10, low), math.Pow(10, high)
	}
	step, e := roundStep((high - low) / float64(n))
	if a.whole && step < 1 {
		step, e = 1, 0
	}
	first, base, scale := math.Ceil(low/step-1e-9), 0.0, 0
	if !a.log {
		if math.Abs(first) > 1e5 {
			base = first * step
		}
		if size := exponent(max(math.Abs(low-base), math.Abs(high-base))); size >= 5 || size < -3 {
			scale, factor = size, "×"+power(size)
		}
	}
	if base != 0 {
		sign := map[bool]string{true: "+ ", false: "− "}[base > 0]
		if factor != "" {
			sign = " " + sign
		}
		if b := math.Abs(base); b >= 1e-3 && b < 1e9 {
			factor += sign + trim(strconv.FormatFloat(b, 'f', max(0, -e), 64))
		} else {
			factor += sign + minus(strconv.FormatFloat(b, 'e', -1, 64))
		}
	}
	for k := 0.0; (first+k-1e-9)*step <= high && k < 100; k++ {
		v := (first + k) * step
		shown := v
		if base != 0 {
			shown = k * step
		}
		label := strconv.FormatFloat(shown/math.Pow10(scale), 'f', max(0, scale-e), 64)
		switch {
		case a.log && v <= 0:
			continue
		case a.log:
			label = number(v, max(1, 1+exponent(v)-e))
		case shown == 0:
			label = "0"
		}
		marks = append(marks, plot.Tick{Value: a.place(v), Label: minus(label)})
	}
	return marks, factor
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
