package study

import (
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"math"
	"reflect"
	"sync"
	"unsafe"

	"surepipe/internal/dataio/ndarray"
	"surepipe/problems"
	"surepipe/problems/spec"
)

// hasher collects words, so that large arrays are hashed in large pieces.
type hasher struct {
	hash.Hash
	buf []byte
}

// DataDigest is a [DataHash] of a header, which is computed where it is asked for: it takes a look at all of X.
type DataDigest func() string

func newDataDigest(data problems.Data) DataDigest {
	return sync.OnceValue(func() string { return DataHash(data) })
}

func (d DataDigest) MarshalJSON() ([]byte, error) {
	if d == nil {
		return []byte(`""`), nil
	}
	return json.Marshal(d())
}

func (d *DataDigest) UnmarshalJSON(text []byte) error {
	var hash string
	err := json.Unmarshal(text, &hash)
	*d = func() string { return hash }
	return err
}

// DataHash is a hash of all the data of a problem: numbers, shapes, and which fields are absent.
func DataHash(data problems.Data) string {
	h := hasher{Hash: sha256.New(), buf: make([]byte, 0, 1<<15)}
	if data.Spec != nil {
		h.all(data.Spec.Hashed()...)
	}
	x, d := spec.MatrixOf(data.X), spec.MatrixOf(data.D)
	if x.Stored != nil {
		h.Write(x.Stored.Hash[:])
	}
	// X, y and indices have the values of a table and of entries.
	if s := data.Shared; s != nil && data.Spec == nil && x.Dense != nil {
		h.resume(s.Hash(func() []byte {
			one := hasher{Hash: sha256.New(), buf: make([]byte, 0, 1<<15)}
			one.all(x.Dense)
			return one.state()
		}))
	} else {
		h.all(x.Dense)
	}
	h.all(x.Sparse, data.Y, data.YShape, data.Indices, data.Shape, d.Dense, d.Sparse, data.Groups,
		data.Complex, data.Mu, data.Sigma2, data.Lambda, data.Lambda2, data.Gamma, data.Intercept, data.Effects,
		data.Weights, data.Beside, data.Loss, data.Standardize, data.Variant, data.At, data.Depth, data.Ignored,
		data.Labels, data.Frames)
	h.flush()
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

func (h *hasher) state() []byte {
	h.flush()
	state, err := h.Hash.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		panic(err) // those of the standard library have a state
	}
	return state
}

func (h *hasher) resume(state []byte) {
	if err := h.Hash.(encoding.BinaryUnmarshaler).UnmarshalBinary(state); err != nil {
		panic(err)
	}
}

func (h *hasher) all(values ...any) {
	for _, v := range values {
		h.add(reflect.ValueOf(v))
	}
}

func (h *hasher) word(v uint64) {
	if len(h.buf) == cap(h.buf) {
		h.flush()
	}
	at := len(h.buf)
	h.buf = h.buf[:at+8]
	binary.LittleEndian.PutUint64(h.buf[at:], v)
}

func (h *hasher) flush() {
	h.Write(h.buf)
	h.buf = h.buf[:0]
}

// floats hashes the words of values, without a copy where the machine has them as they are hashed.
func (h *hasher) floats(values []float64) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		h.flush()
		h.Write(ndarray.Bytes(values))
		return
	}
	for _, x := range values {
		h.word(math.Float64bits(x))
	}
}

// add hashes a value of numbers, strings, structs, slices and pointers, unambiguously: different
// values give different words.
func (h *hasher) add(v reflect.Value) {
	switch v.Kind() {
	case reflect.Float64:
		h.word(math.Float64bits(v.Float()))
	case reflect.Int, reflect.Int64:
		h.word(uint64(v.Int()))
	case reflect.Bool:
		h.word(map[bool]uint64{true: 1}[v.Bool()])
	case reflect.String:
		h.word(uint64(v.Len()))
		for _, b := range []byte(v.String()) {
			h.word(uint64(b))
		}
	case reflect.Slice:
		if v.IsNil() {
			h.word(math.MaxUint64)
			return
		}
		h.word(uint64(v.Len()))
		if v.Type().Elem().Kind() == reflect.Float64 {
			h.floats(unsafe.Slice((*float64)(v.UnsafePointer()), v.Len()))
			return
		}
		for i := range v.Len() {
			h.add(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			h.add(v.Field(i))
		}
	case reflect.Pointer:
		if v.IsNil() {
			h.word(math.MaxUint64)
			return
		}
		h.word(1)
		h.add(v.Elem())
	default:
		panic(fmt.Sprintf("surepipe: data of kind %s cannot be hashed", v.Kind()))
	}
}
