package main

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"surepipe/internal/dataio"
)

// A series that comes as an array, with a mask, has the numbers and the arrays of the command's files.
func TestWorkerDenoisesASeriesAsTheCommand(t *testing.T) {
	c, _ := dial(t, nil)
	dir := t.TempDir()
	shape, volume := []int{12, 4, 9, 8}, 4*9*8
	y, mask := make([]float64, 12*volume), make([]float64, volume)
	for i := range y {
		y[i] = 50 + 10*math.Sin(float64(i/volume))*float64(i%8) + 3*math.Sin(float64(i)*float64(i))
	}
	for i := range mask {
		mask[i] = float64(min(i%8, 1))
	}
	file := func(name string) string { return filepath.Join(dir, name+".npy") }
	for name, a := range map[string]dataio.Array{"y": {Shape: shape, Data: y}, "mask": {Shape: shape[1:], Data: mask}} {
		if err := dataio.WriteNPY(file(name), a); err != nil {
			t.Fatal(err)
		}
	}
	want := object(t, "denoise", file("y"), "--mask", file("mask"), "--patch", "4", "--out", file("out"), "--df",
		file("df"), "--json")
	inline := func(shape []int, values []float64) params {
		b, err := binary.Append(nil, binary.LittleEndian, values)
		if err != nil {
			t.Fatal(err)
		}
		return params{"shape": shape, "base64": base64.StdEncoding.EncodeToString(b)}
	}
	given := params{"data": inline(shape, y), "mask": inline(shape[1:], mask)}
	found := ask(t, c, "denoise_series", params{"arrays": given, "patch": "4", "return": []string{"out", "df"}})
	if !reflect.DeepEqual(timeless(found["result"]), timeless(want)) {
		t.Errorf("%v\nthe command: %v", found["result"], want)
	}
	for _, name := range []string{"out", "df"} {
		set, err := dataio.Open(file(name))
		if err != nil {
			t.Fatal(err)
		}
		defer set.Close()
		one, err := set.Only()
		if err != nil {
			t.Fatal(err)
		}
		a, err := set.Floats(one)
		if err != nil {
			t.Fatal(err)
		}
		bits := inline(a.Shape, a.Data)["base64"]
		if got := found["arrays"].(params)[name].(params); got["base64"] != bits || !slices.Equal(ints(got["shape"]), a.Shape) {
			t.Errorf("%s: an array of the shape %v is not that of the file, %v", name, got["shape"], a.Shape)
		}
	}
	for want, bad := range map[string]params{
		"expected the file or the array of a series": {},
		"expected one of data, imaginary":            {"arrays": params{"z": given["mask"]}},
		"given twice":                                {"arrays": given, "data": file("y")},
		"return has":                                 {"arrays": given, "return": []string{"clean"}},
		"has 1 axes":                                 {"arrays": params{"data": params{"values": []float64{1, 2}}}},
	} {
		err := c.CallResult(t.Context(), "denoise_series", bad, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: expected %q", err, want)
		}
	}
}

func ints(v any) (all []int) {
	for _, k := range v.([]any) {
		all = append(all, int(k.(float64)))
	}
	return all
}
