package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/creachadair/jrpc2"
	"github.com/spf13/pflag"
	"golang.org/x/sync/semaphore"

	"surepipe"
	"surepipe/study"
	"surepipe/study/request"
)

const (
	// Protocol is the version of the protocol: a change that an old client does not understand raises it.
	Protocol = 1
	// atOnce is how many requests compute; others wait, as far as all take no more than mostTaken bytes together, each
	// at least leastTaken. The next is refused.
	atOnce                = 16
	mostTaken, leastTaken = 256 << 20, 1 << 20
	// mostKept is how many estimators, and how many fits, are open at most.
	mostKept = 1024
	// patience is how long requests may take to end after the client has gone.
	patience = 2 * time.Second
)

type Options struct {
	// In has the client's frames and Out takes the worker's.
	In  io.Reader
	Out io.Writer
	// Directory is where a directory for arrays is made, which ends with the worker; "" stands for the temporary one.
	Directory string
	// Request makes a request, and those options that bind to it whose names are wanted.
	Request func(wanted func(name string) bool) (*pflag.FlagSet, *request.Request)
}

// worker is the state that requests share.
type worker struct {
	Options
	server *jrpc2.Server
	slots  *semaphore.Weighted // of those that compute
	taken  *semaphore.Weighted // of the bytes of their parameters

	mu         sync.Mutex
	last       int // the number in the last name that was given
	estimators map[string]*surepipe.Estimator
	fits       map[string]*surepipe.Model
	folder     string
	held       *os.File // that folder, locked while the worker lives
	ended      bool
}

// heap is how much the worker may allocate before garbage is collected for the first time: small fits in turn would
// otherwise spend a third of their time on that. It is never touched, and so takes no memory.
const heap = 128 << 20

// Serve answers requests until the client goes, asks for shutdown, or ctx is done. Nothing is left then.
func Serve(ctx context.Context, o Options) error {
	ballast := make([]byte, heap)
	defer runtime.KeepAlive(ballast)
	w := &worker{Options: o, slots: semaphore.NewWeighted(atOnce), taken: semaphore.NewWeighted(mostTaken),
		estimators: map[string]*surepipe.Estimator{}, fits: map[string]*surepipe.Model{}}
	w.tidy()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// What is read goes through a pipe, because a read of standard input cannot be ended.
	in, from := io.Pipe()
	go func() {
		_, err := io.Copy(from, o.In)
		from.CloseWithError(err)
	}()
	w.server = jrpc2.NewServer(w, &jrpc2.ServerOptions{AllowPush: true, DisableBuiltin: true, Concurrency: 1 << 20,
		NewContext: func() context.Context { return ctx }})
	w.server.Start(newFrames(in, o.Out, func() { in.Close() }))
	stop := context.AfterFunc(ctx, w.server.Stop)
	defer stop()
	defer context.AfterFunc(ctx, w.release)()
	defer w.release()
	ended := make(chan jrpc2.ServerStatus, 1)
	go func() { ended <- w.server.WaitStatus() }()
	select {
	case s := <-ended:
		return s.Err
	case <-ctx.Done():
	}
	select {
	case <-ended:
	case <-time.After(patience):
	}
	return context.Cause(ctx)
}

func (w *worker) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	for _, e := range w.estimators {
		e.Close()
	}
	clear(w.estimators)
	if w.folder != "" {
		os.RemoveAll(w.folder)
		w.held.Close()
	}
}

// prefix begins the names of the directories of workers.
const prefix = "surepipe-worker-"

// tidy removes the directories of workers that were killed, which nobody has locked. Where the second lock does not
// fail there are no locks, and nothing is known.
func (w *worker) tidy() {
	left, _ := filepath.Glob(filepath.Join(cmp.Or(w.Directory, os.TempDir()), prefix+"*"))
	for _, folder := range left {
		held, err := lock(folder)
		if err != nil {
			continue
		}
		if second, err := lock(folder); err != nil {
			os.RemoveAll(folder)
		} else {
			second.Close()
		}
		held.Close()
	}
}

// lock locks a directory until it is closed, or this process ends.
func lock(folder string) (*os.File, error) {
	held, err := os.Open(folder)
	if err == nil {
		if err = study.Lock(held); err != nil {
			held.Close()
		}
	}
	return held, err
}

// errEnded refuses what comes after the end.
var errEnded = errors.New("the worker has ended")

func (w *worker) path(name string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	folder, err := w.folderHeld()
	w.last++
	return filepath.Join(folder, name+strconv.Itoa(w.last)+".npy"), err
}

// folderHeld is the directory of the arrays, which is made where there is none. It is called with mu.
func (w *worker) folderHeld() (string, error) {
	if w.ended {
		return "", errEnded
	}
	if w.folder == "" {
		folder, err := os.MkdirTemp(w.Directory, prefix)
		if err != nil {
			return "", err
		}
		held, err := lock(folder)
		if err == nil {
			_, err = os.Stat(folder)
		}
		if err != nil { // a worker that starts at this moment takes it for one that is left
			return w.folderHeld()
		}
		w.folder, w.held = folder, held
	}
	return w.folder, nil
}

// keep gives a value a name of its own in a map.
func keep[T any](w *worker, in map[string]T, prefix string, v T) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.ended:
		return "", errEnded
	case len(in) >= mostKept:
		return "", study.Errorf("%d are open, expected fewer: close those that are no longer used", len(in))
	}
	w.last++
	name := prefix + strconv.Itoa(w.last)
	in[name] = v
	return name, nil
}

func kept[T any](w *worker, in map[string]T, what, name string) (T, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v, ok := in[name]
	if !ok {
		return v, study.Errorf("--%s is %.40q, expected one that is open", what, name)
	}
	return v, nil
}

func (w *worker) Assign(_ context.Context, name string) jrpc2.Handler {
	notification := name == "$/cancelRequest"
	if notification {
		name = "cancel"
	}
	m, ok := methodNamed(name)
	if !ok {
		return nil
	}
	return func(ctx context.Context, r *jrpc2.Request) (any, error) {
		if r.IsNotification() && !notification { // nobody reads its result, and requests after it would wait for it
			return nil, nil
		}
		v, err := w.handle(ctx, m, r)
		return v, answer(ctx, err)
	}
}

// handle runs a method. Those that compute wait for a place.
func (w *worker) handle(ctx context.Context, m method, r *jrpc2.Request) (result any, err error) {
	defer func() {
		if v := recover(); v != nil {
			result, err = nil, &surepipe.PanicError{Value: v}
		}
	}()
	if m.computes {
		takes := int64(leastTaken + len(r.ParamString()))
		if !w.taken.TryAcquire(takes) {
			return nil, jrpc2.Errorf(busy, "too many requests are under way: their parameters take more than %d MiB",
				mostTaken>>20)
		}
		defer w.taken.Release(takes)
		if err := w.slots.Acquire(ctx, 1); err != nil {
			return nil, err
		}
		defer w.slots.Release(1)
	}
	return m.call(w, ctx, r)
}

// notify sends a notification. That the client has gone is seen elsewhere.
func (w *worker) notify(method string, v any) { _ = w.server.Notify(context.Background(), method, v) }

// params are the parameters of a request, none of which may be unknown.
func params[T any](r *jrpc2.Request) (p T, err error) {
	if !r.HasParams() {
		return p, nil
	}
	var text json.RawMessage
	if err := r.UnmarshalParams(&text); err != nil {
		return p, study.Errorf("params: %w", err)
	}
	return p, decode(text, &p)
}
