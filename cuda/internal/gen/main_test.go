package main

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	k, err := parse("kernels/soft_add.cu", []byte("#include \"device.h\"\n\n// f\nKERNEL soft_add(double *dst, "+
		"i64 ds,\n    const u64 *x, double a) {\n  __syncthreads();\n}\n"))
	if err != nil || k.name != "soft_add" || !k.barriers || len(k.params) != 3 {
		t.Fatalf("%+v, %v", k, err)
	}
	var types []string
	for _, p := range k.params {
		types = append(types, p.name+" "+p.goType)
	}
	if got, want := strings.Join(types, ", "), "dst operand, x cu.DevicePtr, a float64"; got != want {
		t.Errorf("parameters %s, expected %s", got, want)
	}
	code, err := wrappers([]kernel{k})
	if err != nil || !strings.Contains(string(code), "launchSoftAdd(g grid, dst operand, x cu.DevicePtr") {
		t.Errorf("%s, %v", code, err)
	}
	for name, source := range map[string]string{
		"narrow":  "\nKERNEL narrow(int n) {",
		"strange": "\nKERNEL strange(double a[3]) {",
		"other":   "\nKERNEL name(i64 n) {",
		"two":     "\nKERNEL two(i64 n) {\n}\nKERNEL three(i64 n) {",
		"none":    "\nvoid none(i64 n) {",
	} {
		if _, err := parse("kernels/"+name+".cu", []byte(source)); err == nil ||
			!strings.Contains(err.Error(), name+".cu") {
			t.Errorf("%q is taken: %v", source, err)
		}
	}
}
