package main

import (
	"os"
	"os/exec"
	"testing"
)

// inOwnProcess reports whether the test runs in a process of its own. Where it does not, it runs the test in one, and
// fails with it: a row that is added to a table stays there for the rest of a process.
func inOwnProcess(t *testing.T) bool {
	t.Helper()
	const child = "SUREPIPE_TEST_CHILD"
	if os.Getenv(child) == t.Name() {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), child+"="+t.Name())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return false
}
