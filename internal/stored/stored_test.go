package stored

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// write writes a file of the test's own.
func write(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// mapped maps a matrix of the given format, after some other bytes.
func mapped(t *testing.T, x [][]float64, format Format) *Matrix {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("12345678")
	format.Rows, format.Cols = len(x), len(x[0])
	put := func(v float64) {
		if format.Single {
			_ = binary.Write(&b, binary.LittleEndian, float32(v))
		} else {
			_ = binary.Write(&b, binary.LittleEndian, v)
		}
	}
	if format.ByColumns {
		for j := range format.Cols {
			for i := range format.Rows {
				put(x[i][j])
			}
		}
	} else {
		for i := range x {
			for _, v := range x[i] {
				put(v)
			}
		}
	}
	f, err := os.Open(write(t, "x", b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := Map(f, 8, format)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func silent(int64) {}

// The scan finds the products of centered columns where these are few beside the rows, also where their means are large.
func TestScanFindsTheGramMatrix(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	for _, p := range []int{3, 70} {
		d := 64*p + 5
		x := make([][]float64, d)
		for i := range x {
			x[i] = make([]float64, p)
			for j := range x[i] {
				x[i][j] = rng.NormFloat64() + 1e6*float64(j%2)
			}
		}
		m := mapped(t, x, Format{})
		if err := m.Scan(t.Context(), make([]float64, d), silent); err != nil {
			t.Fatal(err)
		}
		for i, got := range m.Gram {
			want := 0.0
			for _, row := range x {
				want += (row[i/p] - m.Means[i/p]) * (row[i%p] - m.Means[i%p])
			}
			if off := got - want; math.Abs(off) > 1e-9*float64(d) {
				t.Errorf("%d columns: the products of %d and %d are off by %g", p, i/p, i%p, off)
			}
		}
		few := mapped(t, x[:64*p-1], Format{})
		if err := few.Scan(t.Context(), make([]float64, 64*p-1), silent); err != nil || few.Gram != nil {
			t.Errorf("%d columns and fewer rows: %d products, %v", p, len(few.Gram), err)
		}
	}
}

// The first pass finds what sums over the matrix say, also where means are large.
func TestScan(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const d, p = 37, 2100
	x, z := make([][]float64, d), make([]float64, d)
	for i := range x {
		x[i] = make([]float64, p)
		z[i] = rng.NormFloat64()
		for j := range x[i] {
			x[i][j] = float64(float32(float64(j%4)*1e3 + rng.NormFloat64()))
		}
	}
	hashes := map[[32]byte]bool{}
	for _, format := range []Format{{}, {ByColumns: true}, {Single: true}, {ByColumns: true, Single: true}} {
		m := mapped(t, x, format)
		last := int64(0)
		if err := m.Scan(t.Context(), z, func(n int64) { last = n }); err != nil {
			t.Fatal(err)
		}
		if last != m.Bytes() {
			t.Errorf("%+v: read %d of %d bytes", format, last, m.Bytes())
		}
		hashes[m.Hash] = true
		for j := range p {
			mean, squares, product := 0.0, 0.0, 0.0
			for i := range d {
				mean += x[i][j] / d
				product += x[i][j] * z[i]
			}
			for i := range d {
				squares += (x[i][j] - mean) * (x[i][j] - mean)
			}
			if math.Abs(m.Means[j]-mean) > 1e-12*(1+mean) || math.Abs(m.Centered2[j]-squares) > 1e-11*squares ||
				math.Abs(m.Product[j]-product) > 1e-9 {
				t.Fatalf("%+v column %d: %g %g %g, want %g %g %g", format, j, m.Means[j], m.Centered2[j],
					m.Product[j], mean, squares, product)
			}
		}
	}
	if len(hashes) != 4 {
		t.Errorf("%d hashes", len(hashes))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := mapped(t, x, Format{}).Scan(ctx, z, silent); err == nil {
		t.Error("a cancelled scan has no error")
	}
	x[5][7] = math.NaN()
	for _, format := range []Format{{}, {ByColumns: true}} {
		if err := mapped(t, x, format).Scan(t.Context(), z, silent); err == nil ||
			!strings.Contains(err.Error(), "NaN at [5, 7]") {
			t.Errorf("%+v: %v", format, err)
		}
	}
}

// A file that is cut off while it is in use is an error, not the end of the process.
func TestFileBecomesShorter(t *testing.T) {
	m := mapped(t, [][]float64{{1, 2}, {3, 4}}, Format{})
	if err := os.Truncate(m.file.Name(), 12); err != nil {
		t.Fatal(err)
	}
	if err := m.Scan(t.Context(), []float64{1, 1}, silent); err == nil || !strings.Contains(err.Error(), "shorter") {
		t.Error(err)
	}
}

// A file that loses the pages that are being read is an error as well, in the goroutine of the pass and in others.
func TestFileBecomesShorterDuringAPass(t *testing.T) {
	const d, p = 64, 1 << 10 // a row is two pages
	rows := make([][]float64, d)
	for i := range rows {
		rows[i] = make([]float64, p)
	}
	sink := 0.0
	reads := map[string]func(m *Matrix){
		"a view":     func(m *Matrix) { sink = m.view(0, d)[d*p-1] },
		"goroutines": func(m *Matrix) { m.each(d, func(i int) { m.At(i, 0) }) },
		"beside":     func(m *Matrix) { m.beside(func() { sha256.Sum256(m.raw(0, d)) })() },
		"an entry":   func(m *Matrix) { m.At(d-1, p-1) },
	}
	for name, read := range reads {
		m := mapped(t, rows, Format{})
		err := m.Pass(t.Context(), silent, func(int, int) {
			if err := os.Truncate(m.file.Name(), 4096); err != nil {
				t.Fatal(err)
			}
			read(m)
			t.Errorf("%s: read what is not there, %g", name, sink)
		})
		if err == nil || !strings.Contains(err.Error(), m.Name()) || !strings.Contains(err.Error(), "shorter") {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := mapped(t, rows, Format{})
	defer func() {
		if recover() == nil {
			t.Error("another panic was taken for a fault")
		}
	}()
	_ = m.Guard(func() { panic("of its own") })
}

// A file whose contents are changed while it is in use is an error at the next pass, and at the end of
// the one in which it happens.
func TestFileIsChanged(t *testing.T) {
	m := mapped(t, [][]float64{{1, 2}, {3, 4}}, Format{})
	touch := func() {
		if err := os.Chtimes(m.Name(), time.Time{}, m.modified.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	during := m.Pass(t.Context(), silent, func(int, int) { touch() })
	for _, err := range []error{during, m.Scan(t.Context(), []float64{1, 1}, silent)} {
		if !errors.Is(err, errChanged) || !strings.Contains(err.Error(), m.Name()) {
			t.Error(err)
		}
	}
}

// plink writes the files of genotypes.
func plink(t testing.TB, persons, variants int, bed []byte) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range []struct {
		name    string
		content []byte
	}{
		{"g.fam", []byte(strings.Repeat("1 1 0 0 1 0\n", persons))},
		{"g.bim", []byte(strings.Repeat("1 snp 0 1 G A\n", variants))},
		{"g.bed", bed},
	} {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "g.bed")
}

// The example of PLINK's own description of the format, of 6 persons and 3 variants.
func TestBED(t *testing.T) {
	m, err := OpenBED(disk{}, plink(t, 6, 3, []byte{0x6c, 0x1b, 0x01, 0xdc, 0x0f, 0xe7, 0x0f, 0x6b, 0x01}))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	z := []float64{1, 10, 100, 1000, 1e4, 1e5}
	if err := m.Scan(t.Context(), z, silent); err != nil {
		t.Fatal(err)
	}
	means := []float64{0.4, 0.2, 1}
	off := 0.0
	for j := range means {
		off += math.Abs(m.Means[j] - means[j])
	}
	want := [][]float64{{2, 0, 0.4, 0, 0, 0}, {0, 0.2, 1, 0, 0, 0}, {0, 1, 1, 1, 1, 2}}
	if m.Missing != 4 || off > 1e-15 {
		t.Errorf("%d missing, means %v", m.Missing, m.Means)
	}
	var products [3]float64
	if !m.Products(products[:], 0, z) {
		t.Error("no products")
	}
	for j, column := range want {
		got := m.Read(make([]float64, 6), j, j+1)
		sum, squares := 0.0, 0.0
		for i, v := range column {
			if math.Abs(got[i]-v) > 1e-15 {
				t.Errorf("column %d: %v, want %v", j, got, column)
			}
			sum += v * z[i]
			squares += (v - means[j]) * (v - means[j])
		}
		if math.Abs(products[j]-sum) > 1e-9 || math.Abs(m.Product[j]-sum) > 1e-9 ||
			math.Abs(m.Centered2[j]-squares) > 1e-13 {
			t.Errorf("column %d: products %g and %g, want %g; squares %g, want %g", j, products[j], m.Product[j], sum,
				m.Centered2[j], squares)
		}
	}
}

// Products from the packed bytes are those of the values, over several groups of persons.
func TestBEDProducts(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	const d, p = 2*group + 7, 600
	bed := []byte{0x6c, 0x1b, 0x01}
	for range p * ((d + 3) / 4) {
		bed = append(bed, byte(rng.Uint32()))
	}
	m, err := OpenBED(disk{}, plink(t, d, p, bed))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	z := make([]float64, d)
	for i := range z {
		z[i] = rng.NormFloat64()
	}
	if err := m.Scan(t.Context(), z, silent); err != nil {
		t.Fatal(err)
	}
	products, x := make([]float64, p-3), make([]float64, d)
	m.Products(products, 3, z)
	for j, got := range products {
		sum := 0.0
		for i, v := range m.Read(x, j+3, j+4) {
			sum += v * z[i]
		}
		if math.Abs(got-sum) > 1e-10 || math.Abs(m.Product[j+3]-sum) > 1e-10 {
			t.Fatalf("column %d: %g and %g, want %g", j+3, got, m.Product[j+3], sum)
		}
	}
}

func TestBEDErrors(t *testing.T) {
	good := []byte{0x6c, 0x1b, 0x01, 0xdc, 0x0f}
	for want, path := range map[string]string{
		"has 5 bytes, expected 6":      plink(t, 9, 1, good),
		"is not a PLINK 1 .bed file":   plink(t, 6, 1, []byte("nothing")),
		"in the order of persons":      plink(t, 6, 1, []byte{0x6c, 0x1b, 0, 0xdc, 0x0f}),
		"g.fam: is empty":              plink(t, 0, 1, good),
		"a name that ends in .bed":     "x.npy",
		"no such file or directory, e": filepath.Join(t.TempDir(), "none.bed"),
	} {
		if _, err := OpenBED(disk{}, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	m, err := OpenBED(disk{}, plink(t, 4, 2, []byte{0x6c, 0x1b, 0x01, 0xff, 0x55}))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Scan(t.Context(), make([]float64, 4), silent); err == nil ||
		!strings.Contains(err.Error(), "column 1 has no value") {
		t.Error(err)
	}
}

// No genotypes make the reader panic.
func FuzzBED(f *testing.F) {
	f.Add([]byte{0x6c, 0x1b, 0x01, 0xdc, 0x0f, 0xe7, 0x0f, 0x6b, 0x01}, []byte("a b c d e f\na b c d e f\n"), 3)
	f.Fuzz(func(t *testing.T, bed, fam []byte, variants int) {
		path := plink(t, 0, max(min(variants, 100), 0), bed)
		if err := os.WriteFile(strings.TrimSuffix(path, "bed")+"fam", fam, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := OpenBED(disk{}, path)
		if err != nil {
			return
		}
		defer m.Close()
		_ = m.Scan(t.Context(), make([]float64, m.Rows), silent)
		m.Products(make([]float64, m.Cols), 0, make([]float64, m.Rows))
	})
}

func Example() {
	dir, _ := os.MkdirTemp("", "stored")
	defer os.RemoveAll(dir)
	for name, content := range map[string]string{
		"g.fam": "1 1 0 0 1 0\n1 2 0 0 1 0\n",
		"g.bim": "1 snp1 0 1 G A\n",
		"g.bed": "\x6c\x1b\x01\x08", // the codes 0 and 2: two copies of G, and one
	} {
		_ = os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)
	}
	m, err := OpenBED(disk{}, filepath.Join(dir, "g.bed"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	err = m.Scan(context.Background(), []float64{1, 10}, func(int64) {})
	fmt.Println(m.Rows, m.Cols, m.Means, m.Product, err)
	// Output: 2 1 [1.5] [12] <nil>
}

// disk has the files of the operating system.
type disk struct{}

func (disk) Open(name string) (fs.File, error) { return os.Open(name) }
