package ndarray

import (
	"encoding/binary"
	"math"
	"slices"
	"unsafe"
)

// Number is how a file stores real numbers: kind b (0 or 1), i (signed), u (unsigned) or f (floating point), of so
// many bytes each.
type Number struct {
	Kind  byte
	Size  int
	Order binary.ByteOrder
}

// Bits decodes an element to its bit pattern.
func (t Number) Bits() func([]byte) uint64 {
	switch t.Size {
	case 1:
		return func(b []byte) uint64 { return uint64(b[0]) }
	case 2:
		return func(b []byte) uint64 { return uint64(t.Order.Uint16(b)) }
	case 4:
		return func(b []byte) uint64 { return uint64(t.Order.Uint32(b)) }
	}
	return t.Order.Uint64
}

// Native says that elements are float64s as they lie in this machine's memory.
func (t Number) Native() bool {
	return t.Kind == 'f' && t.Size == 8 && t.Order != nil &&
		t.Order.Uint16([]byte{1, 0}) == binary.NativeEndian.Uint16([]byte{1, 0})
}

// Bytes are those of values in memory.
func Bytes(values []float64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 8*len(values))
}

// Floats decodes len(dst) elements to the nearest float64s.
func (t Number) Floats() func(dst []float64, b []byte) {
	if t.Native() {
		return func(dst []float64, b []byte) { copy(Bytes(dst), b) }
	}
	one := t.Float()
	return func(dst []float64, b []byte) {
		for i := range dst {
			dst[i] = one(b[i*t.Size:])
		}
	}
}

func (t Number) Float() func([]byte) float64 {
	bits := t.Bits()
	switch t.Kind {
	case 'b':
		return func(b []byte) float64 {
			if b[0] != 0 {
				return 1
			}
			return 0
		}
	case 'i':
		shift := 64 - 8*t.Size
		return func(b []byte) float64 { return float64(int64(bits(b)<<shift) >> shift) }
	case 'u':
		return func(b []byte) float64 { return float64(bits(b)) }
	}
	switch t.Size {
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

// Append appends a value to a buffer, in little-endian order; integers must be in the range of the type.
func (t Number) Append(buf []byte, v float64) []byte { return t.AppendBits(buf, t.bitsOf(v)) }

func (t Number) bitsOf(v float64) uint64 {
	switch {
	case t.Kind == 'f' && t.Size == 8:
		return math.Float64bits(v)
	case t.Kind == 'f':
		return uint64(math.Float32bits(float32(v)))
	}
	return uint64(int64(v))
}

// AppendBits appends the last bytes of a number, as many as the type has, in little-endian order.
func (t Number) AppendBits(buf []byte, v uint64) []byte {
	switch t.Size {
	case 1:
		return append(buf, byte(v))
	case 2:
		return binary.LittleEndian.AppendUint16(buf, uint16(v))
	case 4:
		return binary.LittleEndian.AppendUint32(buf, uint32(v))
	}
	return binary.LittleEndian.AppendUint64(buf, v)
}

// Put writes a value to the beginning of b, as Append does, in the type's own order.
func (t Number) Put(b []byte, v float64) {
	t.AppendBits(b[:0], t.bitsOf(v))
	if t.Order == binary.BigEndian {
		slices.Reverse(b[:t.Size])
	}
}
