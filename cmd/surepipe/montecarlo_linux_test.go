package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"surepipe/internal/dataio"
)

// watchPeak returns, when the process has ended, its peak of resident memory in bytes, but for what it
// reached in its last milliseconds. The peak that wait reports begins at this process's own, which other
// tests raise.
func watchPeak(pid int) <-chan int {
	peak := make(chan int, 1)
	go func() {
		most := 0
		for {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			_, after, ok := strings.Cut(string(status), "VmHWM:")
			var kB int
			if err != nil || !ok { // it has ended
				peak <- most
				return
			}
			if _, err := fmt.Sscan(after, &kB); err == nil {
				most = max(most, kB<<10)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return peak
}

// A stack of 20 GB, most of it a hole of the file: memory for the first 310 MB, and for the
// last two samples, is less than what is read, and the last is what it is alone.
func TestA20GBStackStreamsInLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads hundreds of megabytes")
	}
	const most = 288 << 20
	const d, n = 1 << 17, 19200
	dir := t.TempDir()
	data, stack := filepath.Join(dir, "data.npz"), filepath.Join(dir, "y.npy")
	x, y := make([]float64, d), make([]float64, d)
	for i := range x {
		x[i], y[i] = 1+math.Sin(float64(i)), math.Cos(float64(i*i%1000))
	}
	if err := dataio.WriteNPZ(data, floats("X", x, d, 1), floats("sigma2", []float64{1})); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(stack)
	if err != nil {
		t.Fatal(err)
	}
	var sample bytes.Buffer
	if err := dataio.EncodeNPY(&sample, floats("", y, 1, d)); err != nil {
		t.Fatal(err)
	}
	values := sample.Len() - 8*d
	header := strings.Replace(sample.String()[:values], fmt.Sprintf("(1, %d)", d), fmt.Sprintf("(%d, %d)", n, d), 1)
	// The header keeps its length: it is padded with spaces.
	header = strings.TrimRight(header, " \n")
	header += strings.Repeat(" ", values-len(header)-1) + "\n"
	if _, err := file.WriteString(header); err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt(sample.Bytes()[values:], int64(values)+8*d*(n-1)); err != nil {
		t.Skipf("no room for a sparse file: %v", err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(stack)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() < 20e9 {
		t.Fatalf("the stack has %d bytes", info.Size())
	}
	base := []string{"--problem", "ols", "--data", data, "--trace", "hutchinson", "--queries", "2"}
	last := ""
	for _, part := range [][]string{{"--samples", "300"}, {"--first", fmt.Sprint(n - 2)}} {
		cmd := program(t, append(append([]string{"mc", "--y", stack, "--parallel", "2"}, base...), part...)...)
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		peaks := watchPeak(cmd.Process.Pid)
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v: %v, %.300s", part, err, cmd.Stderr)
		}
		peak := <-peaks
		t.Logf("%v: peak %d MB, %v of CPU", part, peak>>20, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		if peak > most {
			t.Errorf("%v: %d bytes at the peak", part, peak)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		last = lines[len(lines)-2]
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(last), &got); err != nil {
		t.Fatal(err)
	}
	if err := dataio.WriteNPZ(data, floats("X", x, d, 1), floats("sigma2", []float64{1}),
		floats("y", y, d)); err != nil {
		t.Fatal(err)
	}
	want := object(t, append([]string{"run"}, base...)...)
	near(t, "residual of the last sample", got["residual"].(float64), want["residual"].(float64))
	if got["sample"].(float64) != n-1 {
		t.Errorf("the last line is of sample %v", got["sample"])
	}
}
