package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"
)

// logHeader is the first line of a --jsonl file: the settings and data of its samples. Two runs
// with equal Settings and Data compute the same lines.
type logHeader struct {
	MonteCarlo int               `json:"montecarlo"` // the format, 1
	Settings   map[string]string `json:"settings"`
	Data       string            `json:"data"`
	// Version and Device may differ in a run that continues: results then agree up to rounding.
	Version string `json:"version"`
	Device  string `json:"device"`
}

const logFormat = 1

// header is the first line of a file of lines that a run with the same header may continue.
type header interface {
	// continues reads the first line of a file. The error says why the run cannot continue it, doubt
	// in what its lines may differ from those of an uninterrupted run.
	continues(line []byte) (doubt string, err error)
	// what names what has written the file.
	what() string
}

func (h logHeader) what() string { return "montecarlo run" }

// continues compares settings and data.
func (h logHeader) continues(line []byte) (doubt string, err error) {
	var was logHeader
	if err := json.Unmarshal(line, &was); err != nil {
		return "", fmt.Errorf("its first line was not written by surepipe montecarlo (%w)", err)
	}
	if why := was.differs(h); why != "" {
		return "", errors.New(why)
	}
	if was.Version != h.Version || was.Device != h.Device {
		doubt = fmt.Sprintf("the samples in the file were computed by version %s on %s: further samples agree with them up to rounding", was.Version, was.Device)
	}
	return doubt, nil
}

// differs says how h differs from want; "" if they agree.
func (h logHeader) differs(want logHeader) string {
	if h.MonteCarlo != want.MonteCarlo {
		return fmt.Sprintf("its first line was not written by surepipe montecarlo (format %d, expected %d)", h.MonteCarlo, want.MonteCarlo)
	}
	names := maps.Clone(h.Settings)
	maps.Copy(names, want.Settings)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if was, is := h.Settings[name], want.Settings[name]; was != is {
			return fmt.Sprintf("it was begun with --%s %q, expected %q", name, was, is)
		}
	}
	if h.Data != want.Data {
		return fmt.Sprintf("it was begun with other data (%.23s..., expected %.23s...)", h.Data, want.Data)
	}
	return ""
}

// sampleLog is a file of one JSON line a sample, from which a killed run can continue. Every line
// is written in one call, and is on the disk within syncEvery.
type sampleLog struct {
	path   string
	file   *os.File
	synced time.Time
}

const syncEvery = time.Second

// openLog opens a new or empty file and writes the header; or, with resume, a file that has lines:
// it passes each complete one to replay, in order, without its newline, and cuts off an incomplete
// last one. It calls warn with reasons for doubt. Errors name the file.
func openLog(path string, header header, resume bool, warn func(string), replay func(line []byte) error) (_ *sampleLog, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		var reason *fs.PathError
		if errors.As(err, &reason) {
			err = reason.Err
		}
		return nil, usagef("--jsonl is %q: %w", path, err)
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
	switch {
	case !info.Mode().IsRegular():
		return nil, usagef("--jsonl is %q, expected a regular file", path)
	case info.Size() > 0 && !resume:
		return nil, usagef("--jsonl: %s holds %d bytes already; --resume continues it", path, info.Size())
	}
	if err := lock(file); err != nil {
		return nil, fmt.Errorf("--jsonl: %s: %w", path, err)
	}
	end, err := replayLog(file, header, warn, replay)
	if err != nil {
		return nil, usagef("%s: %w", path, err)
	}
	if err := file.Truncate(end); err != nil {
		return nil, err
	}
	if _, err := file.Seek(end, io.SeekStart); err != nil {
		return nil, err
	}
	l := &sampleLog{path: path, file: file}
	if end == 0 {
		line, err := json.Marshal(header)
		if err != nil {
			return nil, err
		}
		if err := l.write(line); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// replayLog returns where the last good line ends.
func replayLog(file io.Reader, header header, warn func(string), replay func(line []byte) error) (end int64, err error) {
	r := bufio.NewReaderSize(file, 1<<16)
	var bad error
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			// A line without a newline is incomplete.
			if n == 1 {
				return 0, tornHeader(line, header, header.what())
			}
			return end, nil
		}
		if err != nil {
			return 0, err
		}
		if bad != nil {
			return 0, bad
		}
		length := int64(len(line))
		line = bytes.TrimSuffix(line, []byte("\n"))
		switch {
		case n == 1 && !json.Valid(line):
			return 0, fmt.Errorf("it does not begin with the header of a %s", header.what())
		case !json.Valid(line):
			// A machine that loses power can leave such a line, but only at the end.
			bad = fmt.Errorf("line %d is not JSON", n)
			continue
		case n == 1:
			doubt, err := header.continues(line)
			if err != nil {
				return 0, err
			}
			if doubt != "" {
				warn(doubt)
			}
		default:
			if err := replay(line); err != nil {
				return 0, fmt.Errorf("line %d: %w", n, err)
			}
		}
		end += length
	}
}

// write appends a line.
func (l *sampleLog) write(line []byte) error {
	_, err := l.file.Write(append(slices.Clip(line), '\n'))
	if err == nil && time.Since(l.synced) >= syncEvery {
		err = l.file.Sync()
		l.synced = time.Now()
	}
	return err
}

// close makes sure that everything is on the disk.
func (l *sampleLog) close() error {
	err := l.file.Sync()
	if closeErr := l.file.Close(); err == nil {
		err = closeErr
	}
	return err
}
