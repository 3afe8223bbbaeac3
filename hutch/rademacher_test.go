package hutch

import (
	"math"
	"slices"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
)

func TestSplitMixIsThePublishedGenerator(t *testing.T) {
	// The first outputs of the reference implementation, splitmix64.c, from
	// state 0.
	for n, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f} {
		if got := splitMix(0, uint64(n)); got != want {
			t.Errorf("output %d: %#x, want %#x", n, got, want)
		}
	}
}

func TestRademacherGoldenValues(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		b := dev.Alloc(2, 80)
		Rademacher(b, 1, 2, 3)
		want := []string{
			"++--++-++-+-+---+--------++--++---+++-+++-+-+++---+-+-++-+-+---+--++-++--++--++-",
			"+-+--+++-+-+++--+-+++++---++-++++--+-+--+--++--+++++-++--++-+-++++---++-++---+-+",
		}
		values := b.ToHost()
		for j := range want {
			got := make([]byte, 80)
			for i, v := range values[j*80:][:80] {
				switch v {
				case 1:
					got[i] = '+'
				case -1:
					got[i] = '-'
				default:
					t.Fatalf("probe %d holds %v", 3+j, v)
				}
			}
			if string(got) != want[j] {
				t.Errorf("probe %d: %s, want %s", 3+j, got, want[j])
			}
		}
	})
}

func TestProbeDependsOnSeedSampleAndNumberAlone(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, d := range []int{1, 63, 64, 65, signChunk, 2*signChunk + 100} {
			all := dev.Alloc(7, d)
			Rademacher(all, 11, 5, 0)
			want := all.ToHost()
			for j := range 7 {
				wide := dev.Alloc(2, d+3)
				one := wide.Cols(2, d+2).Rows(1, 2) // a view with gaps around it
				Rademacher(one, 11, 5, j)
				if !slices.Equal(one.ToHost(), want[j*d:][:d]) {
					t.Errorf("d = %d: probe %d alone differs from the one in a batch", d, j)
				}
				// Longer probes begin with the shorter ones.
				Rademacher(wide, 11, 5, j)
				if !slices.Equal(wide.Rows(0, 1).Cols(0, d).ToHost(), want[j*d:][:d]) {
					t.Errorf("d = %d: probe %d of length %d begins otherwise", d, j, d+3)
				}
			}
		}
	})
}

// Every pair of probes that differ in seed, sample or number has a correlation
// within what independent signs allow, and so have the probes' means, and the
// probes with themselves shifted.
func TestProbesAreUncorrelated(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const d = 1 << 14
		const probes = 6
		keys := [][2]uint64{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {1 << 63, 0}, {0, 1 << 63},
			{math.MaxUint64, math.MaxUint64}}
		var all []float64
		for _, key := range keys {
			b := dev.Alloc(probes, d)
			Rademacher(b, key[0], key[1], 0)
			all = append(all, b.ToHost()...)
			b.Free()
		}
		n := len(all) / d
		rows := upload(dev, n, d, all)
		gram := dev.Alloc(n, n)
		dev.Gemm(false, true, 1/math.Sqrt(d), rows, rows, 0, gram)
		// 5 standard deviations: 48^2/2 pairs, each beyond it with probability 6e-7.
		g := gram.ToHost()
		for i := range n {
			for j := range i {
				if c := g[i*n+j]; math.Abs(c) > 5 {
					t.Errorf("probes %d of %v and %d of %v: correlation of %.1f standard deviations",
						i%probes, keys[i/probes], j%probes, keys[j/probes], c)
				}
			}
			row := all[i*d:][:d]
			if mean := sum(row) / math.Sqrt(d); math.Abs(mean) > 5 {
				t.Errorf("probe %d of %v: mean of %.1f standard deviations", i%probes, keys[i/probes], mean)
			}
			for _, lag := range []int{1, 2, 63, 64, 65, 128} {
				c := 0.0
				for j := lag; j < d; j++ {
					c += row[j] * row[j-lag]
				}
				if c /= math.Sqrt(d); math.Abs(c) > 5 {
					t.Errorf("probe %d of %v: lag %d has a correlation of %.1f standard deviations", i%probes,
						keys[i/probes], lag, c)
				}
			}
		}
	})
}

func TestUnitVectorsAreRowsOfTheIdentity(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		noLeak(t, dev)
		b := dev.Alloc(3, 10)
		defer b.Free()
		for _, first := range []int{0, 4, 7} {
			dev.Fill(b, 9)
			UnitVectors(b, first)
			for i, v := range b.ToHost() {
				want := 0.0
				if i%10 == first+i/10 {
					want = 1
				}
				if v != want {
					t.Errorf("first = %d: entry %d of vector %d is %v, want %v", first, i%10, i/10, v, want)
				}
			}
		}
		defer func() {
			if recover() == nil {
				t.Error("unit vectors 8 to 10 of length 10 did not panic")
			}
		}()
		UnitVectors(b, 8)
	})
}
