package dataio_test

import (
	"testing"

	"surepipe/internal/dataio/ndarray"
)

func TestNearest(t *testing.T) {
	for _, c := range []struct {
		name       string
		candidates []string
		want       string
	}{
		{"lamda", []string{"gamma", "lambda", "lambda2"}, "lambda"},
		{"LAMBDA", []string{"lambda2", "lambda"}, "lambda"},
		{"y", []string{"X", "Y"}, "Y"},
		{"y", []string{"zz", "y_train"}, "y_train"},
		{"y", []string{"abc", "de"}, ""},
		{"wavelet", []string{"diagonal", "dense"}, ""},
		{"box", []string{"", "boxes"}, ""},
		{"", []string{"", "_y"}, ""},
		{"ab", []string{"ac", "ad"}, "ac"},
		{"y", nil, ""},
	} {
		if got := ndarray.Nearest(c.name, c.candidates); got != c.want {
			t.Errorf("Nearest(%q, %q) = %q, expected %q", c.name, c.candidates, got, c.want)
		}
	}
}
