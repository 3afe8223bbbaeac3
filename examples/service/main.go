// Service is an HTTP service on the module surepipe, with nothing but the standard library beside it:
//
//	POST   /fit?response=NAME             a table in; the minimum of a sweep and the coefficients out
//	POST   /denoise                       an image in; the image of least estimated risk out
//	POST   /stream?lambda=W&sigma2=S&n=N  sequences of N numbers in, a line of JSON each; their risks out
//	POST   /jobs                          the observed entries of a matrix in; the number of a job out
//	GET    /jobs/ID, DELETE /jobs/ID      how far it is, and its result; cancel it
//	PUT    /sweeps/NAME?response=NAME     a table in; the summary of a sweep out, which a further PUT continues
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"log"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"surepipe"
)

// service has bounded memory: what is admitted needs no more than budget bytes together, by EstimateBytes.
type service struct {
	http.ServeMux
	budget, largest int64 // for all requests, and for a body
	used            atomic.Int64
	mu              sync.Mutex
	jobs            map[string]*job
	sweeps          map[string][]byte // the lines of each that are known
}

// job is a computation that outlives its request.
type job struct {
	cancel context.CancelFunc
	steps  atomic.Int64
	done   chan struct{}
	path   *surepipe.Path
	err    error
}

func newService(budget, largest int64) *service {
	s := &service{budget: budget, largest: largest, jobs: map[string]*job{}, sweeps: map[string][]byte{}}
	for pattern, f := range map[string]func(http.ResponseWriter, *http.Request) error{"POST /fit": s.fit,
		"POST /denoise": s.denoise, "POST /stream": s.stream, "POST /jobs": s.start, "GET /jobs/{id}": s.look,
		"DELETE /jobs/{id}": s.look, "PUT /sweeps/{name}": s.sweep} {
		s.HandleFunc(pattern, s.handle(f))
	}
	return s
}

var errBusy = errors.New("all memory is in use: come again")

// handle answers errors: those of the input with the field, what was found and what was expected.
func (s *service) handle(f func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, s.largest)
		err, bad := f(w, r), (*surepipe.InputError)(nil)
		switch {
		case err == nil || r.Context().Err() != nil: // the client has left
		case errors.Is(err, errBusy):
			answer(w, http.StatusServiceUnavailable, map[string]string{"error": err.Error()})
		case errors.As(err, &bad):
			answer(w, http.StatusBadRequest, bad)
		default:
			log.Print(err)
			answer(w, http.StatusInternalServerError, map[string]string{"error": "the computation failed"})
		}
	}
}

func answer(w http.ResponseWriter, status int, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(v)
}

// open reads the body as a file of that name and opens an estimator when there is memory; release gives that back.
func (s *service) open(ctx context.Context, r *http.Request, name string, o surepipe.Options) (e *surepipe.Estimator,
	release func(), err error) {
	data, err := surepipe.Read(ctx, name, r.Body)
	if err != nil {
		return nil, nil, err
	}
	need, err := surepipe.EstimateBytes(ctx, data, o)
	if err != nil {
		return nil, nil, err
	}
	free := func() { s.used.Add(-need) }
	for begin := time.Now(); s.used.Add(need) > s.budget && need <= s.budget; time.Sleep(10 * time.Millisecond) {
		if free(); ctx.Err() != nil || time.Since(begin) > 30*time.Second {
			return nil, nil, errBusy
		}
	}
	o.Memory = s.budget
	if e, err = surepipe.Open(ctx, data, o); err != nil {
		free()
	}
	return e, func() { e.Close(); free() }, err
}

func (s *service) fit(w http.ResponseWriter, r *http.Request) error {
	e, release, err := s.open(r.Context(), r, "table.csv", surepipe.Options{Problem: surepipe.Lasso,
		Table: surepipe.Table{Response: r.FormValue("response")}})
	if err != nil {
		return err
	}
	defer release()
	path, err := e.Sweep(r.Context(), surepipe.Grid{Lambda: "0.01max:max:20"})
	if err != nil {
		return err
	}
	c, err := path.Fit.Coefficients(r.Context())
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, map[string]any{"summary": path.Summary, "coefficients": c.Coefficients})
}

