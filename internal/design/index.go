package design

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/dataio"
)

// dateLayouts are the forms of dates and times that are read: ISO 8601, and as R and pandas print them.
// Seconds may have a fraction.
var dateLayouts = []string{
	"2006-01-02", "2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02T15:04:05Z07:00",
	"2006-01-02 15:04:05Z07:00",
	"2006-01-02 15:04", "2006-01-02T15:04", "2006-01", "2006/01/02", "2006/01/02 15:04:05", "Jan 2006", "20060102",
	"200601",
}

// parseDate reads a date, or a quarter such as 2020Q1.
func parseDate(text string, layout *string) (t time.Time, ok bool) {
	if *layout != "" {
		if t, err := time.Parse(*layout, text); err == nil {
			return t, true
		}
	}
	for _, l := range dateLayouts {
		if t, err := time.Parse(l, text); err == nil {
			*layout = l
			return t, true
		}
	}
	year, quarter, cut := strings.Cut(text, "Q")
	y, err := strconv.Atoi(strings.TrimRight(year, " -"))
	if cut && err == nil && len(quarter) == 1 && quarter >= "1" && quarter <= "4" && len(year) >= 4 {
		return time.Date(y, time.Month(3*int(quarter[0]-'0')-2), 1, 0, 0, 0, 0, time.UTC), true
	}
	return t, false
}

func parseDates(texts []string) (dates []time.Time, ok bool) {
	layout := ""
	for _, text := range texts {
		t, ok := parseDate(text, &layout)
		if !ok {
			return nil, false
		}
		dates = append(dates, t)
	}
	return dates, true
}

// scale is an index as numbers, and their unit.
type scale struct {
	at   []float64
	unit string
}

// scalesOf are the scales on which the texts of an index can be measured: numbers; or for dates time, and
// months where all are at the same place in a month. There is none where they are neither.
func scalesOf(texts []string) (scales []scale) {
	if dates, ok := parseDates(texts); ok {
		seconds, months := make([]float64, len(dates)), make([]float64, len(dates))
		clock := func(t time.Time) time.Duration {
			return t.Sub(time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, t.Location()))
		}
		same, last := true, true // the same day of every month, or its last
		for i, t := range dates {
			seconds[i] = float64(t.Unix()) + float64(t.Nanosecond())/1e9
			months[i] = float64(12*t.Year() + int(t.Month()))
			alike := clock(t) == clock(dates[0])
			same = same && alike && t.Day() == dates[0].Day()
			last = last && alike && t.AddDate(0, 0, 1).Day() == 1
		}
		unit, size := "seconds", 1.0
		for _, u := range []struct {
			name string
			size float64
		}{{"minutes", 60}, {"hours", 3600}, {"days", 86400}} {
			if !slices.ContainsFunc(seconds, func(s float64) bool { return math.Mod(s-seconds[0], u.size) != 0 }) {
				unit, size = u.name, u.size
			}
		}
		for i := range seconds {
			seconds[i] /= size
		}
		if scales = append(scales, scale{seconds, unit}); same || last {
			scales = append([]scale{{months, "months"}}, scales...)
		}
		return scales
	}
	at := make([]float64, len(texts))
	for i, text := range texts {
		v, ok := dataio.ParseNumber(text)
		if !ok {
			return nil
		}
		at[i] = v
	}
	return []scale{{at, ""}}
}

// disorder is the first place at which the numbers neither increase nor decrease as they do before; -1
// where they do throughout.
func (s scale) disorder() int {
	for i := 1; i < len(s.at); i++ {
		if step := s.at[i] - s.at[i-1]; step == 0 || step > 0 != (s.at[1] > s.at[0]) {
			return i
		}
	}
	return -1
}

// mostAside is how far a point may lie from its place on a grid of equal steps, as a share of a step: as
// printed with few digits.
const mostAside = 0.2

// steps are the least and the largest distance of neighbours, and whether all are equal but for rounding.
func (s scale) steps() (least, most float64, equal bool) {
	least, equal = math.Inf(1), true
	n := len(s.at)
	mean := (s.at[n-1] - s.at[0]) / float64(max(n-1, 1))
	for i, v := range s.at {
		equal = equal && math.Abs(v-s.at[0]-float64(i)*mean) <= mostAside*math.Abs(mean)
		if i > 0 {
			step := math.Abs(v - s.at[i-1])
			least, most = min(least, step), max(most, step)
		}
	}
	return least, most, equal
}

