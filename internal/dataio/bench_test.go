package dataio

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"
)

// table is rows x cols normal numbers, written in full.
func table(rows, cols int) Array {
	r := rand.New(rand.NewPCG(1, 1))
	a := Array{Name: "a", Shape: []int{rows, cols}, Data: make([]float64, rows*cols)}
	for i := range a.Data {
		a.Data[i] = r.NormFloat64()
	}
	return a
}

func BenchmarkReadCSV(b *testing.B) {
	var text bytes.Buffer
	if err := EncodeCSV(&text, table(2000, 100)); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadCSV(bytes.NewReader(text.Bytes()), TableOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadMatrixMarket(b *testing.B) {
	const n = 200000
	r := rand.New(rand.NewPCG(1, 1))
	var text bytes.Buffer
	fmt.Fprintf(&text, "%%%%MatrixMarket matrix coordinate real general\n5000 3000 %d\n", n)
	for range n {
		fmt.Fprintf(&text, "%d %d %v\n", 1+r.IntN(5000), 1+r.IntN(3000), math.Round(r.NormFloat64()*100)/100)
	}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := ReadMatrixMarket(bytes.NewReader(text.Bytes())); err != nil {
			b.Fatal(err)
		}
	}
}

// The floor is what the file system gives from its cache.
func BenchmarkStack(b *testing.B) {
	a := table(400, 50000)
	path := filepath.Join(b.TempDir(), "y.npy")
	if err := WriteNPY(path, a); err != nil {
		b.Fatal(err)
	}
	s, err := OpenStack(path)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	y := make([]float64, s.SampleLen())
	b.SetBytes(int64(8 * len(y)))
	b.ReportAllocs()
	for b.Loop() {
		err := s.Next(y)
		if err == io.EOF {
			if err = s.Seek(0); err == nil {
				err = s.Next(y)
			}
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
