package series

import (
	"os"
	"testing"

	"surepipe/array"
)

func TestMain(m *testing.M) {
	array.UseNative()
	os.Exit(m.Run())
}
