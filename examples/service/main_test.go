package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// start serves on the loopback address.
func start(t *testing.T, budget int64) (*service, string) {
	t.Helper()
	s := newService(budget, 64<<20)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.URL
}

// send is the status and the body of an answer.
func send(ctx context.Context, method, url string, body []byte) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, text, err
}

// table is a response y and columns, of which two matter.
func table(rows, columns int) []byte {
	var text bytes.Buffer
	r := rand.New(rand.NewPCG(1, 2))
	text.WriteString("y")
	for j := range columns {
		fmt.Fprintf(&text, ",x%d", j)
	}
	for range rows {
		x := make([]float64, columns)
		for j := range x {
			x[j] = r.NormFloat64()
		}
		fmt.Fprintf(&text, "\n%.4f", 2*x[0]-x[1]+0.5*r.NormFloat64())
		for _, v := range x {
			fmt.Fprintf(&text, ",%.4f", v)
		}
	}
	return append(text.Bytes(), '\n')
}

// photograph is a noisy square.
func photograph(t *testing.T) []byte {
	t.Helper()
	m := image.NewGray(image.Rect(0, 0, 16, 16))
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 16 {
		for j := range 16 {
			v := 80 + 12*r.NormFloat64()
			if i > 4 && i < 12 && j > 4 && j < 12 {
				v += 100
			}
			m.SetGray(i, j, color.Gray{Y: uint8(min(max(v, 0), 255))})
		}
	}
	var text bytes.Buffer
	if err := png.Encode(&text, m); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

// entries are half of the entries of a matrix of rank 1.
func entries(n int) []byte {
	text := []byte("row,column,value\n")
	for i := range n {
		for j := range n {
			if (i*7+j*3)%2 == 0 {
				text = fmt.Appendf(text, "r%d,c%d,%g\n", i, j, float64((i+1)*(j%5+1))+0.1*float64((i*j)%3))
			}
		}
	}
	return text
}

const sequence = "[1,1.2,0.9,1.1,3,3.2,2.9,3.1]\n"

// Two hundred requests of all kinds, sixteen at once, get the answers that one alone gets.
func TestLoad(t *testing.T) {
	s, url := start(t, 4<<30)
	kinds := []struct {
		method, path string
		body         []byte
	}{
		{"POST", "/fit?response=y", table(60, 5)},
		{"POST", "/denoise", photograph(t)},
		{"POST", "/stream?lambda=0.5&sigma2=0.02&n=8", []byte(strings.Repeat(sequence, 5))},
		{"PUT", "/sweeps/one?response=y", table(60, 5)},
		{"POST", "/fit?response=z", table(60, 5)},
	}
	var want []string
	clean := func(text []byte) string { return seconds.ReplaceAllString(string(text), "") }
	for i, k := range kinds {
		status, text, err := send(t.Context(), k.method, url+k.path, k.body)
		if err != nil || (status != http.StatusOK) != (i == 4) {
			t.Fatalf("%s: %d %s %v", k.path, status, text, err)
		}
		want = append(want, clean(text))
	}
	if !strings.Contains(want[4], `"field"`) || strings.Count(want[2], "\n") != 5 {
		t.Errorf("%s\n%s", want[4], want[2])
	}
	requests := 200
	if testing.Short() {
		requests = 20
	}
	var g sync.WaitGroup
	places := make(chan bool, 16)
	for i := range requests {
		g.Go(func() {
			places <- true
			defer func() { <-places }()
			k := kinds[i%len(kinds)]
			_, text, err := send(t.Context(), k.method, url+k.path, k.body)
			if err != nil || clean(text) != want[i%len(kinds)] {
				t.Errorf("%s: %v\n%s\nexpected\n%s", k.path, err, text, want[i%len(kinds)])
			}
		})
	}
	g.Wait()
	idle(t, s)
}

// A job says how far it is, and ends when it is cancelled.
func TestJobs(t *testing.T) {
	s, url := start(t, 4<<30)
	side := 40
	if testing.Short() {
		side = 12
	}
	for _, cancel := range []bool{false, true} {
		status, text, err := send(t.Context(), "POST", url+"/jobs", entries(side))
		var j struct{ Job, State string }
		if err != nil || status != http.StatusAccepted || json.Unmarshal(text, &j) != nil {
			t.Fatalf("%d %s %v", status, text, err)
		}
		begin := time.Now()
		for method := "GET"; j.State != "done" && time.Since(begin) < time.Minute; {
			if cancel {
				method = "DELETE"
			}
			if status, text, err = send(t.Context(), method, url+"/jobs/"+j.Job, nil); err != nil {
				t.Fatal(err)
			}
			if cancel || status != http.StatusOK {
				break
			}
			if err := json.Unmarshal(text, &j); err != nil {
				t.Fatal(err)
			}
		}
		if !cancel && j.State != "done" {
			t.Errorf("%d %s", status, text)
		}
	}
	idle(t, s)
}

// Fifty large requests at once take no more memory than the budget allows: they wait for each other, and few are sent away.
func TestMemoryIsBounded(t *testing.T) {
	const budget = 256 << 20
	s, url := start(t, budget)
	body := table(4000, 50)
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	most, stop, stopped := uint64(0), make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				runtime.ReadMemStats(&now)
				most = max(most, now.HeapAlloc)
			}
		}
	}()
	var g sync.WaitGroup
	var mu sync.Mutex
	count := map[int]int{}
	for range 50 {
		g.Go(func() {
			status, text, err := send(t.Context(), "POST", url+"/fit?response=y", body)
			if err != nil || status != http.StatusOK && status != http.StatusServiceUnavailable {
				t.Errorf("%d %s %v", status, text, err)
			}
			mu.Lock()
			defer mu.Unlock()
			count[status]++
		})
	}
	g.Wait()
	close(stop)
	<-stopped
	// The bodies of all requests are in memory at once, on both sides.
	if limit := uint64(2*budget + 50*4*len(body)); most-before.HeapAlloc > limit || count[http.StatusOK] < 10 {
		t.Errorf("%d bytes, expected at most %d: %v", most-before.HeapAlloc, limit, count)
	}
	t.Logf("%d MB at most, %v", (most-before.HeapAlloc)>>20, count)
	idle(t, s)
}

// Nothing is left of clients that leave, and a sweep goes on where it was.
func TestClientsThatLeave(t *testing.T) {
	s, url := start(t, 4<<30)
	body := table(3000, 60)
	for _, path := range []string{"/fit?response=y", "/sweeps/two?response=y"} {
		method := map[bool]string{true: "POST", false: "PUT"}[strings.HasPrefix(path, "/fit")]
		for i := range 8 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(5+10*i)*time.Millisecond)
			send(ctx, method, url+path, body)
			cancel()
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	in, out := io.Pipe()
	r, err := http.NewRequestWithContext(ctx, "POST", url+"/stream?lambda=0.5&sigma2=0.02&n=8", in)
	if err != nil {
		t.Fatal(err)
	}
	go io.WriteString(out, sequence)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	var line [1]byte
	if _, err := answer.Body.Read(line[:]); err != nil {
		t.Error(err)
	}
	cancel()
	answer.Body.Close()
	out.Close()
	status, text, err := send(t.Context(), "PUT", url+"/sweeps/two?response=y", body)
	if err != nil || status != http.StatusOK {
		t.Errorf("%d %s %v", status, text, err)
	}
	idle(t, s)
}
