package study

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"
)

// Header is the first line of a run's file. A run with the same header may continue the file.
type Header interface {
	// Continues reads the first line of a file. The error says why the run cannot continue it, doubt
	// in what its lines may differ from those of an uninterrupted run.
	Continues(line []byte) (doubt string, err error)
	// What names what has written the file.
	What() string
}

// Log is a file of lines of JSON, a header first, from which a run that was killed can continue. Every
// line is written in one call, so that only the last one can be incomplete.
type Log struct {
	Path   string
	file   *os.File
	every  time.Duration
	synced time.Time
}

// LogOptions say how a file is continued.
type LogOptions struct {
	// Resume allows a file that has lines: without it such a file is an error.
	Resume bool
	// Every is the time within which a line is on the disk; 0 when it is written.
	Every time.Duration
	// Warn receives reasons for doubt; nil for none.
	Warn func(string)
	// Replay receives each complete line after the first, in order, without its newline. With
	// [ErrSummary] the line is the last one, which is written anew.
	Replay func(line []byte) error
}

// LineError says what a line of a file is, in place of what is expected there.
type LineError string

func (e LineError) Error() string { return string(e) }

// ErrSummary is what [LogOptions].Replay returns for the line of summary.
const ErrSummary = LineError("a summary")

// LogFault is what is wrong with the file of a [LogError].
type LogFault int

// The faults.
const (
	CannotOpen LogFault = iota
	NotRegular          // it is a folder, or a pipe
	Locked              // another process writes to it
	HasLines            // and may not be continued without Resume
	OtherLines          // of another run, or damaged ones
)

// LogError says why a run cannot write to a file.
type LogError struct {
	Path  string
	Fault LogFault
	// Size is that of a file with lines.
	Size int64
	Err  error // nil for NotRegular and HasLines
}

func (e *LogError) Error() string {
	switch e.Fault {
	case NotRegular:
		return e.Path + ": expected a regular file"
	case HasLines:
		return fmt.Sprintf("%s holds %d bytes already, and is not to be continued", e.Path, e.Size)
	}
	return fmt.Sprintf("%s: %v", e.Path, e.Err)
}

// Unwrap is the reason.
func (e *LogError) Unwrap() error { return e.Err }

// OpenLog opens a new or empty file and writes the header; or, with Resume, a file that has lines, of
// which it cuts off an incomplete last one. No other process of ours can write to it before it is
// closed. Errors about the file are of type [*LogError].
func OpenLog(path string, header Header, o LogOptions) (_ *Log, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		var reason *fs.PathError
		if errors.As(err, &reason) {
			err = reason.Err
		}
		return nil, &LogError{Path: path, Fault: CannotOpen, Err: err}
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
		return nil, &LogError{Path: path, Fault: NotRegular}
	}
	// It is read when nobody else writes to it any more.
	if err := Lock(file); err != nil {
		return nil, &LogError{Path: path, Fault: Locked, Err: err}
	}
	if info, err = file.Stat(); err != nil {
		return nil, err
	}
	if info.Size() > 0 && !o.Resume {
		return nil, &LogError{Path: path, Fault: HasLines, Size: info.Size()}
	}
	end, err := replay(file, header, o)
	if err != nil {
		return nil, &LogError{Path: path, Fault: OtherLines, Err: err}
	}
	if err := file.Truncate(end); err != nil {
		return nil, err
	}
	if _, err := file.Seek(end, io.SeekStart); err != nil {
		return nil, err
	}
	l := &Log{Path: path, file: file, every: o.Every}
	if end == 0 {
		err = l.Write(header)
	}
	return l, err
}

// replay returns where the last good line ends.
func replay(file io.Reader, header Header, o LogOptions) (end int64, err error) {
	r := bufio.NewReaderSize(file, 1<<16)
	var bad error // unless this line is the last
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if err == io.EOF && n == 1 {
			return 0, torn(line, header)
		}
		if err == io.EOF && (len(line) == 0 || !errors.Is(bad, ErrSummary)) {
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
			return 0, fmt.Errorf("it does not begin with the header of a %s", header.What())
		case !json.Valid(line):
			// A machine that loses power can leave such a line, but only at the end.
			bad = fmt.Errorf("line %d is not JSON", n)
			continue
		case n == 1:
			doubt, err := header.Continues(line)
			if err != nil {
				return 0, err
			}
			if doubt != "" && o.Warn != nil {
				o.Warn(doubt)
			}
		default:
			err := o.Replay(line)
			if errors.Is(err, ErrSummary) {
				bad = fmt.Errorf("line %d is %w, expected no lines after it", n, err)
				continue
			}
			if is := LineError(""); errors.As(err, &is) {
				return 0, fmt.Errorf("line %d is %w", n, is)
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
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return l.WriteLine(line)
}

// WriteLine appends a line, which has no newline.
func (l *Log) WriteLine(line []byte) error {
	_, err := l.file.Write(append(slices.Clip(line), '\n'))
	if err == nil && time.Since(l.synced) >= l.every {
		err = l.file.Sync()
		l.synced = time.Now()
	}
	return err
}

// Close makes sure that everything is on the disk.
func (l *Log) Close() error {
	err := l.file.Sync()
	if closeErr := l.file.Close(); err == nil {
		err = closeErr
	}
	return err
}
