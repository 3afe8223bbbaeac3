package main

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"time"
)

// However far a run has come when it is cancelled, it ends as interrupted and prints no result: what a
// stopped device has not computed reaches nobody.
func TestStoppedRunsPrintNothing(t *testing.T) {
	data := filepath.Join(t.TempDir(), "ratings.npz")
	if status := execute(t.Context(), []string{"generate", "--problem", "matrix-completion", "--rows", "900",
		"--cols", "700", "--entries", "30000", "--out", data}, &bytes.Buffer{}, &bytes.Buffer{}); status != exitDone {
		t.Fatalf("generate: status %d", status)
	}
	args := []string{"run", "--problem", "matrix-completion", "--data", data, "--lambda", "0.3max", "--queries", "4",
		"--json"}
	interrupted := 0
	for after := time.Duration(0); ; after += 5*time.Millisecond + after/3 {
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(after, cancel)
		var out, errs bytes.Buffer
		status := execute(ctx, args, &out, &errs)
		timer.Stop()
		done := ctx.Err() == nil
		cancel()
		if status == exitDone {
			if out.Len() == 0 {
				t.Errorf("after %v: no result", after)
			}
			if done {
				break
			}
			continue
		}
		interrupted++
		if status != exitInterrupted || out.Len() > 0 {
			t.Errorf("after %v: status %d, %s%s", after, status, out.String(), errs.String())
		}
	}
	if interrupted < 3 {
		t.Errorf("%d runs were interrupted", interrupted)
	}
}
