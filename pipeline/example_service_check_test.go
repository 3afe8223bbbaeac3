package pipeline_test

import (
	"bufio"
	"context"
	"encoding/json"
	"expvar"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/hutch"
	"surepipe/pipeline"
	"surepipe/vjp"
)

// pipes is a listener whose connections have no buffers: what one end writes waits
// for the other to read.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *pipes) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (l *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// trial is a running service.
type trial struct {
	*testing.T
	p      *pipeline.Pipeline
	vars   *expvar.Map
	url    string
	client *http.Client
}

// serve runs f against a service, and fails if anything is left when all
// connections are closed: a handler, a goroutine, device memory, a sample in flight.
func serve(t *testing.T, dev array.Device, solver vjp.Solver, d int, o pipeline.Options, buffered bool,
	change func(*service), f func(*trial)) {
	t.Helper()
	leaks(t, dev, func() {
		vars := new(expvar.Map)
		o.KeepGoing, o.Observe = true, observe(vars)
		p := newPipeline(t, solver, o)
		s := &service{p, make(chan struct{}, 8), 64 << 20, 30 * time.Second}
		if change != nil {
			change(s)
		}
		server, transport := httptest.NewUnstartedServer(s), &http.Transport{}
		if !buffered {
			l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
			server.Listener.Close()
			server.Listener, transport.DialContext = l, l.dial
		}
		server.Start()
		defer func() {
			transport.CloseIdleConnections()
			stuck := time.AfterFunc(20*time.Second, func() { panic("a handler does not return") })
			server.Close() // waits for the handlers
			stuck.Stop()
			if n := p.InFlight(); n != 0 {
				t.Errorf("%d samples in flight when the server has closed", n)
			}
		}()
		f(&trial{t, p, vars, server.URL, &http.Client{Transport: transport}})
	})
}

// post sends a body and returns the response, whose body the caller closes.
func (t *trial) post(ctx context.Context, body io.Reader) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, "POST", t.url, body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := t.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// count is a counter's value.
func (t *trial) count(name string) int64 {
	v, _ := t.vars.Get(name).(*expvar.Int)
	if v == nil {
		return 0
	}
	return v.Value()
}

// eventually waits for a condition.
func (t *trial) eventually(what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("10 s have passed, and not yet: %s", what)
		}
	}
}

// settled waits until no more samples begin, and returns how many have.
func (t *trial) settled() int64 {
	t.Helper()
	begun := int64(-1)
	t.eventually("the server stops reading", func() bool {
		before := begun
		begun = t.count("samples_begun")
		time.Sleep(100 * time.Millisecond)
		return begun == before
	})
	return begun
}

// line is an answer or a refusal.
type line struct {
	answer
	Error string `json:"error"`
}

func readLine(t testing.TB, lines *bufio.Reader) (l line, ok bool) {
	t.Helper()
	text, err := lines.ReadBytes('\n')
	if err == io.EOF && len(text) == 0 {
		return l, false
	}
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	if err != nil {
		t.Fatalf("line %q: %v", text, err)
	}
	return l, true
}

func (t *trial) lines(body io.Reader) (all []line) {
	t.Helper()
	response := t.post(t.Context(), body)
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	for l, ok := readLine(t, lines); ok; l, ok = readLine(t, lines) {
		all = append(all, l)
	}
	return all
}

func jsonLine(y []float64) string {
	text, err := json.Marshal(y)
	if err != nil {
		panic(err)
	}
	return string(text) + "\n"
}

// endless writes samples of length d until nobody reads them.
func endless(d int) (body *io.PipeReader, stopped <-chan struct{}) {
	body, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for y := range stream(d, 1<<40) {
			if _, err := io.WriteString(w, jsonLine(y)); err != nil {
				return
			}
		}
	}()
	return body, done
}

