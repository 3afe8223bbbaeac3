package array_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
)

func TestDevicesConform(t *testing.T) {
	for _, dev := range arraytest.Devices(t) {
		t.Run(dev.Name(), func(t *testing.T) {
			arraytest.NoLeak(t, dev)
			arraytest.EachClaim(t, dev)
		})
	}
}

func TestHostBitsDoNotDependOnGOMAXPROCS(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	rng := rand.New(rand.NewPCG(1, 0))
	fill := func(k, n int) array.Batch {
		v := make([]float64, k*n)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		b := dev.Alloc(k, n)
		dev.Upload(b, v)
		return b
	}
	const k, n, p = 34, 700, 1300
	x, m, long, out := fill(k, n), fill(n, p), fill(3, 100003), dev.Alloc(k, p)
	defer func() {
		for _, b := range []array.Batch{x, m, long, out} {
			b.Free()
		}
	}()
	results := func() string {
		dots, norms := make([]float64, 3), make([]float64, 3)
		dev.Dot(dots, long, long)
		dev.MaxAbs(norms, long)
		dev.Gemm(false, false, 1, x, m, 0, out)
		all := out.ToHost()
		dev.Gemm(false, false, 1, x.Rows(0, 1), m, 0, out.Rows(0, 1))
		all = append(all, out.Rows(0, 1).ToHost()...)
		dev.GemmEach(false, false, 1, m.Reshape(1, n*p), array.Shape{Rows: n, Cols: p},
			out.Rows(0, 13).Reshape(1, 13*p),
			array.Shape{Rows: p, Cols: 13}, 0, x.Rows(0, 13).Reshape(1, 13*n))
		all = append(all, x.Rows(0, 13).ToHost()...)
		return fmt.Sprintf("%x %x %x", dots, norms, all)
	}
	keep := x.ToHost()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var want string
	for _, procs := range []int{1, 2, 8} {
		runtime.GOMAXPROCS(procs)
		dev.Upload(x, keep)
		got := results()
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("with GOMAXPROCS %d the bits differ from those with 1", procs)
		}
	}
}

func TestHostUseAfterFreePanics(t *testing.T) {
	dev := array.NewHost()
	b := dev.Alloc(2, 3)
	b.Free()
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, "2 x 3") || !strings.Contains(text, "freed") {
			t.Errorf("filling a freed batch panics with %q", text)
		}
	}()
	dev.Fill(b, 1)
}

func TestBatchesOfTwoHostsDoNotMix(t *testing.T) {
	a, b := array.NewHost().Alloc(2, 3), array.NewHost().Alloc(2, 3)
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, `"cpu"`) {
			t.Errorf("copying between hosts panics with %q", text)
		}
	}()
	a.Device().Copy(a, b)
}

func TestHostRowIsTheBatchsOwnMemory(t *testing.T) {
	dev := array.NewHost()
	b := dev.Alloc(3, 4)
	defer b.Free()
	dev.Fill(b, 0)
	row, ok := b.Rows(1, 3).Cols(1, 3).HostRow(1)
	if !ok || len(row) != 2 || cap(row) != 2 {
		t.Fatalf("HostRow gives %d values of %d, %t", len(row), cap(row), ok)
	}
	row[0] = 5
	if got := b.ToHost()[2*4+1]; got != 5 {
		t.Errorf("a value written through HostRow reads %v", got)
	}
	if _, ok := (array.Batch{}).HostRow(0); ok {
		t.Error("HostRow of the zero Batch succeeds")
	}
}

func TestElementwiseOperationsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools at random")
	}
	dev := array.NewHost()
	x, y, m := dev.Alloc(34, 3000), dev.Alloc(34, 3000), dev.Alloc(3000, 70)
	z := dev.Alloc(34, 70)
	for _, b := range []array.Batch{x, y, m, z} {
		dev.Fill(b, 1)
		defer b.Free()
	}
	out := make([]float64, 34)
	for name, op := range map[string]func(){
		"Lin":     func() { dev.Lin(y, 0.5, x, 2, y) },
		"LinEach": func() { dev.LinEach(y, out, x, out, y) },
		"Mul":     func() { dev.Mul(y, x, x) },
		"Soft":    func() { dev.Soft(y, x, array.Batch{}, 1) },
		"Dot":     func() { dev.Dot(out, x, y) },
		"MaxAbs":  func() { dev.MaxAbs(out, x) },
		"Alloc":   func() { dev.Alloc(34, 3000).Free() },
	} {
		// A garbage collection empties the pools: below one is none.
		if allocs := testing.AllocsPerRun(50, op); allocs >= 1 {
			t.Errorf("%s allocates %v times", name, allocs)
		}
	}
	if array.BLASInfo().Path != "" {
		if allocs := testing.AllocsPerRun(50, func() { dev.Gemm(false, false, 1, x, m, 0, z) }); allocs >= 1 {
			t.Errorf("Gemm allocates %v times", allocs)
		}
	}
}

// chosen starts this test binary again with SUREPIPE_BLAS set and returns what
// BLASInfo and UseNative say there.
func chosen(t *testing.T, choice string) (blas, err string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestBLASChild$", "-test.v")
	cmd.Env = append(os.Environ(), "SUREPIPE_BLAS="+choice, "SUREPIPE_BLAS_CHILD=1")
	out, runErr := cmd.CombinedOutput()
	if runErr != nil {
		t.Fatalf("%v: %s", runErr, out)
	}
	for line := range strings.Lines(string(out)) {
		if rest, ok := strings.CutPrefix(line, "BLAS\t"); ok {
			fields := strings.Split(strings.TrimSpace(rest), "\t")
			return fields[0], fields[1]
		}
	}
	t.Fatalf("no report in %s", out)
	return "", ""
}

func TestBLASChild(t *testing.T) {
	if os.Getenv("SUREPIPE_BLAS_CHILD") == "" {
		t.Skip("run by the tests of SUREPIPE_BLAS")
	}
	dev := array.NewHost()
	b := dev.Alloc(40, 40)
	dev.Fill(b, 1)
	c := dev.Alloc(40, 40)
	dev.Gemm(false, false, 1, b, b, 0, c)
	if got := c.ToHost()[1599]; got != 40 {
		t.Errorf("a product of ones gives %v, expected 40", got)
	}
	fmt.Printf("BLAS\t%s\t%v\t\n", cmp.Or(array.BLASInfo().Path, "gonum"), array.UseNative())
}

func TestVariableForcesTheBLAS(t *testing.T) {
	text := filepath.Join(t.TempDir(), "libtext.so")
	if err := os.WriteFile(text, []byte("not a library"), 0o644); err != nil {
		t.Fatal(err)
	}
	if blas, err := chosen(t, "gonum"); blas != "gonum" || err != "<nil>" {
		t.Errorf("SUREPIPE_BLAS=gonum gives %s, error %s", blas, err)
	}
	for _, path := range []string{text, filepath.Join(t.TempDir(), "absent.so")} {
		blas, err := chosen(t, path)
		if blas != "gonum" || !strings.HasPrefix(err, "SUREPIPE_BLAS="+path+" cannot be used") {
			t.Errorf("SUREPIPE_BLAS=%s gives %s, error %s", path, blas, err)
		}
	}
	found, err := chosen(t, "")
	if err != "<nil>" {
		t.Errorf("the search gives %s, error %s", found, err)
	}
	if found != "gonum" {
		if blas, err := chosen(t, found); blas != found || err != "<nil>" {
			t.Errorf("SUREPIPE_BLAS=%s gives %s, error %s", found, blas, err)
		}
	}
}

func TestConcurrentHostsShareOneBLAS(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			dev := array.NewHost()
			b := dev.Alloc(30, 30)
			dev.Gemm(false, true, 0, b, b, 0, dev.Alloc(30, 30))
		})
	}
	wg.Wait()
	r := array.BLASInfo()
	if (r.Path == "") != (r.Name == "gonum") || r.Reason == "" || !strings.Contains(r.String(), r.Name) {
		t.Errorf("BLASInfo gives %+v", r)
	}
}
