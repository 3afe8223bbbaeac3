package main

import (
	"net/http"
	"os"
	"regexp"
	"runtime"
	"testing"
	"time"

	"surepipe/array"
)

func TestMain(m *testing.M) {
	array.UseNative() // starts goroutines that stay
	os.Exit(m.Run())
}

// seconds are the times in results.
var seconds = regexp.MustCompile(`"seconds":(\{[^}]*\}|[0-9.e+-]+),?`)

// idle waits until nothing is in work: no memory is reserved, and few goroutines are left.
func idle(t *testing.T, s *service) {
	t.Helper()
	http.DefaultClient.CloseIdleConnections()
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if n := runtime.NumGoroutine(); s.used.Load() == 0 && n < 40 {
			return
		} else if time.Since(begin) > 20*time.Second {
			text := make([]byte, 1<<20)
			t.Fatalf("%d bytes are reserved, and %d goroutines run:\n%s", s.used.Load(), n,
				text[:runtime.Stack(text, true)])
		}
	}
}
