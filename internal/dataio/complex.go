package dataio

import (
	"fmt"
	"strings"
)

func (r *Reader) isComplex() bool { return r.complex || r.held != nil && r.held.Complex }

func (r *Reader) complexError() error {
	return fmt.Errorf("array %q: found complex numbers, expected real ones", r.name)
}

func realPart(descr string) (string, bool) {
	order := strings.TrimRight(descr, "c0123456789")
	switch strings.TrimPrefix(descr, order) {
	case "c8":
		return order + "f4", true
	case "c16":
		return order + "f8", true
	}
	return descr, false
}
