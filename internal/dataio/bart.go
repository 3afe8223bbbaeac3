package dataio

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/stored"
)

// ReadBART reads an array of the Berkeley Advanced Reconstruction Toolbox: complex numbers of 32 bits
// (.cfl) whose axes a text (.hdr) lists. The axes are in the order of the file, the last varying
// fastest: the reverse of BART's, without axes of one entry.
func ReadBART(header, values io.Reader) (Array, error) {
	a := Array{Complex: true}
	n, found := 1, false
	scanner := bufio.NewScanner(io.LimitReader(header, 1<<16))
	for scanner.Scan() {
		if !strings.HasPrefix(scanner.Text(), "# Dimensions") {
			continue
		}
		if !scanner.Scan() {
			break
		}
		var dims []int
		for _, field := range strings.Fields(scanner.Text()) {
			k, _ := strconv.Atoi(field)
			dims = append(dims, k)
		}
		if a.Shape, n, found = reversedAxes(dims); !found || len(dims) > 64 {
			return a, fmt.Errorf("its header states the dimensions %.60q, expected positive integers",
				scanner.Text())
		}
		break
	}
	if !found {
		return a, errors.New("its header has no line \"# Dimensions\"")
	}
	var err error
	t := ndarray.Number{Kind: 'f', Size: 4, Order: binary.LittleEndian}
	if a.Data, err = readValues(values, t, 2*n); err != nil {
		return a, err
	}
	if after, _ := io.Copy(io.Discard, values); after > 0 {
		return a, fmt.Errorf("%w of the shape that its header states, %s", afterArray(after),
			ndarray.ShapeString(a.Shape))
	}
	return a.WithPairs()
}

func openBART(s source) (*Set, error) {
	base := strings.TrimSuffix(s.path, filepath.Ext(s.path))
	header, err := s.files.open(base+".hdr", "a text that lists the axes")
	if err != nil {
		return nil, fmt.Errorf("its header %s.hdr: %w", filepath.Base(base), stored.Bare(err))
	}
	defer header.Close()
	values, err := s.files.open(base+".cfl", "complex numbers of 32 bits")
	if err != nil {
		return nil, fmt.Errorf("its values %s%s: %w", filepath.Base(base), ".cfl", stored.Bare(err))
	}
	defer values.Close()
	a, err := ReadBART(header, bufio.NewReaderSize(values, 1<<20))
	if err != nil {
		return nil, err
	}
	a.Name = s.name
	return setOf("bart", a), nil
}
