package page

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	pollEvery = 200 * time.Millisecond
	readMost  = 4 << 20 // of a file at a time
)

// Server shows the files of a run while they are written.
type Server struct {
	Document *Document
	// Files are the run's, and patterns for files of shards that may not be there yet.
	Files []string
}

// Serve answers requests to the listener's own address until ctx ends. Requests by another host's name, as a page of
// another site would make them, are refused.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	var page bytes.Buffer
	s.Document.Live = true
	if err := s.Document.write(&page); err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page.Bytes()) // a reader that has left
	})
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		s.follow(r.Context(), w)
	})
	guarded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own := r.Host == "127.0.0.1:"+port || r.Host == "localhost:"+port || r.Host == "[::1]:"+port
		if site := r.Header.Get("Sec-Fetch-Site"); !own || site == "cross-site" || site == "same-site" {
			http.Error(w, "surepipe view answers its own page alone", http.StatusForbidden)
			return
		}
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Content-Security-Policy", "frame-ancestors 'none'")
		mux.ServeHTTP(w, r)
	})
	server := &http.Server{Handler: guarded, ReadHeaderTimeout: 5 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// follow sends the lines of the files, and those that join, until the reader leaves.
func (s *Server) follow(ctx context.Context, w http.ResponseWriter) {
	var tails []*tail
	begun := map[string]bool{}
	out := http.NewResponseController(w)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for caught := false; ; {
		for _, pattern := range s.Files {
			for _, path := range append(matches(pattern), pattern) {
				if !begun[path] {
					begun[path], tails = true, append(tails, &tail{path: path})
				}
			}
		}
		sent := false
		for _, t := range tails {
			if t.replaced() {
				fmt.Fprint(w, "event: again\ndata:\n\n")
				for _, other := range tails {
					other.at, other.info = 0, nil
				}
			}
		}
		for _, t := range tails {
			for line := range bytes.Lines(t.read()) {
				if e, err := event(line); err == nil {
					fmt.Fprintf(w, "data: %s\n\n", e)
				}
				sent = true
			}
		}
		if !sent && !caught {
			caught = true
			fmt.Fprint(w, "event: caught\ndata:\n\n")
		}
		if out.Flush() != nil {
			return
		}
		if sent {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// matches are the files of the shards of a run whose file is of that name.
func matches(path string) []string {
	literal := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)
	name := literal.Replace(strings.TrimSuffix(path, ".jsonl"))
	all, _ := filepath.Glob(name + ".shard-*-of-*.jsonl") // no pattern of ours is bad
	return all
}

// tail is a file up to which lines have been read.
type tail struct {
	path string
	at   int64
	info os.FileInfo
}

// replaced reports whether the file is another one, or shorter, than it was.
func (t *tail) replaced() bool {
	now, err := os.Stat(t.path)
	return t.info != nil && (err != nil || !os.SameFile(now, t.info) || now.Size() < t.at)
}

// read reads the complete lines that have joined, not all at once. A file that is not there yet has none.
func (t *tail) read() []byte {
	f, err := os.Open(t.path)
	if err != nil {
		return nil
	}
	defer f.Close()
	if t.info, err = f.Stat(); err != nil || !t.info.Mode().IsRegular() {
		t.info = nil
		return nil
	}
	for most := int64(readMost); ; most *= 4 { // for a line that is longer
		text, err := io.ReadAll(io.NewSectionReader(f, t.at, most))
		if err != nil {
			return nil
		}
		if end := bytes.LastIndexByte(text, '\n') + 1; end > 0 {
			t.at += int64(end)
			return text[:end]
		} else if int64(len(text)) < most {
			return nil
		}
	}
}