func TestServiceRefusesBadLinesAndGoesOn(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		good := "[3, 0.5, 0]"
		bad := []struct{ line, want string }{
			{"[1, 2", "unexpected end of JSON"},
			{"[1, 2]", "y has 2 values, expected 3"},
			{"[1, 2, 3, 4]", "y has 4 values, expected 3"},
			{"[]", "y has 0 values"},
			{"[1, NaN, 3]", "invalid character 'N'"},
			{"[1, null, 3]", "null, expected an array of numbers"},
			{"null", "null, expected an array of numbers"},
			{"[1, 1e999, 3]", "1e999"},
			{`["1", 2, 3]`, "cannot unmarshal string"},
			{`{"y": [1, 2, 3]}`, "cannot unmarshal object"},
			{"[1, 2, 3] [4, 5, 6]", "after top-level value"},
			{"\xff\xfe", "invalid character"},
		}
		var body strings.Builder
		fmt.Fprintln(&body, good)
		for _, b := range bad {
			fmt.Fprintf(&body, "%s\r\n\n%s\n", b.line, good)
		}
		serve(t, dev, soft(t, dev, 3, nil), 3, pipeline.Options{Parallel: 2}, true, nil, func(t *trial) {
			all := t.lines(strings.NewReader(body.String()))
			if len(all) != 2*len(bad)+1 {
				t.Fatalf("%d lines, expected %d", len(all), 2*len(bad)+1)
			}
			for i, l := range all {
				if l.Sample != i {
					t.Errorf("line %d is of sample %d", i, l.Sample)
				}
				if i%2 == 0 && (l.Error != "" || l.Divergence != 1) {
					t.Errorf("%s got %+v", good, l)
				}
				if i%2 == 1 && !strings.Contains(l.Error, bad[i/2].want) {
					t.Errorf("%s got %q, expected %q", bad[i/2].line, l.Error, bad[i/2].want)
				}
			}
			if done, failed := t.count("samples_done"), t.count("samples_failed"); done != int64(len(bad)+1) ||
				failed != int64(len(bad)) {
				t.Errorf("%d samples done and %d failed", done, failed)
			}
		})
	})
}

func TestServiceBoundsWhatItReads(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		s := soft(t, dev, 3, nil)
		change := func(s *service) { s.maxBytes = 1000 }
		serve(t, dev, s, 3, pipeline.Options{}, true, change, func(t *trial) {
			response := t.post(t.Context(), strings.NewReader(strings.Repeat("[1,2,3]\n", 1000)))
			response.Body.Close()
			if response.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("a body too large gets %s", response.Status)
			}
			for name, c := range map[string]struct{ body, want string }{
				"body of unknown length": {strings.Repeat("[1,2,3]\n", 1000),
					"the rest of the body: http: request body too large; expected lines of at most 160 bytes, " +
						"1000 in all"},
				"line": {"[1,2,3]\n[" + strings.Repeat("0", 500) + "]\n",
					"token too long; expected lines of at most 160 bytes"},
			} {
				all := t.lines(struct{ io.Reader }{strings.NewReader(c.body)})
				if len(all) == 0 || !strings.Contains(all[len(all)-1].Error, c.want) || all[0].Error != "" {
					t.Errorf("%s: %d lines, %+v", name, len(all), all)
				}
			}
		})
	})
}

// A client that waits for each answer before it sends its next line gets it, a
// refusal too; one that is silent for too long loses its place.
func TestServiceAnswersLineByLine(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		change := func(s *service) { s.patience = 300 * time.Millisecond }
		serve(t, dev, soft(t, dev, 3, nil), 3, pipeline.Options{Parallel: 4}, true, change, func(t *trial) {
			body, w := io.Pipe()
			defer w.Close()
			go io.WriteString(w, "[3, 0.5, 0]\n")
			response := t.post(t.Context(), body)
			defer response.Body.Close()
			lines := bufio.NewReader(response.Body)
			for i, text := range []string{"[1]\n", "[2, -2, 5]\n", ""} {
				if l, ok := readLine(t, lines); !ok || l.Sample != i || (l.Error != "") != (i == 1) {
					t.Errorf("line %d is %+v", i, l)
				}
				io.WriteString(w, text)
			}
			if text, err := lines.ReadString('\n'); err != io.ErrUnexpectedEOF {
				t.Errorf("a silent client got %q, %v; expected a broken response", text, err)
			}
		})
	})
}

