//go:build !cuda

package main

import (
	"strings"
	"testing"

	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/study/request"
)

// A build without the GPU says how to get the one with it.
func TestDeviceCudaInAPlainBuild(t *testing.T) {
	for _, name := range []string{"cuda", "cuda:1"} {
		_, err := request.OpenDevice(t.Context(), name, 0)
		if !cli.BadUsage(err) || !strings.Contains(err.Error(), "go build -tags cuda") {
			t.Errorf("--device %s gives %v", name, err)
		}
	}
}
