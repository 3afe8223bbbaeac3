//go:build unix

package pipeline

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// inGroup runs a command in a process group of its own, which is killed with all of its children
// when the context ends.
func inGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
}