// A failure that is no sample's own reaches a client that waits for it before it sends more.
func TestServiceReportsFailureToAWaitingClient(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		s := soft(t, dev, 3, func(_ context.Context, y []float64) error {
			if y[0] == 2 {
				panic("no solution")
			}
			return nil
		})
		serve(t, dev, s, 3, pipeline.Options{}, true, nil, func(t *trial) {
			body, w := io.Pipe()
			defer w.Close()
			go io.WriteString(w, "[1, 0, 0]\n[2, 0, 0]\n")
			response := t.post(t.Context(), body)
			defer response.Body.Close()
			lines := bufio.NewReader(response.Body)
			if l, ok := readLine(t, lines); !ok || l.Error != "" {
				t.Errorf("the first line is %+v", l)
			}
			if l, ok := readLine(t, lines); !ok || l.Sample != -1 || l.Error != "the computation failed" {
				t.Errorf("the second line is %+v", l)
			}
			if l, ok := readLine(t, lines); ok {
				t.Errorf("a line follows: %+v", l)
			}
			// The server lives on.
			if all := t.lines(strings.NewReader("[3, 0.5, 0]\n")); len(all) != 1 || all[0].Divergence != 1 {
				t.Errorf("the next request got %+v", all)
			}
		})
	})
}

// The client leaves in the middle of its stream: reading and solving stop.
func TestServiceStopsWhenTheClientLeaves(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, buffered := range []bool{true, false} {
			s, d := quick(t, dev)
			serve(t, dev, s, d, pipeline.Options{Parallel: 2}, buffered, nil, func(t *trial) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				body, stopped := endless(d)
				response := t.post(ctx, body)
				defer response.Body.Close()
				lines := bufio.NewReader(response.Body)
				for i := range 3 {
					if l, ok := readLine(t, lines); !ok || l.Sample != i || l.Error != "" {
						t.Fatalf("line %d is %+v", i, l)
					}
				}
				cancel()
				<-stopped
				t.eventually("nothing runs for a client that has left",
					func() bool { return t.settled() > 0 && t.p.InFlight() == 0 })
			})
		}
	})
}

// The whole body is with the server when the client leaves: the solve under way is
// cancelled.
func TestServiceStopsSolvingWhenTheClientLeaves(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, buffered := range []bool{true, false} {
			solving := make(chan struct{})
			s := soft(t, dev, 3, func(ctx context.Context, y []float64) error {
				if y[0] == 1 {
					return nil
				}
				close(solving)
				<-ctx.Done()
				return ctx.Err()
			})
			serve(t, dev, s, 3, pipeline.Options{}, buffered, nil, func(t *trial) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				response := t.post(ctx, strings.NewReader("[1, 0, 0]\n[2, 0, 0]\n[1, 0, 0]\n"))
				defer response.Body.Close()
				<-solving
				if n := t.p.InFlight(); n != 1 {
					t.Errorf("%d samples in flight, expected 1", n)
				}
				cancel()
				t.eventually("no sample in flight", func() bool { return t.p.InFlight() == 0 })
				if done, abandoned := t.count("samples_done"), t.count("samples_abandoned"); done != 1 ||
					abandoned != 1 {
					t.Errorf("%d samples done, %d abandoned, expected one of each", done, abandoned)
				}
			})
		}
	})
}

