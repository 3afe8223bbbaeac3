package figure

import (
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
)

// axis maps values to places: the values themselves, or their logarithms to base ten. The axes of the plots are
// linear in these: gonum's heat map puts the borders of its cells half way between places.
type axis struct {
	label    string
	min, max float64 // the places of the ends
	log      bool
	whole    bool      // labels are at whole numbers only
	length   vg.Length // on the page
	upright  bool
}

// rounding is a relative distance at which numbers count as equal; also one of places on an axis.
const rounding = 1e-9

// linearAxis holds all values, with some room around them.
func linearAxis(label string, low, high float64) *axis {
	room, size := 0.06*(high-low), max(math.Abs(low), math.Abs(high))
	switch {
	case size == 0:
		room = 1
	case high-low <= rounding*size: // ranges below the resolution of a float64 have no ticks
		room = 0.05 * size
	}
	return &axis{label: label, min: low - room, max: high + room}
}

// logAxis holds all values from low > 0 to high, with some room around them.
func logAxis(label string, low, high float64) *axis {
	low, high = math.Log10(low), math.Log10(high)
	room := 0.04 * (high - low)
	if room < 1e-11 {
		room = math.Log10(2)
	}
	return &axis{label: label, min: low - room, max: high + room, log: true}
}

func (a *axis) place(v float64) float64 {
	if a.log {
		v = math.Log10(max(v, 0))
	}
	far := 9 * (a.max - a.min)
	return max(a.min-far, min(a.max+far, v))
}

func (a *axis) holds(v float64) bool {
	at := a.place(v)
	return at >= a.min-rounding && at <= a.max+rounding
}

func (a *axis) ticks() plot.ConstantTicks {
	for _, marks := range a.labellings() {
		if len(marks) > 0 && a.fit(marks) {
			return append(marks, a.minor()...)
		}
	}
	return nil
}

func (a *axis) fit(marks []plot.Tick) bool {
	need := func(label string) vg.Length {
		if a.upright {
			return 1.6 * tickSize
		}
		return width(label, tickSize) + 9
	}
	for i, m := range marks[1:] {
		apart := vg.Length((m.Value-marks[i].Value)/(a.max-a.min)) * a.length
		if apart < (need(marks[i].Label)+need(m.Label))/2 {
			return false
		}
	}
	return true
}

// labellings are the possible labels, from many to few. On a logarithmic axis they are at 1, 2 and 5 of every
// decade, at every decade, or at every few of them; where fewer than three of the first lie on it, and on a
// linear axis, at round numbers. The last ones are two and one of these.
func (a *axis) labellings() (all [][]plot.Tick) {
	if fine := a.decades(1, 1, 2, 5); len(fine) >= 3 {
		// Over many decades powers of ten are clear without 2 and 5 between them.
		if len(fine) <= 7 || !a.powers() {
			all = append(all, fine)
		}
		for _, step := range []int{1, 2, 3, 5, 10, 20, 30, 50, 100} {
			if marks := a.decades(step, 1); len(marks) > 1 {
				all = append(all, marks)
			}
		}
	}
	for n := 8; n > 0; n-- {
		all = append(all, a.round(n))
	}
	most := a.round(8)
	return append(all, []plot.Tick{most[0], most[len(most)-1]}, most[len(most)/2:len(most)/2+1])
}

// powers reports whether the labels of a logarithmic axis are powers of ten, and not decimal fractions.
func (a *axis) powers() bool { return a.min < -3 || a.max > 5 }

// decades are marks at the multiples of every few powers of ten, on a logarithmic axis.
func (a *axis) decades(step int, multiples ...int) (marks []plot.Tick) {
	for e := int(math.Floor(a.min)); a.log && e <= int(math.Ceil(a.max)); e++ {
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
func (a *axis) minor() (marks []plot.Tick) {
	switch decade := a.length / vg.Length(a.max-a.min); {
	case decade > 22:
		marks = a.decades(1, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	case decade > 2.5:
		marks = a.decades(1, 1)
	}
	for i := range marks {
		marks[i].Label = ""
	}
	return marks
}

// factor is how the labels of a linear axis are to be read: divided by a power of ten where they are large or
// small, and as differences to a base where they differ only in late digits.
func (a *axis) factor() (e int, base float64, label string) {
	if a.log {
		return 0, 0, ""
	}
	size, unit := max(math.Abs(a.min), math.Abs(a.max)), 10*roundStep(a.max-a.min)
	if size > 1e4*unit {
		base = math.Round(a.min/unit) * unit
		size = max(math.Abs(a.min-base), math.Abs(a.max-base))
	}
	if e = exponent(size); -3 <= e && e < 5 {
		e = 0
	} else {
		label = "×" + power(e)
	}
	if base != 0 {
		label = strings.TrimSpace(label + map[bool]string{true: " + ", false: " − "}[base > 0] + short(math.Abs(base),
			15))
	}
	return e, base, label
}

// round are marks at multiples of 1, 2 or 5 times a power of ten, about n of them.
func (a *axis) round(n int) (marks []plot.Tick) {
	low, high := a.min, a.max
	if a.log {
		low, high = math.Pow(10, low), math.Pow(10, high)
	}
	step := roundStep((high - low) / float64(n))
	if a.whole {
		step = max(step, 1)
	}
	scale, base, _ := a.factor()
	first := math.Ceil(low/step - rounding)
	for i := 0.0; i < 20 && (first+i-rounding)*step <= high; i++ {
		v, label := (first+i)*step, "0"
		switch {
		case a.log && v <= 0:
			continue
		case a.log:
			label = number(v, max(1, 1+exponent(v)-exponent(step)))
		case math.Abs(v-base) > step/2:
			label = minus(strconv.FormatFloat((v-base)/math.Pow10(scale), 'f', max(0, scale-exponent(step)), 64))
		}
		marks = append(marks, plot.Tick{Value: a.place(v), Label: label})
	}
	return marks
}

// roundStep is the least of 1, 2, 5 times a power of ten that is at least v.
func roundStep(v float64) float64 {
	for _, m := range []int{1, 2, 5} {
		if s := decimal(m, exponent(v)); s >= v*(1-rounding) {
			return s
		}
	}
	return decimal(1, exponent(v)+1)
}

func decimal(m, e int) float64 {
	v, _ := strconv.ParseFloat(strconv.Itoa(m)+"e"+strconv.Itoa(e), 64)
	return v
}
