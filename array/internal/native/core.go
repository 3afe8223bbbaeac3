package native

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/cpu"
)

// coreVariable names the processor type whose kernels OpenBLAS takes. OpenBLAS reads it once, when
// it is loaded.
const coreVariable = "OPENBLAS_CORETYPE"

// features decides which of OpenBLAS's kernels a processor can run: the instructions that both the
// processor and the operating system support.
type features struct {
	avx2, avx512 bool
}

// processor asks the machine for its instructions. The model does not matter: the kernels need only
// the instructions, and the models in question are too new for the library.
func processor() features {
	if runtime.GOARCH != "amd64" {
		return features{}
	}
	x := &cpu.X86
	f := features{avx2: x.HasAVX2 && x.HasFMA}
	// What GCC's -march=skylake-avx512, with which the SkylakeX kernels are
	// compiled, may use.
	f.avx512 = f.avx2 && x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512BW && x.HasAVX512VL && x.HasAVX512CD
	return f
}

func (f features) String() string {
	switch {
	case f.avx512:
		return "AVX-512"
	case f.avx2:
		return "AVX2"
	}
	return "neither AVX2 nor AVX-512"
}

// cores lists the names by which OpenBLAS knows kernels for these instructions,
// the fastest first. Haswell's serve AMD's processors too: Zen's are the same
// with other block sizes. Newer names (Cooperlake, SapphireRapids) only add
// arithmetic in half precision, and older versions do not know them.
func (f features) cores() []string {
	switch {
	case f.avx512:
		return []string{"SkylakeX", "Haswell"}
	case f.avx2:
		return []string{"Haswell"}
	}
	return nil
}

// oldCores are kernels for processors before AVX2, at most half as fast as
// Haswell's where there is AVX2. AMD's Bulldozer and its successors are not
// among them: their vectors are narrow, and OpenBLAS knows them all.
var oldCores = []string{
	"generic", "katmai", "coppermine", "northwood", "prescott", "banias", "atom",
	"core2", "penryn", "dunnington", "nehalem", "athlon", "opteron",
	"opteron_sse3", "barcelona", "nano", "bobcat", "sandybridge",
}

// slow reports whether a core's kernels are far slower than the best that the processor can run.
func (f features) slow(core string) bool {
	return f.avx2 && slices.Contains(oldCores, strings.ToLower(core))
}

// corrections lists the cores to load OpenBLAS with in place of the one that it chose, best first:
// none where that one is fast enough, where the user chose it, or where the library has no other.
func corrections(f features, core, config, users string) []string {
	if users != "" || !f.slow(core) || !dynamic(config) {
		return nil
	}
	return f.cores()
}

func dynamic(config string) bool {
	return slices.Contains(strings.Fields(config), "DYNAMIC_ARCH")
}

// advice says what a user can do about kernels that are slow for the processor; "" where they are
// not slow.
func advice(f features, core, config, users string) string {
	switch {
	case !f.slow(core):
		return ""
	case !dynamic(config):
		return fmt.Sprintf("slow for this processor, which has %v: this OpenBLAS was built only for %s; install "+
			"one built with DYNAMIC_ARCH", f, core)
	case users != "":
		return fmt.Sprintf("slow for this processor, which has %v: unset %s=%s, or set %s=%s", f, coreVariable, users,
			coreVariable, f.cores()[0])
	}
	return fmt.Sprintf("slow for this processor, which has %v: set %s=%s", f, coreVariable, f.cores()[0])
}
