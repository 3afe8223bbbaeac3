package hutch

import (
	"math"
	"sync"

	"surepipe/array"
)

// golden is the increment of SplitMix64, 2^64 over the golden ratio.
const golden = 0x9e3779b97f4a7c15

// signChunk is the number of signs made and uploaded at a time: a whole number of words, small
// enough for a processor's cache.
const signChunk = 1 << 14

var signChunks = sync.Pool{New: func() any { return new([signChunk]float64) }}

// Rademacher fills vector j of dst with probe number first+j of the given
// sample: independent entries, +1 or -1 with probability 1/2 each.
//
// A probe is a pure function of (seed, sample, probe number). Entry 64 w + b is
// -1 where bit b (the lowest is bit 0) of word w is set, and
//
//	word = out(out(out(out(0, seed), sample), probe), w)
//
// where out(s, n) is output number n, from 0, of the generator SplitMix64 with
// initial state s: mix(s + (n+1) 0x9e3779b97f4a7c15), a hash that can be
// evaluated at any n (Steele, Lea, Flood, Fast splittable pseudorandom number
// generators, OOPSLA 2014).
func Rademacher(dst array.Batch, seed, sample uint64, first int) {
	RademacherPart(dst, seed, sample, first, 0)
}

func signs(x []float64, probe, word uint64) {
	const one = 0x3ff0000000000000 // the bits of 1.0; the topmost bit is the sign
	for ; len(x) >= 64; word++ {
		w := splitMix(probe, word)
		for b := range x[:64] {
			x[b] = math.Float64frombits(w<<63 | one)
			w >>= 1
		}
		x = x[64:]
	}
	w := splitMix(probe, word)
	for b := range x {
		x[b] = math.Float64frombits(w<<63 | one)
		w >>= 1
	}
}

func splitMix(s, n uint64) uint64 {
	z := s + (n+1)*golden
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
