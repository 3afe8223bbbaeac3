//go:build !unix

package pipeline

import "os/exec"

// inGroup does nothing where there are no process groups: the command alone is killed.
func inGroup(*exec.Cmd) {}