// measure finds the places of the sequence on the first scale of the index with equal steps, or else
// the finest.
func (s *Sequence) measure() {
	scales := scalesOf(s.Labels)
	s.Measured = len(scales) > 0
	if s.N < 3 || slices.ContainsFunc(scales, func(c scale) bool { return c.disorder() >= 0 }) {
		return
	}
	var on scale
	for _, on = range scales {
		least, most, equal := on.steps()
		if equal {
			s.Unequal = ""
			break
		}
		if s.Unequal == "" {
			s.Unequal = strings.TrimSpace(fmt.Sprintf("from %.4g to %.4g %s", least, most, on.unit))
		}
	}
	if !s.Measured || on.even() {
		return
	}
	s.at = on.at
	if s.at[1] < s.at[0] {
		floats.Scale(-1, s.at)
	}
}

// even reports whether the steps are equal but for rounding errors of the places.
func (s scale) even() bool {
	n := len(s.at)
	first, last := s.at[0], s.at[n-1]
	mean, rounding := (last-first)/float64(n-1), 0x1p-50*max(math.Abs(first), math.Abs(last))
	for i, v := range s.at {
		if math.Abs(v-first-float64(i)*mean) > rounding {
			return false
		}
	}
	return true
}

// fewestIndexed is the number of rows from which numbers that increase are hardly so by chance.
const fewestIndexed = 5

// CheckSequence rejects a table of several columns as an array of sequences, one in each row, where the
// columns have names, or the first is likely to be an index: it asks for the one that is the sequence.
func CheckSequence(t *dataio.Table) error {
	index, why := indexOf(t)
	if len(t.Columns) < 2 || t.Unnamed && index == "" {
		return nil
	}
	if t.Unnamed {
		return fmt.Errorf("column %s, counted from 0, %s: is it the index? Name the columns in a header line, "+
			"and the sequence with --response", index, why)
	}
	if index == "" {
		return fmt.Errorf("which column is the sequence? Expected --response NAME, one of %s", list(t.Names()))
	}
	names := slices.DeleteFunc(t.Names(), func(name string) bool { return name == index })
	if len(names) > 1 {
		return fmt.Errorf("which column is the sequence? Expected --response NAME, one of %s; column %q %s, "+
			"and is then its index", list(names), index, why)
	}
	return fmt.Errorf("column %q %s: is it the index? Name the sequence with --response %s",
		index, why, names[0])
}

// CheckArray rejects an array of a table with named columns of which the first is likely to be an index.
func CheckArray(a dataio.Array) error {
	if len(a.Shape) != 2 || a.Columns == nil {
		return nil
	}
	t := &dataio.Table{Lines: make([]int, a.Shape[0])}
	for j, name := range a.Columns {
		c, err := a.Column(name)
		if err != nil {
			return err
		}
		t.Columns = append(t.Columns, dataio.Column{Name: name, Values: c.Data})
		if j == 1 && len(a.Columns) > 2 {
			t.Columns = append(t.Columns, dataio.Column{Name: a.Columns[2]})
			break
		}
	}
	if index, why := indexOf(t); index != "" {
		return fmt.Errorf("column %q %s: is it the index? Expected a table of the values alone", index, why)
	}
	return nil
}

// indexOf is the name of the first column of a table if that is likely to be an index, and why: dates, or
// numbers that increase or decrease. A table of two columns may have it second.
func indexOf(t *dataio.Table) (name, why string) {
	for j, c := range t.Columns {
		if j > 0 && len(t.Columns) > 2 || len(t.Columns) < 2 {
			break
		}
		switch {
		case len(c.Values) >= fewestIndexed:
			if !slices.ContainsFunc(c.Values, math.IsNaN) && (scale{at: c.Values}).disorder() < 0 {
				return c.Name, map[bool]string{true: "increases", false: "decreases"}[c.Values[1] > c.Values[0]]
			}
		case len(c.Levels) > 0:
			if isDates(c.Levels) {
				return c.Name, "holds dates"
			}
		}
	}
	return "", ""
}
