//go:build !cuda

package main

import (
	"strings"
	"testing"
)

// A build without the GPU says how to get the one with it.
func TestDeviceCudaInAPlainBuild(t *testing.T) {
	for _, name := range []string{"cuda", "cuda:1"} {
		_, err := openDevice(t.Context(), name, 0)
		if _, ok := err.(usageError); !ok || !strings.Contains(err.Error(), "go build -tags cuda") {
			t.Errorf("--device %s gives %v", name, err)
		}
	}
}
