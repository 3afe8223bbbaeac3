package native

import (
	"slices"
	"strings"
	"testing"
)

const (
	manyCores = "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH NO_AFFINITY Prescott MAX_THREADS=64"
	oneCore   = "OpenBLAS 0.3.21 NO_LAPACKE NO_AFFINITY Prescott MAX_THREADS=64"
)

func TestSlowCoresAreCorrected(t *testing.T) {
	var (
		old    = features{}
		avx2   = features{avx2: true}
		avx512 = features{avx2: true, avx512: true}
	)
	for _, c := range []struct {
		name                string
		f                   features
		core, config, users string
		want                []string
		// advice holds what must be said if nothing is, or can be, corrected.
		advice string
	}{
		{"a new Xeon", avx512, "Prescott", manyCores, "", []string{"SkylakeX", "Haswell"},
			"set OPENBLAS_CORETYPE=SkylakeX"},
		{"a new desktop processor", avx2, "Prescott", manyCores, "", []string{"Haswell"},
			"set OPENBLAS_CORETYPE=Haswell"},
		{"Nehalem", avx2, "Nehalem", manyCores, "", []string{"Haswell"}, "AVX2"},
		{"Core2", avx2, "Core2", manyCores, "", []string{"Haswell"}, "AVX2"},
		{"an unknown AMD", avx512, "Barcelona", manyCores, "", []string{"SkylakeX", "Haswell"}, "AVX-512"},
		{"no AVX2 kernels chosen", avx2, "Sandybridge", manyCores, "", []string{"Haswell"}, "AVX2"},
		{"in any case", avx512, "PRESCOTT", manyCores, "", []string{"SkylakeX", "Haswell"}, "AVX-512"},
		{"SkylakeX", avx512, "SkylakeX", manyCores, "", nil, ""},
		{"a newer core", avx512, "SapphireRapids", manyCores, "", nil, ""},
		{"Haswell is not far below", avx512, "Haswell", manyCores, "", nil, ""},
		{"Haswell", avx2, "Haswell", manyCores, "", nil, ""},
		{"Zen", avx2, "Zen", manyCores, "", nil, ""},
		{"Zen 4", avx512, "Zen", manyCores, "", nil, ""},
		{"Excavator has AVX2", avx2, "Excavator", manyCores, "", nil, ""},
		{"an old processor", old, "Prescott", manyCores, "", nil, ""},
		{"no AVX2", old, "Sandybridge", manyCores, "", nil, ""},
		{"another architecture", old, "neoversen1", manyCores, "", nil, ""},
		{"the generic core of another architecture", old, "armv8", manyCores, "", nil, ""},
		{"a name of tomorrow", avx512, "LunarLake", manyCores, "", nil, ""},
		{"no name", avx512, "", manyCores, "", nil, ""},
		{"the user's Prescott", avx512, "Prescott", manyCores, "Prescott", nil,
			"unset OPENBLAS_CORETYPE=Prescott, or set OPENBLAS_CORETYPE=SkylakeX"},
		{"the user's mistake", avx2, "Prescott", manyCores, "Hasvell", nil,
			"unset OPENBLAS_CORETYPE=Hasvell, or set OPENBLAS_CORETYPE=Haswell"},
		{"the user's Haswell", avx512, "Haswell", manyCores, "haswell", nil, ""},
		{"one core alone", avx512, "Prescott", oneCore, "", nil, "install one built with DYNAMIC_ARCH"},
		{"one core alone, and a variable without effect", avx512, "Prescott", oneCore, "SkylakeX", nil,
			"install one built with DYNAMIC_ARCH"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := corrections(c.f, c.core, c.config, c.users); !slices.Equal(got, c.want) {
				t.Errorf("corrected to %q, expected %q", got, c.want)
			}
			got := advice(c.f, c.core, c.config, c.users)
			if !strings.Contains(got, c.advice) || (got == "") != (c.advice == "") {
				t.Errorf("the advice is %q, expected %q", got, c.advice)
			}
		})
	}
}

func TestCorrectionsAreNotSlow(t *testing.T) {
	for _, f := range []features{{avx2: true}, {avx2: true, avx512: true}} {
		for _, core := range f.cores() {
			if f.slow(core) {
				t.Errorf("%s is slow where there is %v", core, f)
			}
		}
	}
}