func (s *service) denoise(w http.ResponseWriter, r *http.Request) error {
	e, release, err := s.open(r.Context(), r, "image", surepipe.Options{Problem: surepipe.TV2D, Sigma2By: "auto"})
	if err != nil {
		return err
	}
	defer release()
	path, err := e.Sweep(r.Context(), surepipe.Grid{Lambda: "0.01:1:8", Refine: new(4)})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "image/png")
	_, err = path.Fit.WriteImage(w, "clean.png")
	return err
}

func (s *service) stream(w http.ResponseWriter, r *http.Request) error {
	n, _ := strconv.Atoi(r.FormValue("n"))
	shape, _ := surepipe.Arrays{Y: make([]float64, max(n, 0)%(1<<20))}.Data()
	o := surepipe.Options{Problem: surepipe.TV1D, Lambda: r.FormValue("lambda")}
	o.Sigma2, _ = strconv.ParseFloat(r.FormValue("sigma2"), 64)
	o.KeepGoing = true
	e, err := surepipe.Open(r.Context(), shape, o)
	if err != nil {
		return err
	}
	defer e.Close()
	conn := http.NewResponseController(w)
	conn.EnableFullDuplex()
	w.Header().Set("Content-Type", "application/jsonl")
	out := json.NewEncoder(w)
	for result, err := range e.Stream(r.Context(), lines(r.Body)) {
		var line any = result
		if err != nil {
			line = map[string]any{"sample": result.Sample, "error": err.Error()}
		}
		if errors.Join(out.Encode(line), conn.Flush()) != nil {
			return nil
		}
	}
	return nil
}

// lines are the samples of a body, which is read as they are asked for.
func lines(body io.Reader) iter.Seq2[[]float64, error] {
	return func(yield func([]float64, error) bool) {
		for in := json.NewDecoder(body); ; {
			var y []float64
			if err := in.Decode(&y); err == io.EOF || !yield(y, err) || err != nil {
				return
			}
		}
	}
}

func (s *service) start(w http.ResponseWriter, r *http.Request) error {
	j := &job{done: make(chan struct{})}
	o := surepipe.Options{Problem: surepipe.Completion, Table: surepipe.Table{Response: "value"}}
	o.Progress = func(surepipe.Progress) { j.steps.Add(1) }
	e, release, err := s.open(r.Context(), r, "entries.csv", o)
	if err != nil {
		return err
	}
	ctx := context.WithoutCancel(r.Context())
	ctx, j.cancel = context.WithCancel(ctx)
	s.mu.Lock()
	id := strconv.Itoa(len(s.jobs))
	s.jobs[id] = j
	s.mu.Unlock()
	go func() {
		j.path, j.err = e.Sweep(ctx, surepipe.Grid{Lambda: "0.05max:max:8"})
		release()
		close(j.done)
	}()
	return answer(w, http.StatusAccepted, map[string]string{"job": id})
}

func (s *service) look(w http.ResponseWriter, r *http.Request) error {
	s.mu.Lock()
	j := s.jobs[r.PathValue("id")]
	s.mu.Unlock()
	if j == nil {
		return answer(w, http.StatusNotFound, map[string]string{"error": "no such job"})
	}
	if r.Method == http.MethodDelete {
		j.cancel()
		<-j.done // within a second
	}
	state := map[string]any{"state": "running", "steps": j.steps.Load()}
	select {
	case <-j.done:
		if j.err != nil {
			return j.err
		}
		state["state"], state["summary"] = "done", j.path.Summary
	default:
	}
	return answer(w, http.StatusOK, state)
}

func (s *service) sweep(w http.ResponseWriter, r *http.Request) error {
	e, release, err := s.open(r.Context(), r, "table.csv", surepipe.Options{Problem: surepipe.ElasticNet,
		Lambda2: "0.1", Table: surepipe.Table{Response: r.FormValue("response")}})
	if err != nil {
		return err
	}
	defer release()
	var kept bytes.Buffer
	s.mu.Lock()
	known := s.sweeps[r.PathValue("name")]
	s.mu.Unlock()
	path, err := e.Sweep(r.Context(), surepipe.Grid{Lambda: "0.001max:max:40", Known: bytes.NewReader(known),
		Lines: &kept})
	s.mu.Lock()
	if kept.Len() > len(known) { // also where the client has left
		s.sweeps[r.PathValue("name")] = kept.Bytes()
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, path.Summary)
}

func main() {
	log.Fatal((&http.Server{Addr: "localhost:8080", Handler: newService(4<<30, 64<<20),
		ReadHeaderTimeout: 10 * time.Second}).ListenAndServe())
}
