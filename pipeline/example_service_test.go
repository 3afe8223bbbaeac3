package pipeline_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"expvar"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/prox"
	"surepipe/vjp"
)

// service answers a POST whose body has one y a line, each a JSON array of d numbers, with
// one JSON line for each: the risk, or what is wrong with the line. Results leave while
// lines still come in, and the body is read no faster than results are taken. All requests
// share one pipeline, whose options say KeepGoing.
type service struct {
	pipeline *pipeline.Pipeline
	// places bounds the requests served at once by its capacity; more are sent away.
	places chan struct{}
	// maxBytes bounds the body of a request.
	maxBytes int64
	// patience is the longest time of a request without a line read or written: more than a sample
	// takes.
	patience time.Duration
}

// answer and refusal are the two kinds of line that come back; Sample counts the lines
// of the body that are not blank, from 0.
type answer struct {
	Sample           int     `json:"sample"`
	SURE             float64 `json:"sure"`
	StdErr           float64 `json:"sure_stderr"`
	Divergence       float64 `json:"divergence"`
	DivergenceStdErr float64 `json:"divergence_stderr"`
	Trusted          bool    `json:"trusted"`
}

type refusal struct {
	Sample int    `json:"sample"` // -1: the request as a whole
	Error  string `json:"error"`
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "all places are taken", http.StatusServiceUnavailable)
		return
	}
	if r.ContentLength > s.maxBytes {
		http.Error(w, fmt.Sprintf("%d bytes, expected at most %d", r.ContentLength, s.maxBytes),
			http.StatusRequestEntityTooLarge)
		return
	}
	conn := http.NewResponseController(w)
	// By default HTTP/1 reads the whole body before the first byte of the response. A connection
	// whose body may be left unread is not used again.
	if err := conn.EnableFullDuplex(); err != nil {
		http.Error(w, "streaming is not possible here", http.StatusHTTPVersionNotSupported)
		return
	}
	w.Header().Set("Connection", "close")
	w.Header().Set("Content-Type", "application/jsonl")

	// The context ends when the client leaves or is idle for too long. Deadlines in the past then
	// wake the code that waits for the connection: the source reading the body, and the loop
	// writing the response.
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	past := time.Unix(1, 0)
	stop := context.AfterFunc(ctx, func() {
		conn.SetReadDeadline(past)
		conn.SetWriteDeadline(past)
	})
	defer stop()
	quiet := time.AfterFunc(s.patience, cancel)
	defer quiet.Stop()

	ys := s.samples(http.MaxBytesReader(w, r.Body, s.maxBytes), quiet)
	for risk, err := range s.pipeline.Stream(ctx, ys) {
		var line any = answer{risk.Index, risk.SURE, risk.StdErr, risk.Trace.Trace, risk.Trace.Error(), risk.Trusted()}
		switch {
		case ctx.Err() != nil:
			return
		case risk.Index < 0:
			// The stream is over, but the source may still wait for a line.
			slog.ErrorContext(ctx, "stream failed", "err", err)
			stop()
			conn.SetReadDeadline(past)
			line = refusal{-1, "the computation failed"}
		case err != nil:
			line = refusal{risk.Index, err.Error()}
		}
		if errors.Join(json.NewEncoder(w).Encode(line), conn.Flush()) != nil {
			cancel()
			return
		}
		quiet.Reset(s.patience)
	}
	conn.SetWriteDeadline(time.Now().Add(s.patience)) // for the end of the response
}

// samples reads the lines of a body as Stream asks for them.
func (s *service) samples(body io.Reader, quiet *time.Timer) iter.Seq2[[]float64, error] {
	return func(yield func([]float64, error) bool) {
		lines := bufio.NewScanner(body)
		longest := 64 + 32*s.pipeline.Dim() // a float64 and its comma take 25 bytes at most
		lines.Buffer(nil, longest)
		for lines.Scan() {
			quiet.Reset(s.patience)
			if len(bytes.TrimSpace(lines.Bytes())) == 0 {
				continue
			}
			if !yield(parse(lines.Bytes())) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(nil, fmt.Errorf("the rest of the body: %w; expected lines of at most %d bytes, %d in all", err,
				longest, s.maxBytes))
		}
	}
}

