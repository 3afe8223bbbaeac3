package dataio

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// dtype is numpy's type of a real number: kind b, i, u or f, and the size in bytes.
type dtype struct {
	kind  byte
	size  int
	order binary.ByteOrder
	text  string
}

func (t dtype) String() string { return t.text }

// parseDtype reads numpy's own notation, such as <f8.
func parseDtype(text string) (dtype, error) {
	t := dtype{text: text, order: binary.LittleEndian}
	kind := strings.TrimLeft(text, "<>|=")
	if len(text)-len(kind) > 1 || len(kind) < 2 {
		return t, dtypeError(text, "real numbers")
	}
	if text[0] == '>' {
		t.order = binary.BigEndian
	}
	t.kind = kind[0]
	t.size, _ = strconv.Atoi(kind[1:])
	switch kind {
	case "b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8":
		return t, nil
	case "f12", "f16":
		return t, dtypeError(text, "real numbers of at most 64 bits")
	}
	return t, dtypeError(text, "real numbers")
}

func dtypeError(text, expected string) error {
	switch {
	case strings.ContainsAny(text, "('"):
		text = "a structured dtype"
	case text == "" || len(text) > 20 || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		text = "an unknown dtype"
	case strings.HasSuffix(text, "O"):
		text = "dtype object"
	default:
		text = "dtype " + text
	}
	return fmt.Errorf("found %s, expected %s", text, expected)
}

// bits decodes an element to its bit pattern.
func (t dtype) bits() func([]byte) uint64 {
	switch t.size {
	case 1:
		return func(b []byte) uint64 { return uint64(b[0]) }
	case 2:
		return func(b []byte) uint64 { return uint64(t.order.Uint16(b)) }
	case 4:
		return func(b []byte) uint64 { return uint64(t.order.Uint32(b)) }
	}
	return t.order.Uint64
}

// floats decodes len(dst) elements to the nearest float64s.
func (t dtype) floats() func(dst []float64, b []byte) {
	if t.kind == 'f' && t.size == 8 && t.order == binary.LittleEndian {
		return func(dst []float64, b []byte) {
			for i := range dst {
				dst[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
			}
		}
	}
	one := t.float()
	return func(dst []float64, b []byte) {
		for i := range dst {
			dst[i] = one(b[i*t.size:])
		}
	}
}

// float decodes an element.
func (t dtype) float() func([]byte) float64 {
	bits := t.bits()
	switch t.kind {
	case 'b':
		return func(b []byte) float64 {
			if b[0] != 0 {
				return 1
			}
			return 0
		}
	case 'i':
		shift := 64 - 8*t.size
		return func(b []byte) float64 { return float64(int64(bits(b)<<shift) >> shift) }
	case 'u':
		return func(b []byte) float64 { return float64(bits(b)) }
	}
	switch t.size {
	case 2:
		return func(b []byte) float64 { return float16(uint16(bits(b))) }
	case 4:
		return func(b []byte) float64 { return float64(math.Float32frombits(uint32(bits(b)))) }
	}
	return func(b []byte) float64 { return math.Float64frombits(bits(b)) }
}

// float16 is the value of an IEEE 754 binary16: 1 bit sign, 5 bits exponent,
// 10 bits fraction.
func float16(bits uint16) float64 {
	sign := 1.0
	if bits>>15 != 0 {
		sign = -1
	}
	exponent, fraction := int(bits>>10&0x1f), float64(bits&0x3ff)
	switch {
	case exponent == 0x1f && fraction != 0:
		return math.NaN()
	case exponent == 0x1f:
		return math.Inf(int(sign))
	case exponent == 0:
		return sign * math.Ldexp(fraction, -24)
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}
