package stored

import (
	"testing"
	"testing/fstest"
)

func TestGroupLimit(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	for name, c := range map[string]struct {
		files fstest.MapFS
		want  int64
	}{
		"no groups": {fstest.MapFS{}, 0},
		"version 2": {fstest.MapFS{
			"proc/self/cgroup":                  file("0::/jobs/one\n"),
			"sys/fs/cgroup/jobs/one/memory.max": file("max\n"),
			"sys/fs/cgroup/jobs/memory.max":     file("3000000000\n"),
		}, 3e9},
		"version 1": {fstest.MapFS{
			"proc/self/cgroup": file("5:cpu:/a\n4:memory:/jobs/one\n0::/\n"),
			"sys/fs/cgroup/memory/jobs/one/memory.limit_in_bytes": file("2000000000\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes":          file("9223372036854771712\n"),
		}, 2e9},
		"a container that sees its own group as the top": {fstest.MapFS{
			"proc/self/cgroup":         file("0::/docker/0123\n"),
			"sys/fs/cgroup/memory.max": file("1000000000\n"),
		}, 1e9},
		"no limit": {fstest.MapFS{
			"proc/self/cgroup":         file("0::/\n"),
			"sys/fs/cgroup/memory.max": file("max\n"),
		}, 0},
	} {
		if got := groupLimit(c.files); got != c.want {
			t.Errorf("%s: %d, expected %d", name, got, c.want)
		}
	}
	if Memory() <= 0 {
		t.Error("the machine has no memory")
	}
}