// parse reads a JSON array of numbers. NaN and numbers out of range are not JSON numbers; null,
// which some encoders write instead, would be read as 0.
func parse(line []byte) (y []float64, err error) {
	if bytes.Contains(line, []byte("null")) {
		return nil, errors.New("null, expected an array of numbers")
	}
	if err := json.Unmarshal(line, &y); err != nil {
		return nil, err
	}
	return y, nil
}

// observe returns a callback for pipeline.Options that keeps counts in vars. The
// mean time of a solve is solve_seconds / samples_done.
func observe(vars *expvar.Map) func(context.Context, pipeline.Event) {
	return func(_ context.Context, e pipeline.Event) {
		switch {
		case !e.Ended:
			vars.Add("samples_begun", 1)
		case errors.Is(e.Err, context.Canceled):
			vars.Add("samples_abandoned", 1)
		case e.Err != nil:
			vars.Add("samples_failed", 1)
		default:
			vars.Add("samples_done", 1)
			vars.AddFloat("solve_seconds", e.Risk.Solve.Seconds())
			vars.AddFloat("divergence_seconds", e.Risk.Divergence.Seconds())
			vars.Add("iterations", int64(e.Risk.Iterations))
			vars.Add("queries", int64(e.Risk.Trace.Queries))
			if !e.Risk.Trusted() {
				vars.Add("samples_untrusted", 1)
			}
		}
	}
}

// A service over HTTP with its metrics as expvar: y's in, SURE out, both as JSON lines.
// The estimator here is soft thresholding at 1 with unit noise.
func Example_service() {
	const d = 3
	dev := array.NewHost()
	problem := vjp.Problem{A: linops.Identity(d), R: prox.NewL1(1), Device: dev}
	solver, err := vjp.NewSolver(context.Background(), "ista", problem, vjp.Options{})
	if err != nil {
		panic(err)
	}
	defer solver.Release() // after the last request
	vars := new(expvar.Map)
	p, err := pipeline.New(solver, pipeline.Options{Sigma2: 1, Parallel: 4, KeepGoing: true, Observe: observe(vars)})
	if err != nil {
		panic(err)
	}
	vars.Set("in_flight", expvar.Func(func() any { return p.InFlight() }))
	// A program has one of these: expvar.Publish("surepipe", vars).

	mux := http.NewServeMux()
	mux.Handle("POST /sure", &service{p, make(chan struct{}, 64), 1 << 30, time.Minute})
	mux.Handle("GET /debug/vars", expvar.Handler())
	server := httptest.NewServer(mux) // or http.Server{Handler: mux, ReadHeaderTimeout: ...}
	defer server.Close()

	body := strings.NewReader("[3, 0.5, 0]\n[1, 2]\n[1, NaN, 2]\n[2, -2, 5]\n")
	response, err := http.Post(server.URL+"/sure", "application/jsonl", body)
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		fmt.Println(lines.Text())
	}
	for _, name := range []string{"samples_begun", "samples_done", "samples_failed", "queries", "in_flight"} {
		fmt.Println(name, vars.Get(name))
	}
	// Output:
	// {"sample":0,"sure":0.25,"sure_stderr":1.7320508075688772,"divergence":1,"divergence_stderr":0,"trusted":true}
	// {"sample":1,"error":"sample 1: y has 2 values, expected 3"}
	// {"sample":2,"error":"sample 2: invalid character 'N' looking for beginning of value"}
	// {"sample":3,"sure":6,"sure_stderr":4.242640687119285,"divergence":3,"divergence_stderr":0,"trusted":true}
	// samples_begun 4
	// samples_done 2
	// samples_failed 2
	// queries 0
	// in_flight 0
}
