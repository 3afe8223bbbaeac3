package stored

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"
)

// bedMagic begins a .bed file whose lines are variants.
var bedMagic = [3]byte{0x6c, 0x1b, 0x01}

// OpenBED maps the genotypes of PLINK 1: a file NAME.bed, with NAME.fam, of one line a person, and
// NAME.bim, of one line a variant, beside it in the
// file system, which must be the operating system's. X is persons x variants, and an entry is the number of
// copies of the variant's first allele (A1 of the .bim), 0, 1 or 2. Missing genotypes count as the
// mean of the variant.
//
// The format: https://www.cog-genomics.org/plink/1.9/formats#bed.
func OpenBED(files fs.FS, path string) (*Matrix, error) {
	stem, ok := strings.CutSuffix(path, ".bed")
	if !ok {
		return nil, fmt.Errorf("%s: expected a name that ends in .bed", path)
	}
	persons, err := countLines(files, stem+".fam", 6, "a line of 6 words for each person")
	if err != nil {
		return nil, err
	}
	variants, err := countLines(files, stem+".bim", 6, "a line of 6 words for each variant")
	if err != nil {
		return nil, err
	}
	opened, err := files.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, Bare(err))
	}
	defer opened.Close()
	f, ok := opened.(*os.File)
	if !ok {
		return nil, fmt.Errorf("%s: genotypes stay in a file of the operating system, expected such a file", path)
	}
	m, err := newBED(f, persons, variants)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

func newBED(f *os.File, persons, variants int) (*Matrix, error) {
	var magic [3]byte
	if _, err := io.ReadFull(io.NewSectionReader(f, 0, 3), magic[:]); err != nil ||
		[2]byte(magic[:2]) != [2]byte(bedMagic[:2]) {
		return nil, errors.New("is not a PLINK 1 .bed file")
	}
	if magic != bedMagic {
		return nil, errors.New("has its genotypes in the order of persons, expected that of variants (plink " +
			"--make-bed writes it)")
	}
	m := &Matrix{Rows: persons, Cols: variants, spans: equal(3, int64(persons+3)/4), note: "genotypes"}
	info, err := f.Stat()
	if err != nil {
		return nil, Bare(err)
	}
	if need := 3 + m.Bytes(); info.Size() != need {
		return nil, fmt.Errorf("has %d bytes, expected %d for the %d persons of its .fam and the %d variants "+
			"of its .bim", info.Size(), need, persons, variants)
	}
	m.format = &genotypes{m: m}
	return m, m.open(f)
}

// countLines counts the lines of a text, each of at least so many words.
func countLines(files fs.FS, path string, words int, expected string) (int, error) {
	f, err := files.Open(path)
	if err != nil {
		return 0, fmt.Errorf("%s: %w, expected %s", path, Bare(err), expected)
	}
	defer f.Close()
	n := 0
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if found := len(strings.Fields(lines.Text())); found < words {
			return 0, fmt.Errorf("%s: line %d has %d words, expected %s", path, n+1, found, expected)
		}
		n++
	}
	if err := lines.Err(); err != nil {
		return 0, fmt.Errorf("%s: line %d: %w", path, n+1, err)
	}
	if n == 0 {
		return 0, fmt.Errorf("%s: is empty, expected %s", path, expected)
	}
	return n, nil
}

// code is the number of copies of allele 1 for each of the four codes; the second stands for a
// missing genotype.
var code = [4]float64{2, math.NaN(), 1, 0}

// decoded are the four genotypes of each byte, the first in its lowest bits.
var decoded = func() (table [256][4]float64) {
	for b := range table {
		for k := range 4 {
			table[b][k] = code[b>>(2*k)&3]
		}
	}
	return table
}()

// genotypes are lines of two bits a value.
type genotypes struct{ m *Matrix }

func (g *genotypes) decode(dst []float64, line []byte) []float64 {
	whole := len(dst) / 4
	for q, b := range line[:whole] {
		*(*[4]float64)(dst[4*q:]) = decoded[b]
	}
	if rest := dst[4*whole:]; len(rest) > 0 {
		copy(rest, decoded[line[whole]][:])
	}
	return dst
}

// group is the number of persons, four a byte, whose tables of sums are made at a time: 512 KiB.
const group = 1024

// products adds up tables: for every byte of a line and each of its 256 values the sum of the four
// products with z, a quarter of the work of decoding, and no multiplications. It makes the tables
// for a group of persons, and adds them up for all the lines.
func (g *genotypes) products(dst []float64, lines []byte, first int, z []float64) bool {
	clear(dst)
	if len(dst) == 0 {
		return true
	}
	stride := len(lines) / len(dst)
	absent := make([]float64, len(dst)) // the sums of z at missing genotypes
	values, gaps := make([][256]float64, group/4), make([][256]float64, group/4)
	for lo := 0; lo < len(z); lo += group {
		part := z[lo:min(lo+group, len(z))]
		bytes := (len(part) + 3) / 4
		fillTables(values, gaps, part)
		for l := range dst {
			line := lines[l*stride+lo/4:][:bytes]
			a, b := 0.0, 0.0
			q := 0
			for ; q+1 < len(line); q += 2 {
				a += values[q][line[q]]
				b += values[q+1][line[q+1]]
			}
			if q < len(line) {
				a += values[q][line[q]]
			}
			dst[l] += a + b
			if g.m.Missing > 0 {
				for q, c := range line {
					absent[l] += gaps[q][c]
				}
			}
		}
	}
	if g.m.Missing > 0 {
		for l := range dst {
			dst[l] += g.m.Means[first+l] * absent[l]
		}
	}
	return true
}

// fillTables sets values[q][c] to the sum over the four persons of byte q of genotype times z, where
// the byte is c, and gaps[q][c] to that of z where the genotype is missing.
func fillTables(values, gaps [][256]float64, z []float64) {
	for q := 0; 4*q < len(z); q++ {
		four := [4]float64{}
		copy(four[:], z[4*q:])
		// A byte's sum is that of its two halves.
		var half, lost [2][16]float64
		for h := range 2 {
			for c := range 16 {
				for k := range 2 {
					switch one, x := c>>(2*k)&3, four[2*h+k]; one {
					case 1:
						lost[h][c] += x
					default:
						half[h][c] += code[one] * x
					}
				}
			}
		}
		v, gap := &values[q], &gaps[q]
		for c := range 256 {
			v[c], gap[c] = half[0][c&15]+half[1][c>>4], lost[0][c&15]+lost[1][c>>4]
		}
	}
}
