package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/channel"
	"github.com/spf13/pflag"

	"surepipe/study/request"
)

func frame(text string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(text), text) }

// answers are what a worker without options says to input that then ends, after at least so many answers.
func answers(t testing.TB, input string, least int) (all []jrpc2.Error) {
	t.Helper()
	out := &counted{enough: make(chan struct{}), least: least}
	in := io.MultiReader(strings.NewReader(input), out)
	if least == 0 {
		in = strings.NewReader(input)
	}
	err := Serve(context.Background(), Options{In: in, Out: out, Directory: t.TempDir(),
		Request: func(func(string) bool) (*pflag.FlagSet, *request.Request) {
			return pflag.NewFlagSet("", pflag.ContinueOnError), request.New()
		}})
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("the worker ends with %v", err)
	}
	for f := channel.Header("")(&out.frames, nil); ; {
		text, err := f.Recv()
		if err == io.EOF {
			return all
		}
		if !bytes.HasPrefix(text, []byte("[")) { // the answer to a batch is an array
			text = slices.Concat([]byte("["), text, []byte("]"))
		}
		var batch []struct {
			Error  jrpc2.Error
			Result json.RawMessage
		}
		if err == nil {
			err = json.Unmarshal(text, &batch)
		}
		if err != nil {
			t.Fatalf("an answer that cannot be read: %v, %.200q", err, text)
		}
		for _, message := range batch {
			all = append(all, message.Error)
		}
	}
}

// counted counts the frames that are written. As a reader it is at its end when there are enough.
type counted struct {
	frames bytes.Buffer
	least  int
	enough chan struct{}
}

func (c *counted) Write(b []byte) (int, error) {
	if c.least--; c.least == 0 {
		close(c.enough)
	}
	return c.frames.Write(b)
}

func (c *counted) Read([]byte) (int, error) {
	select {
	case <-c.enough:
	case <-time.After(10 * time.Second):
	}
	return 0, io.EOF
}

const ask = `{"jsonrpc":"2.0","id":1,"method":"info"}`

// A frame that cannot be taken is refused with a reason, and the worker lives: it answers the request after it.
func TestFramesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ input, want string }{
		"not a header":    {"hello\r\n\r\n", "expected Content-Length"},
		"negative length": {"Content-Length: -4\r\n\r\n", "expected Content-Length"},
		"no number":       {"Content-Length: 1e3\r\n\r\n", "expected Content-Length"},
		"beyond int64":    {"Content-Length: 99999999999999999999\r\n\r\n", "expected Content-Length"},
		"long line":       {strings.Repeat("x", 1<<20) + "\r\n\r\n", "expected Content-Length"},
		"too long":        {frame(strings.Repeat(" ", MaxFrame+1)), "expected at most 16777216"},
		"not JSON":        {frame("{{"), "invalid"},
		"empty":           {frame(""), "invalid"},
		"nested":          {frame(strings.Repeat("[", 30000) + strings.Repeat("]", 30000)), "invalid"},
		"nested object":   {frame(strings.Repeat(`{"a":`, 1<<20)), "invalid"},
		"nested params": {frame(`{"jsonrpc":"2.0","id":2,"method":"open","params":` + strings.Repeat("[", 1<<20) +
			strings.Repeat("]", 1<<20) + "}"), "invalid"},
		"batch":      {frame("[" + strings.Repeat("1,", 1<<16) + "1]"), "at most 65536"},
		"no method":  {frame(`{"jsonrpc":"2.0","id":2,"method":"frobnicate"}`), "method not found"},
		"no version": {frame(`{"id":2,"method":"info"}`), ""},
		"unknown key": {frame(`{"jsonrpc":"2.0","id":2,"method":"fit","params":{"estimator":"e","x":1}}`),
			`unknown field "x"`},
		"another type": {frame(`{"jsonrpc":"2.0","id":2,"method":"fit","params":{"estimator":4}}`),
			"estimator is a JSON number, expected string"},
	} {
		t.Run(name, func(t *testing.T) {
			all := answers(t, c.input+frame(ask), 2)
			if len(all) != 2 {
				t.Fatalf("%d answers, expected two: %v", len(all), all)
			}
			refused := all[0]
			if refused.Code == 0 { // they may come in either order
				refused = all[1]
			}
			if refused.Code == 0 || !strings.Contains(refused.Message, c.want) {
				t.Errorf("code %d, %q, expected %q", refused.Code, refused.Message, c.want)
			}
		})
	}
}

