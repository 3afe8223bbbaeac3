//go:build !static && linux && amd64 && !android

package native

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas"
)

// heldVariable makes TestCoreChild hold the library open before it is corrected.
const heldVariable = "SUREPIPE_TEST_HELD"

// openedIn opens the machine's OpenBLAS in a process of its own and returns what
// TestCoreChild prints: core, own core, advice.
func openedIn(t *testing.T, env ...string) (core, own, advice string) {
	t.Helper()
	needOpenBLAS(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestCoreChild$", "-test.v")
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, coreVariable+"=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "SUREPIPE_TEST_CORE_CHILD=1")
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if rest, ok := strings.CutPrefix(line, "CORE\t"); ok {
			part := strings.Split(strings.TrimSuffix(rest, "\n"), "\t")
			return part[0], part[1], part[2]
		}
	}
	t.Fatalf("no report in %s", out)
	return "", "", ""
}

// needOpenBLAS skips a test where the machine has no OpenBLAS with kernels for
// many processors, or no processor that could be taken for a slower one.
func needOpenBLAS(t *testing.T) {
	t.Helper()
	lib := needLibrary(t)
	if lib.report.Name != "OpenBLAS" || !dynamic(lib.report.Version) {
		t.Skipf("%s is no OpenBLAS that chooses its kernels: %s", lib.report.Path, lib.report.Version)
	}
	if !processor().avx2 {
		t.Skip("the processor has no AVX2")
	}
}

func TestCoreChild(t *testing.T) {
	if os.Getenv("SUREPIPE_TEST_CORE_CHILD") == "" {
		t.Skip("run by the tests of the choice of kernels")
	}
	firstCore = os.Getenv(firstCoreVariable)
	if os.Getenv(heldVariable) != "" {
		for _, path := range candidates() {
			if _, err := loadAs(path, firstCore); err == nil {
				break
			}
		}
	}
	before, was := getenv(coreVariable)
	lib := needLibrary(t)
	if after, is := getenv(coreVariable); after != before || is != was {
		t.Errorf("%s was %q (set: %v) and is %q (set: %v)", coreVariable, before, was, after, is)
	}
	inherited, err := exec.Command("/bin/sh", "-c", `printf %s "$`+coreVariable+`"`).Output()
	if err != nil || string(inherited) != before {
		t.Errorf("a child process sees %s=%q, expected %q (%v)", coreVariable, inherited, before, err)
	}
	// The library that was loaded last is the one that computes.
	const n = 200
	a, c := make([]float64, n*n), make([]float64, n*n)
	for i := range a {
		a[i] = 1
	}
	lib.float64().Dgemm(blas.NoTrans, blas.Trans, n, n, n, 1, a, n, a, n, 0, c, n)
	if c[0] != n || c[n*n-1] != n {
		t.Errorf("a product of ones gives %v and %v, expected %d", c[0], c[n*n-1], n)
	}
	if r := lib.report; !strings.Contains(r.Version, r.Core) {
		t.Errorf("the version %q does not name the core %s", r.Version, r.Core)
	}
	fmt.Printf("CORE\t%s\t%s\t%s\n", lib.report.Core, lib.report.OwnCore, lib.report.Advice)
}

func TestAnUnknownProcessorGetsFastKernels(t *testing.T) {
	for _, first := range []string{"Prescott", "Nehalem", "Sandybridge"} {
		core, own, advice := openedIn(t, firstCoreVariable+"="+first)
		if want := processor().cores()[0]; core != want || own != first || advice != "" {
			t.Errorf("%s was corrected to %q from %q, expected %q; the advice is %q", first, core, own, want, advice)
		}
	}
}

func TestAKnownProcessorIsLeftAlone(t *testing.T) {
	core, own, advice := openedIn(t, firstCoreVariable+"=Haswell")
	if core != "Haswell" || own != "" || advice != "" {
		t.Errorf("Haswell became %q, from %q; the advice is %q", core, own, advice)
	}
}

func TestTheUsersCoreIsRespected(t *testing.T) {
	core, own, advice := openedIn(t, coreVariable+"=Prescott")
	if core != "Prescott" || own != "" || !strings.Contains(advice, "unset "+coreVariable+"=Prescott") {
		t.Errorf("the user's Prescott became %q, from %q; the advice is %q", core, own, advice)
	}
}

// A variable without a value is no choice, though OpenBLAS complains of it.
func TestAnEmptyVariableIsNoChoice(t *testing.T) {
	core, own, advice := openedIn(t, coreVariable+"=", firstCoreVariable+"=Prescott")
	if want := processor().cores()[0]; core != want || own != "Prescott" || advice != "" {
		t.Errorf("the core is %q, from %q, expected %q; the advice is %q", core, own, want, advice)
	}
}

func TestALibraryHeldOpenIsReported(t *testing.T) {
	core, own, advice := openedIn(t, heldVariable+"=1", firstCoreVariable+"=Prescott")
	if want := "set " + coreVariable + "=" + processor().cores()[0]; core != "Prescott" || own != "" ||
		!strings.Contains(advice, want) {
		t.Errorf("a library that cannot be closed has core %q, from %q; the advice is %q", core, own, advice)
	}
}
