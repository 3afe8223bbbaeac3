package figure

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

const (
	titleSize  vg.Length = 11
	labelSize  vg.Length = 9.5
	legendSize vg.Length = 9
	tickSize   vg.Length = 8.5
)

func sans(size vg.Length) text.Style {
	liberation := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	return text.Style{Color: ink, Font: liberation, Handler: raiser{text.Plain{Fonts: font.DefaultCache}}}
}

func centered(size vg.Length) text.Style {
	s := sans(size)
	s.XAlign = text.XCenter
	return s
}

func width(s string, size vg.Length) vg.Length { return sans(size).Width(s) }

// raiser is gonum's plain text with the exponents of ten raised: the font lacks a minus and some of the digits
// among its superscripts.
type raiser struct{ text.Plain }

var (
	tenToThe = regexp.MustCompile("10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)")
	raise    = strings.NewReplacer("-", "⁻", "0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴", "5", "⁵", "6", "⁶",
		"7", "⁷", "8", "⁸", "9", "⁹")
	lower = strings.NewReplacer("⁻", "−", "⁰", "0", "¹", "1", "²", "2", "³", "3", "⁴", "4", "⁵", "5", "⁶", "6", "⁷",
		"7", "⁸", "8", "⁹", "9")
)

// pieces calls f with each piece of a line, its place and its font, and returns the width of all.
func (h raiser) pieces(line string, fnt font.Font, f func(font.Face, vg.Point, string)) (width vg.Length) {
	set := func(s string, size, rise vg.Length) {
		face := h.Fonts.Lookup(fnt, size)
		// An SVG drops the space at either end of a text.
		if word := strings.TrimLeft(s, " "); word != "" && size > 0 {
			f(face, pt(width+face.Width(s[:len(s)-len(word)]), rise), strings.TrimRight(word, " "))
		}
		width += face.Width(s)
	}
	for m := tenToThe.FindStringSubmatchIndex(line); m != nil; m = tenToThe.FindStringSubmatchIndex(line) {
		set(line[:m[2]], fnt.Size, 0)
		set(lower.Replace(line[m[2]:m[3]]), 0.72*fnt.Size, 0.36*fnt.Size)
		line = line[m[3]:]
	}
	set(line, fnt.Size, 0)
	return width
}

func (h raiser) Box(line string, fnt font.Font) (width, height, depth vg.Length) {
	_, height, depth = h.Plain.Box("", fnt)
	return h.pieces(line, fnt, func(font.Face, vg.Point, string) {}), height, depth
}

func (h raiser) Draw(c vg.Canvas, line string, sty text.Style, at vg.Point) {
	c.SetColor(sty.Color)
	if sty.Rotation != 0 {
		c.Push()
		defer c.Pop()
		c.Translate(at)
		c.Rotate(sty.Rotation)
		at = pt(0, 0)
	}
	at = at.Add(pt(sty.Width(line)*vg.Length(sty.XAlign), sty.Height(line)*vg.Length(sty.YAlign)))
	h.pieces(line, sty.Font, func(face font.Face, place vg.Point, s string) { c.FillString(face, at.Add(place), s) })
}

// plain makes a line of s: one space for each stretch of white space and control characters.
func plain(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
}

// fit is s as a line of at most the given width, with an ellipsis at its end where it is longer.
func fit(s string, size, room vg.Length) string {
	s = plain(s)
	letters := []rune(s)
	for len(letters) > 0 && width(s, size) > room {
		letters = letters[:len(letters)-1]
		s = string(letters) + "…"
	}
	return s
}

// wrap breaks s at spaces into at most n lines, the last one shortened.
func wrap(s string, size, room vg.Length, n int) (lines []string) {
	words := strings.Fields(s)
	for len(words) > 0 {
		take := 1
		for take < len(words) && (len(lines) == n-1 || width(plain(strings.Join(words[:take+1], " ")), size) <= room) {
			take++
		}
		lines = append(lines, fit(strings.Join(words[:take], " "), size, room))
		words = words[take:]
	}
	return lines
}

func power(e int) string { return "10" + raise.Replace(strconv.Itoa(e)) }

func minus(s string) string { return strings.ReplaceAll(s, "-", "−") }

// number writes v with the given significant digits, in powers of ten where it is very large or small.
func number(v float64, digits int) string {
	if v == 0 {
		return "0"
	}
	s := strconv.FormatFloat(v, 'e', digits-1, 64)
	mantissa, exponent, _ := strings.Cut(s, "e")
	e, _ := strconv.Atoi(exponent)
	if e < -3 || e >= 6 {
		return minus(mantissa) + "×" + power(e)
	}
	rounded, _ := strconv.ParseFloat(s, 64)
	return minus(strconv.FormatFloat(rounded, 'f', max(0, digits-1-e), 64))
}

// short is number without zeros at the end of the decimals, for a number that stands alone.
func short(v float64, digits int) string {
	mantissa, times, _ := strings.Cut(number(v, digits), "×")
	if strings.Contains(mantissa, ".") {
		mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
	}
	return strings.TrimSuffix(mantissa+"×"+times, "×")
}

func exponent(v float64) int { return int(math.Floor(math.Log10(v * (1 + rounding)))) }
