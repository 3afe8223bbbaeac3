package array_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/blas/gonum"

	"surepipe/array"
)

// plain is set in the environment of a test process that does not ask for a native BLAS.
const plain = "SUREPIPE_TEST_PLAIN"

// Tests and benchmarks compute with the BLAS that the command would use.
func init() {
	if os.Getenv(plain) == "" {
		array.UseNative()
	}
}

// A program that makes a host device, and does not call UseNative, keeps gonum's own BLAS and is
// told how to ask for another.
func TestNewHostRegistersNothing(t *testing.T) {
	if os.Getenv(plain) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestNewHostRegistersNothing$", "-test.v")
		cmd.Env = append(os.Environ(), plain+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	dev := array.NewHost()
	b, c := dev.Alloc(40, 40), dev.Alloc(40, 40)
	dev.Fill(b, 1)
	dev.Gemm(false, false, 1, b, b, 0, c)
	if got := c.ToHost()[1599]; got != 40 {
		t.Errorf("a product of ones gives %v, expected 40", got)
	}
	if other, err := array.Open("cpu", 0); err != nil || other == nil {
		t.Errorf("Open gives %v", err)
	}
	if _, own := blas64.Implementation().(gonum.Implementation); !own {
		t.Errorf("NewHost has registered a %T with gonum", blas64.Implementation())
	}
	if r := array.BLASInfo(); r.Name != "gonum" || !strings.Contains(r.Reason, "UseNative") {
		t.Errorf("BLASInfo gives %+v", r)
	}
}
