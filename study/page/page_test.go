package page

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"surepipe/study"
)

// Pictures of a path come back from a pack within half a code of both scales, and missing values are missing.
func TestPacksHoldWhatPicturesShow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, codes := range []int{255, math.MaxUint16} {
		var pictures []*study.Picture
		var want [][]float64
		for k := range 4 {
			x := make([]float64, 35)
			for i := range x {
				x[i] = float64(k) + rng.NormFloat64()
			}
			x[k] = math.NaN()
			want = append(want, x)
			pictures = append(pictures, coded(&study.Picture{Kind: "matrix", Shape: []int{5, 7}}, x, codes))
		}
		p, err := pack(pictures, []int{3, 1, 0, 2})
		if err != nil {
			t.Fatal(err)
		}
		// The frames of a pack are sums of the ones before: what the page does.
		one := p.Picture
		for k, x := range want {
			q, err := pack(pictures[:k+1], []int{3, 1, 0, 2}[:k+1])
			if err != nil {
				t.Fatal(err)
			}
			if one.Pixels = packed([][]uint16{codesOf(&p.Picture, x)}, codes); q.At[k] != []int{3, 1, 0, 2}[k] {
				t.Errorf("frame %d is of point %d", k, q.At[k])
			}
			got, err := values(&one)
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range got {
				if math.IsNaN(v) != math.IsNaN(x[i]) || math.Abs(v-x[i]) > (p.High-p.Low)/float64(codes-1) {
					t.Errorf("%d codes: value %d of frame %d is %g, expected %g", codes, i, k, v, x[i])
				}
			}
		}
	}
	for _, bad := range []study.Picture{{Shape: []int{-1}}, {Shape: []int{2}, Codes: 255, Pixels: []byte("x")},
		{Shape: []int{1 << 30}}, {Shape: []int{2}, Codes: 1}} {
		if _, err := values(&bad); err == nil {
			t.Errorf("a picture of shape %v with %d codes is taken", bad.Shape, bad.Codes)
		}
	}
}

// The correlation of a moving average over two columns is 1/2 at the lag (0, 1) and 0 elsewhere, up to noise.
func TestCorrelationsAreThoseOfAMovingAverage(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	const rows, cols = 120, 90
	x := make([]float64, rows*cols)
	for i := range rows {
		before := rng.NormFloat64()
		for j := range cols {
			v := rng.NormFloat64()
			x[i*cols+j], before = v+before, v
		}
	}
	c, side := around(x, rows, cols), 2*lagsAround+1
	for i, v := range c.Values {
		s, d := i/side-lagsAround, i%side-lagsAround
		want := 0.0
		switch {
		case s == 0 && d == 0:
			want = 1
		case s == 0 && (d == 1 || d == -1):
			want = 0.5
		}
		if math.Abs(v-want) > 5/math.Sqrt(rows*cols) {
			t.Errorf("the correlation at the lag (%d, %d) is %g, expected %g", s, d, v, want)
		}
	}
	if line := along(x); math.Abs(line.Values[1]-0.5) > 0.05 || line.Values[0] != 1 || len(line.Values) != lagsAlong+1 {
		t.Errorf("along the pixels the correlations are %v", line.Values)
	}
}

// An event has the line without its digest and its pictures apart; what is no JSON is no event.
func TestEventsAreLines(t *testing.T) {
	p := coded(&study.Picture{Kind: "sequence", Shape: []int{3}}, []float64{1, 2, 3}, 255)
	line, err := json.Marshal(study.SweepLine{Index: 7, Look: &study.Look{Fit: p}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := event([]byte(strings.Replace(string(line), `{"index"`, `{"digest":"long","index"`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(e); strings.Contains(text, "long") || !strings.Contains(text, `"at":[7]`) ||
		!strings.Contains(text, `"look":{}`) {
		t.Errorf("the event is %s", text)
	}
	for _, bad := range []string{"", "{", "[]", `{"index":"a","look":{}}`} {
		if _, err := event([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
