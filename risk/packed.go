package risk

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"surepipe/internal/lists"
)

// Packed is a list of numbers of 32 bits, in a unit of their own: a power of two, so that the
// numbers are at most 1. It is exact to 6e-8 of its largest number, whatever the size of that. In
// JSON it is the unit and the numbers in base64, little endian:
//
//	{"unit":2,"float32":"AACAPw=="}
type Packed struct {
	Unit    float64
	Numbers []float32
}

// Pack rounds the numbers.
func Pack(x []float64) Packed {
	largest := lists.MaxAbs(x)
	p := Packed{Unit: 1, Numbers: make([]float32, len(x))}
	if largest > 0 && !math.IsInf(largest, 0) && !math.IsNaN(largest) {
		_, exponent := math.Frexp(largest)
		p.Unit = math.Ldexp(1, min(exponent, 1023))
	}
	for i, v := range x {
		p.Numbers[i] = float32(v / p.Unit)
	}
	return p
}

// At is number i.
func (p Packed) At(i int) float64 { return p.Unit * float64(p.Numbers[i]) }

// Len is how many numbers there are.
func (p Packed) Len() int { return len(p.Numbers) }

type packedText struct {
	Unit    float64 `json:"unit"`
	Float32 []byte  `json:"float32"`
}

// MarshalJSON writes the unit and the numbers.
func (p Packed) MarshalJSON() ([]byte, error) {
	text := packedText{Unit: p.Unit, Float32: make([]byte, 0, 4*len(p.Numbers))}
	for _, v := range p.Numbers {
		text.Float32 = binary.LittleEndian.AppendUint32(text.Float32, math.Float32bits(v))
	}
	return json.Marshal(text)
}

func (p *Packed) UnmarshalJSON(b []byte) error {
	var text packedText
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	if len(text.Float32)%4 != 0 {
		return fmt.Errorf("%d bytes in base64 (%q...), expected a multiple of 4", len(text.Float32),
			base64.StdEncoding.EncodeToString(text.Float32[:1]))
	}
	p.Unit, p.Numbers = text.Unit, make([]float32, len(text.Float32)/4)
	for i := range p.Numbers {
		p.Numbers[i] = math.Float32frombits(binary.LittleEndian.Uint32(text.Float32[4*i:]))
	}
	return nil
}
