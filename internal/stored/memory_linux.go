package stored

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Memory is the memory that the process may use in bytes: the machine's, or the limit of the control
// group that it runs in (a container, a job of a scheduler), if that is less. It is 0 where neither is
// known. It is looked up once.
func Memory() int64 { return memory() }

var memory = sync.OnceValue(func() int64 {
	var info unix.Sysinfo_t
	total := int64(0)
	if unix.Sysinfo(&info) == nil {
		total = int64(info.Totalram) * int64(info.Unit)
	}
	if limit := groupLimit(os.DirFS("/")); limit > 0 && (limit < total || total == 0) {
		return limit
	}
	return total
})

// Disk is how many bytes can still be written to a folder; 0 where that is not known.
func Disk(folder string) int64 {
	var info unix.Statfs_t
	if unix.Statfs(folder, &info) != nil {
		return 0
	}
	return int64(info.Bavail) * info.Bsize
}

// groupLimit is the least limit of the control group of this process and of those around it, of either
// version of Linux's control groups; 0 for none.
func groupLimit(root fs.FS) int64 {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	least := int64(0)
	for line := range strings.Lines(string(groups)) {
		field := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(field) < 3 {
			continue
		}
		top, file := "", ""
		switch {
		case field[0] == "0" && field[1] == "":
			top, file = "sys/fs/cgroup", "memory.max"
		case field[1] == "memory":
			top, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		// In a container the group of the process is often the top of what is mounted.
		for group := path.Join("/", field[2]); ; group = path.Dir(group) {
			text, err := fs.ReadFile(root, path.Join(top, group, file))
			if limit, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && bad == nil &&
				limit > 0 && (least == 0 || limit < least) {
				least = limit
			}
			if group == "/" {
				break
			}
		}
	}
	return least
}