// A client that does not read holds up the reading of its body, and gets all when it
// does; one that never reads loses its place.
func TestServiceWaitsForSlowClients(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		s := soft(t, dev, 3, nil)
		const samples = 2000
		serve(t, dev, s, 3, pipeline.Options{Parallel: 2}, false, nil, func(t *trial) {
			response := t.post(t.Context(), struct{ io.Reader }{strings.NewReader(strings.Repeat("[3,0.5,0]\n",
				samples))})
			defer response.Body.Close()
			// Two buffers of 4 KiB hold 80 answers.
			if begun := t.settled(); begun > 150 {
				t.Errorf("%d samples have begun for a client that reads none", begun)
			}
			lines := bufio.NewReader(response.Body)
			for i := range samples {
				if l, ok := readLine(t, lines); !ok || l.Sample != i || l.Error != "" {
					t.Fatalf("line %d is %+v", i, l)
				}
			}
			if l, ok := readLine(t, lines); ok {
				t.Errorf("a line too many: %+v", l)
			}
		})
		change := func(s *service) { s.patience, s.places = 50*time.Millisecond, make(chan struct{}, 1) }
		serve(t, dev, s, 3, pipeline.Options{Parallel: 2}, false, change, func(t *trial) {
			body, stopped := endless(3)
			response := t.post(t.Context(), body)
			defer response.Body.Close()
			t.eventually("no sample in flight", func() bool {
				return t.count("samples_begun") > 0 &&
					t.p.InFlight() == 0
			})
			<-stopped
			t.eventually("the place is free", func() bool {
				response := t.post(t.Context(), strings.NewReader("[3,0.5,0]\n"))
				response.Body.Close()
				return response.StatusCode == http.StatusOK
			})
		})
	})
}

// Eight clients at once get, each, the risks of its own samples, bit for bit those of a
// pipeline of its own; a ninth is sent away.
func TestServiceServesManyClientsAtOnce(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const clients, samples = 8, 10
		s, d := quick(t, dev)
		ys := func(client int) iter.Seq2[[]float64, error] {
			return func(yield func([]float64, error) bool) {
				rng := rand.New(rand.NewPCG(9, uint64(client)))
				for range samples {
					if !yield(gaussian(rng, d), nil) {
						return
					}
				}
			}
		}
		want := make([][]answer, clients)
		o := pipeline.Options{Estimator: hutch.Hutchinson, Queries: 12}
		alone := newPipeline(t, s, o)
		for i := range want {
			for r, err := range alone.Stream(t.Context(), ys(i)) {
				if err != nil {
					t.Fatal(err)
				}
				want[i] = append(want[i], answer{r.Index, r.SURE, r.StdErr, r.Trace.Trace, r.Trace.Error(),
					r.Trusted()})
			}
		}
		o.Parallel = 2
		serve(t, dev, s, d, o, true, nil, func(t *trial) {
			var wg, halfway sync.WaitGroup
			halfway.Add(clients)
			tried := make(chan struct{})
			for i := range clients {
				wg.Go(func() {
					body, w := io.Pipe()
					go func() {
						defer w.Close()
						n := 0
						for y := range ys(i) {
							if n++; n == samples/2 {
								halfway.Done()
								<-tried
							}
							io.WriteString(w, jsonLine(y))
						}
					}()
					all := t.lines(body)
					if len(all) != samples {
						t.Errorf("client %d: %d lines, expected %d", i, len(all), samples)
						return
					}
					for k, l := range all {
						if l.Error != "" || l.answer != want[i][k] {
							t.Errorf("client %d, sample %d: %+v, expected %+v", i, k, l, want[i][k])
						}
					}
				})
			}
			halfway.Wait()
			t.eventually("all have begun", func() bool { return t.count("samples_begun") >= clients*(samples/2-1) })
			response := t.post(t.Context(), strings.NewReader("[]\n"))
			response.Body.Close()
			if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
				t.Errorf("the ninth client gets %s", response.Status)
			}
			close(tried)
			wg.Wait()
			if done := t.count("samples_done"); done != clients*samples {
				t.Errorf("%d samples done, expected %d", done, clients*samples)
			}
		})
	})
}
