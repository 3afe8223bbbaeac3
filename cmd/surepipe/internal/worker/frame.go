package worker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/creachadair/jrpc2"
)

const (
	// MaxFrame is the length of the largest frame, and maxBatch that of the largest that holds several requests, each
	// of which takes memory of its own.
	MaxFrame = 16 << 20
	maxBatch = 64 << 10
	// maxLine is the longest line of a frame's header.
	maxLine = 4 << 10
)

// frames is a channel of messages, each behind a header that ends in an empty line:
//
//	Content-Length: 17
//
//	{"jsonrpc":"2.0"}
//
// A frame that cannot be taken is answered by an error without an id, and the next one is read.
type frames struct {
	in  *bufio.Reader
	end func() // of in

	mu   sync.Mutex
	out  io.Writer
	text []byte // of the frame that is sent, whose memory the next one takes
}

func newFrames(in io.Reader, out io.Writer, end func()) *frames {
	return &frames{in: bufio.NewReaderSize(in, maxLine), out: out, end: end}
}

func (f *frames) Send(message []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text = append(fmt.Appendf(f.text[:0], "Content-Length: %d\r\n\r\n", len(message)), message...)
	_, err := f.out.Write(f.text)
	if cap(f.text) > maxBatch {
		f.text = nil
	}
	return err
}

func (f *frames) Recv() ([]byte, error) {
	for {
		n, err := f.header()
		if err != nil {
			return nil, err
		}
		if n > MaxFrame {
			if _, err = io.CopyN(io.Discard, f.in, n); err == nil {
				err = f.refuse(jrpc2.Errorf(jrpc2.InvalidRequest,
					"a frame has %d bytes, expected at most %d: larger arrays are .npy files", n, MaxFrame))
			}
			if err != nil {
				return nil, err
			}
			continue
		}
		message := make([]byte, n)
		if _, err = io.ReadFull(f.in, message); err != nil {
			return nil, err
		}
		if named(message) {
			return message, nil
		}
		switch batch, nameless := bytes.HasPrefix(bytes.TrimSpace(message), []byte("[")), nameless(message); {
		case batch && n > maxBatch:
			err = f.refuse(jrpc2.Errorf(jrpc2.InvalidRequest, "a batch has %d bytes, expected at most %d", n, maxBatch))
		case nameless != nil:
			err = f.refuse(nameless)
		default:
			return message, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// named reports whether a message is an object with one key id, a number or a text. It may be no JSON all the same.
func named(message []byte) bool {
	depth, key, count := 0, []byte(`"id"`), 0
	for i := 0; i < len(message); i++ {
		switch message[i] {
		case '{', '[':
			if depth++; depth == 1 && message[i] != '{' {
				return false
			}
		case '}', ']':
			depth--
		case '"':
			from := i
			for i++; i < len(message) && message[i] != '"'; i++ {
				if message[i] == '\\' {
					i++
				}
			}
			if depth != 1 || i >= len(message) || !bytes.Equal(message[from:i+1], key) {
				continue
			}
			value, is := bytes.CutPrefix(bytes.TrimLeft(message[i+1:], " \t\r\n"), []byte(":"))
			if value = bytes.TrimLeft(value, " \t\r\n"); is {
				if count++; len(value) == 0 || !bytes.ContainsAny(value[:1], `-0123456789"`) {
					return false
				}
			}
		}
	}
	return count == 1 && depth == 0
}

// nameless is the answer to a message without an id that is no notification. The server would answer it too, but not
// safely where it ends at that moment.
func nameless(message []byte) error {
	requests, err := jrpc2.ParseRequests(message)
	if err != nil {
		return nil // the server says why
	}
	for _, r := range requests {
		switch {
		case r.ID == "" && r.Error != nil:
			return r.Error
		case r.ID == "" && r.Method == "":
			return jrpc2.Errorf(jrpc2.InvalidRequest, "a message has neither an id nor a method, expected one of them")
		}
	}
	return nil
}

// header reads the header of a frame, and returns the length of its content.
func (f *frames) header() (n int64, err error) {
	n = -1
	for other := ""; ; {
		line, err := f.line()
		if err != nil {
			return 0, err
		}
		name, value, _ := strings.Cut(line, ":")
		switch v, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); {
		case line == "" && n >= 0:
			return n, nil
		case line == "" && other != "":
			if err := f.refuse(jrpc2.Errorf(jrpc2.ParseError,
				"the header of a frame is %.40q, expected Content-Length: and a number", other)); err != nil {
				return 0, err
			}
			other = ""
		case strings.EqualFold(name, "content-length") && err == nil && v >= 0:
			n = v
		case !strings.EqualFold(name, "content-type"):
			other = line
		}
	}
}

// line reads a line, of which it keeps no more than fits into the buffer.
func (f *frames) line() (string, error) {
	line, err := f.in.ReadSlice('\n')
	text := strings.TrimRight(string(line), "\r\n")
	for err == bufio.ErrBufferFull {
		_, err = f.in.ReadSlice('\n')
	}
	return text, err
}

// refuse answers what is no request.
func (f *frames) refuse(reason error) error {
	text, err := json.Marshal(reason)
	if err != nil {
		return err
	}
	return f.Send([]byte(`{"jsonrpc":"2.0","id":null,"error":` + string(text) + `}`))
}

// Close ends the reading. Answers can still be sent.
func (f *frames) Close() error {
	f.end()
	return nil
}
