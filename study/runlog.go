package study

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"surepipe/internal/stored"
)

// Header is the first line of a run's file. A run with the same header may continue the file.
type Header interface {
	// Continues reads the first line of a file. The error says why the run cannot continue it, doubt in what
	// its lines may differ.
	Continues(line []byte) (doubt string, err error)
	// What names what has written the file.
	What() string
}

// Log is a file of lines of JSON, a header first, from which a run that was killed can continue. Every
// line is written in one call, so that only the last one can be incomplete.
type Log struct {
	to     io.Writer
	file   *os.File // nil where it is none of the operating system
	every  time.Duration
	synced time.Time
}

// File is where the lines of a run are kept.
type File struct {
	// Path is its name, "" for none.
	Path string
	// To, in the place of a path, takes all lines, those that From has among them: those of a run that was
	// interrupted, of which an incomplete last one is dropped. Either may be nil.
	To     io.Writer
	From   io.Reader
	Header Header
	// Resume allows a file that has lines: without it such a file is an error.
	Resume bool
	// Every is the time within which a line is on the disk; 0 when it is written.
	Every time.Duration
	// Warn receives reasons for doubt; nil for none.
	Warn func(string)
}

// errSummary says that a line is the last one, which is written anew.
var errSummary = errors.New("a summary")

// open opens a new or empty file and writes the header; or, with Resume, a file that has lines, of which it cuts off an
// incomplete last one. read receives each complete line after the first, in order, without its newline; with
// errSummary the line is the last one, which is written anew. No other process of ours can write to the file before it
// is closed. Without a path the log is nil, which takes lines and keeps none.
func (f File) open(read func(line []byte) error) (_ *Log, err error) {
	if f.Path == "" {
		return f.pass(read)
	}
	path := f.Path
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, Errorf("--jsonl is %q: %w", path, stored.Bare(err))
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, Errorf("--jsonl is %q, expected a regular file", path)
	}
	// It is read when nobody else writes to it any more.
	if err := Lock(file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if info, err = file.Stat(); err != nil {
		return nil, err
	}
	if info.Size() > 0 && !f.Resume {
		return nil, Errorf("--jsonl is %q, which exists: continue it with --resume, or remove it", path)
	}
	end, err := f.replay(file, read)
	if err != nil {
		return nil, Errorf("%s: %w", path, err)
	}
	if err := file.Truncate(end); err != nil {
		return nil, err
	}
	if _, err := file.Seek(end, io.SeekStart); err != nil {
		return nil, err
	}
	l := &Log{to: file, file: file, every: f.Every}
	if end == 0 {
		err = l.Write(f.Header)
	}
	return l, err
}

// pass reads the lines of From, if there are any, and writes them to To.
func (f File) pass(read func(line []byte) error) (*Log, error) {
	if f.To == nil && f.From == nil {
		return nil, nil
	}
	if f.To == nil {
		f.To = io.Discard
	}
	l := &Log{to: f.To}
	if err := l.Write(f.Header); err != nil || f.From == nil {
		return l, err
	}
	_, err := f.replay(f.From, func(line []byte) error {
		if err := read(line); err != nil {
			return err
		}
		return l.WriteLine(line)
	})
	if err != nil {
		return l, Errorf("the lines of the run to continue: %w", err)
	}
	return l, nil
}

// replay returns where the last good line ends.
func (f File) replay(file io.Reader, read func(line []byte) error) (end int64, err error) {
	r := bufio.NewReaderSize(file, 1<<16)
	var bad error // unless this line is the last
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if err == io.EOF && n == 1 {
			return 0, torn(line, f.Header)
		}
		if err == io.EOF && (len(line) == 0 || !errors.Is(bad, errSummary)) {
			return end, nil // a line without a newline is incomplete
		}
		if err != nil && err != io.EOF {
			return 0, err
		}
		if bad != nil {
			return 0, bad
		}
		length := int64(len(line))
		line = bytes.TrimSuffix(line, []byte("\n"))
		switch {
		case n == 1 && !json.Valid(line):
			return 0, fmt.Errorf("it does not begin with the header of a %s", f.Header.What())
		case !json.Valid(line):
			// A machine that loses power can leave such a line, but only at the end.
			bad = fmt.Errorf("line %d is not JSON", n)
			continue
		case n == 1:
			doubt, err := f.Header.Continues(line)
			if err != nil {
				return 0, err
			}
			if doubt != "" && f.Warn != nil {
				f.Warn(doubt)
			}
		default:
			err := read(line)
			if errors.Is(err, errSummary) {
				bad = fmt.Errorf("line %d is %w, expected no lines after it", n, err)
				continue
			}
			if err != nil {
				return 0, Errorf("line %d: %w", n, err)
			}
		}
		end += length
	}
}

// torn rejects a file of one incomplete line that is not the beginning of the header: such a file is
// not a log, and must not be overwritten.
func torn(text []byte, header Header) error {
	expected, err := json.Marshal(header)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(expected, text) {
		return fmt.Errorf("it does not begin with the header of a %s", header.What())
	}
	return nil
}

// Write appends a value as a line of JSON.
func (l *Log) Write(v any) error {
	if l == nil {
		return nil
	}
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return l.WriteLine(line)
}

// WriteLine appends a line, which has no newline.
func (l *Log) WriteLine(line []byte) error {
	if l == nil {
		return nil
	}
	_, err := l.to.Write(append(slices.Clip(line), '\n'))
	if err == nil && l.file != nil && time.Since(l.synced) >= l.every {
		err = l.file.Sync()
		l.synced = time.Now()
	}
	return err
}

// end closes the log, and makes sure that everything is on the disk; err is that of the run.
func (l *Log) end(err *error) {
	if l != nil && l.file != nil {
		*err = cmp.Or(*err, l.file.Sync(), l.file.Close())
	}
}
