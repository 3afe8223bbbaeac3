//go:build static || android || ios || !(linux || darwin || windows) || !(amd64 || arm64 || loong64 || riscv64)

package native

import (
	"gonum.org/v1/gonum/blas"
)

type library struct{ report Report }

func (*library) register()             {}
func (*library) float64() blas.Float64 { return nil }

func candidates() []string { return nil }

func open(path string, _ bool) (*library, error) {
	return nil, passedOver(path, "this build of surepipe opens no libraries: it has the tag static, or is for a "+
		"platform where that is not supported")
}
