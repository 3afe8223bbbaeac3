package study

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path/filepath"
	"strconv"
	"strings"

	"surepipe/internal/stored"
)

// ShardFile is a file of one shard that has been checked.
type ShardFile struct {
	Path  string
	lines int // complete lines after the first
}

// Shards are the files of one run, by index of the shard.
type Shards struct {
	Of    ShardHeader // of the first file
	Files map[int]ShardFile
	// Mixed says that they may be of several machines.
	Mixed bool

	in fs.FS
}

// MissingShards says which shards of a run are missing or incomplete.
type MissingShards struct {
	Indices []int
	Count   int // of all shards
}

// Error lists them as an array job takes them.
func (e *MissingShards) Error() string {
	return fmt.Sprintf("%d of %d shards are missing or incomplete: %s", len(e.Indices), e.Count, Ranges(e.Indices))
}

// ReadShards checks files of a file system against each other. Errors name the file.
func ReadShards(files fs.FS, paths []string, mixed bool) (*Shards, error) {
	if len(paths) == 0 || files == nil {
		return nil, Errorf("there are no files of shards, expected those of one run")
	}
	set := &Shards{Files: map[int]ShardFile{}, Mixed: mixed, in: files}
	for n, path := range paths {
		h, lines, err := checkShard(files, path)
		if err != nil {
			return nil, Errorf("%s: %w", path, err)
		}
		if n == 0 {
			set.Of = h
		}
		why := h.SameRun(set.Of, mixed)
		if why != nil {
			return nil, Errorf("%s is not of the run of %s: %w", path, paths[0], why)
		}
		here := ShardFile{path, lines}
		if other, twice := set.Files[h.Shard.Index]; twice {
			if err := sameLines(files, other.Path, path, min(lines, other.lines)); err != nil {
				return nil, Errorf("%s and %s are both shard %d of %d: %w", other.Path, path, h.Shard.Index,
					h.Shard.Count, err)
			}
			if other.lines >= lines {
				here = other
			}
		}
		set.Files[h.Shard.Index] = here
	}
	return set, nil
}

// Missing are the indices of shards without a complete file, in order.
func (s *Shards) Missing() (list []int) {
	for i := range s.Of.Shard.Count {
		file, ok := s.Files[i]
		first, end := s.Of.linesOf(i)
		if !ok || file.lines < end-first {
			list = append(list, i)
		}
	}
	return list
}

// Whole rejects shards of which some are missing or incomplete.
func (s *Shards) Whole() error {
	if s == nil {
		return Errorf("the shards are nil, expected those of one run")
	}
	if missing := s.Missing(); len(missing) > 0 {
		return &MissingShards{Indices: missing, Count: s.Of.Shard.Count}
	}
	return nil
}

// Ranges writes increasing numbers as an array job takes them: 2,5-7.
func Ranges(list []int) string {
	var parts []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		part := strconv.Itoa(list[i])
		if j > i {
			part += "-" + strconv.Itoa(list[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}

func (s *Shards) each(ctx context.Context, take func(line []byte) error) error {
	for i := range s.Of.Shard.Count {
		first, end := s.Of.linesOf(i)
		if first == end {
			continue
		}
		n := 0
		for line, err := range completeLines(s.in, s.Files[i].Path) {
			if err = cmp.Or(err, ctx.Err()); err == nil && n > 0 && n <= end-first {
				err = take(line)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", filepath.Base(s.Files[i].Path), err)
			}
			n++
		}
	}
	return nil
}

// completeLines are those of a file, without their newlines. An incomplete last one, of a task that was killed, is left
// out.
func completeLines(files fs.FS, path string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		file, err := files.Open(path)
		if err != nil {
			yield(nil, stored.Bare(err))
			return
		}
		defer file.Close()
		r := bufio.NewReaderSize(file, 1<<16)
		for some := false; ; some = true {
			line, err := r.ReadBytes('\n')
			if err == io.EOF && some {
				return
			}
			if err == io.EOF {
				err = errors.New("it has no complete line")
			}
			if !yield(bytes.TrimSuffix(line, []byte("\n")), err) || err != nil {
				return
			}
		}
	}
}

// checkShard reads a shard's file: its header, and the number of its complete lines, each of which
// must be the one that belongs there. A last line that is no JSON counts as incomplete: a machine
// that loses power can leave one.
func checkShard(files fs.FS, path string) (h ShardHeader, lines int, err error) {
	n, bad := 0, 0 // numbers of the line, and of the one that is no JSON
	for line, err := range completeLines(files, path) {
		switch {
		case err != nil:
			return h, lines, err
		case n == 0:
			if h, err = ParseShardHeader(line); err != nil {
				return h, lines, err
			}
		case bad > 0:
			return h, lines, fmt.Errorf("line %d is not JSON", bad+1)
		case !json.Valid(line):
			bad = n
		default:
			if first, end := h.linesOf(h.Shard.Index); n > end-first {
				return h, lines, fmt.Errorf("it has more lines than its shard's %d", end-first)
			}
			if err := h.place(n-1, line); err != nil {
				return h, lines, fmt.Errorf("line %d: %w", n+1, err)
			}
			lines = n
		}
		n++
	}
	return h, lines, nil
}

// sameLines rejects files of which one of so many lines after the first differs.
func sameLines(files fs.FS, a, b string, lines int) error {
	next, stop := iter.Pull2(completeLines(files, b))
	defer stop()
	n := 0
	for line, err := range completeLines(files, a) {
		other, failed, _ := next()
		if err := cmp.Or(err, failed); err != nil || n > lines {
			return err
		}
		if n > 0 && !bytes.Equal(WithoutTimes(line), WithoutTimes(other)) {
			return fmt.Errorf("line %d of them differs", n+1)
		}
		n++
	}
	return nil
}

// WithoutTimes is JSON without the keys "seconds", and further ones, at any depth.
func WithoutTimes(line []byte, further ...string) []byte {
	var v any
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber() // digits as they are
	if d.Decode(&v) != nil {
		return line
	}
	var strip func(v any)
	strip = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			delete(v, "seconds")
			for _, key := range further {
				delete(v, key)
			}
			for _, w := range v {
				strip(w)
			}
		case []any:
			for _, w := range v {
				strip(w)
			}
		}
	}
	strip(v)
	text, err := json.Marshal(v)
	if err != nil {
		return line
	}
	return text
}
