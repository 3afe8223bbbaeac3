//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"surepipe/internal/dataio"
)

// A signal ends the program with 128 and its number, while it waits for a sample as
// while it computes.
func TestSignalsEndWithTheirStatus(t *testing.T) {
	var stack bytes.Buffer
	if err := dataio.EncodeNPY(&stack, floats("y", make([]float64, 3*6), 3, 2, 3)); err != nil {
		t.Fatal(err)
	}
	waiting := []string{"mc", "--problem", "svt", "--y", "-", "--sigma2", "1", "--lambda", "1"}
	busy := []string{"mc", "--problem", "svt", "--data", smallRPCA, "--lambda", "20", "--samples", "1000000"}
	for _, c := range []struct {
		signal syscall.Signal
		status int
		says   string
	}{{syscall.SIGINT, 130, "surepipe: interrupted\n"}, {syscall.SIGTERM, 143, "surepipe: terminated\n"}} {
		for name, args := range map[string][]string{"waiting": waiting, "busy": busy} {
			t.Run(fmt.Sprint(name, " ", c.signal), func(t *testing.T) {
				cmd := program(t, args...)
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				in, err := cmd.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				// One sample of the stack, and then nothing.
				if name == "waiting" {
					if _, err := in.Write(stack.Bytes()[:stack.Len()-2*6*8]); err != nil {
						t.Fatal(err)
					}
				}
				lines := bufio.NewReader(out)
				if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, `{"sample":0,`) {
					t.Errorf("the first line is %q, %v", line, err)
				}
				if err := cmd.Process.Signal(c.signal); err != nil {
					t.Fatal(err)
				}
				lines.WriteTo(&bytes.Buffer{})
				cmd.Wait()
				in.Close()
				if status := cmd.ProcessState.ExitCode(); status != c.status ||
					!strings.HasSuffix(stderr.String(), c.says) {
					t.Errorf("status %d, expected %d, %s", status, c.status, stderr.String())
				}
			})
		}
	}
}