// A frame that ends too soon ends the worker, as the client has gone.
func TestTruncatedFramesEndTheWorker(t *testing.T) {
	for _, input := range []string{"", "Content-Len", "Content-Length: 40\r\n\r\n{", "Content-Length: 4\r\n"} {
		if all := answers(t, input, 0); len(all) != 0 {
			t.Errorf("%q: answers %v, expected none", input, all)
		}
	}
}

// A panic is an error of its own request.
func TestPanicsAreErrorsOfTheirRequest(t *testing.T) {
	w := &worker{}
	m := method{name: "bad", call: func(*worker, context.Context, *jrpc2.Request) (any, error) { panic("no") }}
	_, err := w.handle(context.Background(), m, nil)
	var e *jrpc2.Error
	if err = answer(context.Background(), err); !errors.As(err, &e) || e.Code != jrpc2.InternalError ||
		!strings.Contains(e.Message, "no") {
		t.Errorf("%v, expected an internal error", err)
	}
}

// A schema needs every key of a type once: keys that embedded structs have in common would be dropped in silence.
func TestTypesHaveNoKeysInCommon(t *testing.T) {
	for _, m := range methods() {
		for _, of := range []reflect.Type{m.params, m.result} {
			seen := map[string]int{}
			for _, f := range reflect.VisibleFields(of) {
				if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key != "" && len(f.Index) <= 2 {
					if seen[key]++; seen[key] > 1 {
						t.Errorf("%v has the key %q twice", of, key)
					}
				}
			}
		}
	}
}

// FuzzFrames: whatever is read, the worker ends in order when it ends, and its memory is bounded.
func FuzzFrames(f *testing.F) {
	f.Add([]byte(frame(ask)))
	f.Add([]byte("Content-Length: 99999999\r\n\r\n{}"))
	f.Add([]byte("Content-Length: 3\r\nContent-Length: 5\r\n\r\n[1,2]"))
	f.Add([]byte(frame(`{"jsonrpc":"2.0","id":[],"method":"open","params":[[[]]]}`) + "\r\n\r\n"))
	f.Add([]byte(frame(`[` + ask + `,` + ask + `]`)))
	f.Add([]byte(frame(`{"jsonrpc":"2.0","id":1,"method":"cancel","params":{"id":1}}`)))
	f.Fuzz(func(t *testing.T, input []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		answers(t, string(input), 0)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 64*uint64(len(input))+2*MaxFrame+heap+1<<22 {
			t.Errorf("%d bytes of input took %d bytes of memory", len(input), took)
		}
	})
}

// A message with one id of its own is a request, whatever ids its parameters have.
func TestNamed(t *testing.T) {
	for message, want := range map[string]bool{
		`{"jsonrpc":"2.0","id":1,"method":"x","params":{"id":{}}}`: true,
		` { "a\"id" : "id", "id" : "q" } `:                         true,
		`{"id":"a\\"}`:                                             true,
		`{"id":null}`:                                              false,
		`{"params":{"id":3}}`:                                      false,
		`[{"id":1}]`:                                               false,
		`{"id":1,"id":2}`:                                          false,
		`{"x":"id","y":1}`:                                         false,
		`{"id":1`:                                                  false,
		`{"id":"a\"}`:                                              false,
		``:                                                         false,
	} {
		if named([]byte(message)) != want {
			t.Errorf("%s is named: %v, want %v", message, !want, want)
		}
	}
}
