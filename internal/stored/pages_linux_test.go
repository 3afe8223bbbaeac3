package stored

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestTheHeapComesInHugePages(t *testing.T) {
	setting, _ := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if !strings.Contains(string(setting), "[madvise]") {
		t.Skipf("transparent huge pages are at %q, and not given to those who ask", setting)
	}
	HugePages()
	var kept [][]byte
	for range 64 { // 256 MB, of which what is touched before it was asked for comes in small pages
		b := make([]byte, 4<<20)
		for i := range b {
			b[i] = byte(i)
		}
		kept = append(kept, b)
	}
	text, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		t.Skip(err)
	}
	found := regexp.MustCompile(`AnonHugePages: +(\d+) kB`).FindSubmatch(text)
	if found == nil {
		t.Skip("the system does not say how much is in huge pages")
	}
	if kB, _ := strconv.Atoi(string(found[1])); kB < 64<<10 {
		t.Errorf("%d kB of %d MB are in huge pages, less than a quarter", kB, 4*len(kept))
	}
}
