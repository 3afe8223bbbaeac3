package study

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
	"reflect"

	"surepipe/problems"
)

// hasher collects words, so that large arrays are hashed in large pieces.
type hasher struct {
	hash.Hash
	buf []byte
}

// DataHash is a hash of all the data of a problem: numbers, shapes, and which fields are absent.
func DataHash(data problems.Data) string {
	h := hasher{Hash: sha256.New()}
	if data.Spec != nil {
		sum := data.Spec.Hash()
		h.Write(sum[:])
		data.Spec = nil
	}
	if data.Mapped != nil {
		h.Write(data.Mapped.Hash[:])
		data.Mapped = nil
	}
	data.Table, data.Entries = nil, nil // X, y and Indices have their values
	h.add(reflect.ValueOf(data))
	h.flush()
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

func (h *hasher) word(v uint64) {
	h.buf = binary.LittleEndian.AppendUint64(h.buf, v)
	if len(h.buf) >= 1<<15 {
		h.flush()
	}
}

func (h *hasher) flush() {
	h.Write(h.buf)
	h.buf = h.buf[:0]
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
