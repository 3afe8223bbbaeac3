package dataio

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"surepipe/internal/dataio/ndarray"
)

// dtype is numpy's type of a real number.
type dtype struct {
	ndarray.Number
	text string
}

func (t dtype) String() string { return t.text }

func parseDtype(text string) (dtype, error) {
	t := dtype{ndarray.Number{Order: binary.LittleEndian}, text}
	kind := strings.TrimLeft(text, "<>|=")
	if len(text)-len(kind) > 1 || len(kind) < 2 {
		return t, dtypeError(text, "real numbers")
	}
	if text[0] == '>' {
		t.Order = binary.BigEndian
	}
	t.Kind = kind[0]
	t.Size, _ = strconv.Atoi(kind[1:])
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
