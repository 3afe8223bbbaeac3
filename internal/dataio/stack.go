package dataio

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/stored"
)

// Stack reads the samples of an N x ... array, one at a time, in memory that depends on neither
// their number nor their size. It is not safe for concurrent use.
type Stack struct {
	r      io.Reader
	closer io.Closer
	// at opens the array at a byte; nil where the input is a pipe.
	at     func(offset int64) (io.ReadCloser, error)
	header int64
	dtype  dtype
	decode func(dst []float64, b []byte)
	shape  []int
	n, len int
	// next is the sample that Next reads; its reader may be elsewhere after a Seek.
	next int
	buf  []byte
	err  error
}

// NewStack reads a .npy array from a stream of unknown length, such as a pipe: where the stream is
// too short, reading the first missing sample is an error.
func NewStack(r io.Reader) (*Stack, error) {
	return newStack(io.NopCloser(r), math.MaxInt64, nil)
}

// OpenStack is [NewStack] of a file. It may be anything that can be opened, including a named pipe;
// [Stack.Seek] can go back only in a regular file. The error names the file.
func OpenStack(path string) (*Stack, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, stored.Bare(err))
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = errors.New("is a directory, expected a numpy .npy file")
	}
	var s *Stack
	if err == nil {
		var at func(int64) (io.ReadCloser, error)
		room := int64(math.MaxInt64)
		if info.Mode().IsRegular() {
			room = info.Size()
			at = func(offset int64) (io.ReadCloser, error) {
				_, err := f.Seek(offset, io.SeekStart)
				return f, err
			}
		}
		s, err = newStack(f, room, at)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, stored.Bare(err))
	}
	return s, nil
}

// Stack reads an array of a numpy file sample by sample. If a member of an archive is read from its
// first sample to its last, its checksum is compared; after a Seek in a member that is not
// compressed it is not.
func (s *Set) Stack(name string) (*Stack, error) {
	e, ok := s.entry(name)
	switch {
	case !ok:
		return nil, s.Missing(name, "", nil)
	case e.held != nil || e.load != nil:
		return nil, fmt.Errorf("array %q is not a numpy array: a stack of samples is read from .npy or .npz", name)
	}
	rc, room, err := e.open()
	if err != nil {
		return nil, corruptError(name, err)
	}
	stack, err := newStack(rc, room, e.at)
	if err != nil {
		rc.Close()
		return nil, fmt.Errorf("array %q %w", name, err)
	}
	return stack, nil
}

func newStack(rc io.ReadCloser, room int64, at func(int64) (io.ReadCloser, error)) (*Stack, error) {
	// The values are read in large pieces, bypassing this buffer, which is for the header.
	buffered := bufio.NewReaderSize(rc, 16)
	h, err := readHeader(buffered)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.New("is truncated or corrupt (it ends within the header)")
	case err != nil:
		return nil, fmt.Errorf("is not a .npy array, or corrupt (%w)", err)
	}
	s := &Stack{r: buffered, closer: rc, at: at, header: h.size, shape: h.shape, len: 1}
	if s.dtype, err = parseDtype(h.descr); err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	if len(h.shape) == 0 {
		return nil, errors.New("has shape (), expected (N, ...), a stack of N samples")
	}
	total := 1
	for _, n := range h.shape {
		switch {
		case n < 0:
			return nil, fmt.Errorf("is corrupt (its header states shape %s)", ndarray.ShapeString(h.shape))
		case n == 0:
			return nil, fmt.Errorf("is empty, its shape is %s", ndarray.ShapeString(h.shape))
		case n > math.MaxInt/8/total:
			return nil, fmt.Errorf("is corrupt (its header states shape %s, more than can be addressed)",
				ndarray.ShapeString(h.shape))
		}
		total *= n
	}
	if h.fortran {
		return nil, fmt.Errorf("is in Fortran order, where every sample is spread over the whole array, so they "+
			"cannot be read one at a time; save numpy.ascontiguousarray of it (its shape is %s)",
			ndarray.ShapeString(h.shape))
	}
	s.n, s.shape = h.shape[0], h.shape[1:]
	s.len = total / s.n
	// Otherwise callers would allocate memory for a missing sample.
	if bytes := int64(s.len) * int64(s.dtype.Size); bytes > room-s.header {
		return nil, fmt.Errorf("is truncated: the data end at byte %d, sample 0 of %d takes bytes %d to %d", room,
			s.n, s.header, s.header+bytes)
	}
	if after := room - s.header - int64(total)*int64(s.dtype.Size); room < math.MaxInt64 && after > 0 {
		return nil, fmt.Errorf("is corrupt (%w)", afterArray(after))
	}
	s.decode = s.dtype.Floats()
	s.buf = make([]byte, min(s.len, 8*chunkLen)*s.dtype.Size)
	return s, nil
}

// Shape is the shape of one sample: the array's without its first axis. A stream may state any
// shape: compare it with the expected one before allocating memory for it.
func (s *Stack) Shape() []int { return s.shape }

func (s *Stack) Len() int       { return s.n }
func (s *Stack) SampleLen() int { return s.len }

// Index is the number of the sample that Next reads, counted from 0.
func (s *Stack) Index() int { return s.next }

// Next reads the next sample into dst, which has room for SampleLen values. It returns io.EOF after
// the last one, after checking that the input ends there. A sample with a NaN or Inf is an error,
// after which reading can continue. Any other error is permanent.
func (s *Stack) Next(dst []float64) error {
	if len(dst) != s.len {
		panic(fmt.Sprintf("dataio: sample of shape %s has %d values, dst has room for %d",
			ndarray.ShapeString(s.shape), s.len, len(dst)))
	}
	if s.err != nil {
		return s.err
	}
	if s.next == s.n {
		return s.End()
	}
	i := s.next
	for done := 0; done < s.len; {
		b := s.buf[:min(len(s.buf), (s.len-done)*s.dtype.Size)]
		if n, err := io.ReadFull(s.r, b); err != nil {
			return s.fail(i, int64(done*s.dtype.Size+n), err)
		}
		n := len(b) / s.dtype.Size
		s.decode(dst[done:done+n], b)
		done += n
	}
	s.next++
	for k, v := range dst {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("sample %d of %d (from 0) holds %g at %s, expected finite numbers", i, s.n, v,
				ndarray.PlaceString(k, s.shape))
		}
	}
	return nil
}

func (s *Stack) fail(i int, got int64, err error) error {
	bytes := int64(s.len) * int64(s.dtype.Size)
	begin := s.header + int64(i)*bytes
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		s.err = fmt.Errorf("is truncated: the data end at byte %d, sample %d of %d (from 0) takes bytes %d to %d",
			begin+got, i, s.n, begin, begin+bytes)
	} else {
		s.err = fmt.Errorf("sample %d of %d (from 0), byte %d: %w", i, s.n, begin+got, stored.Bare(err))
	}
	return s.err
}

// End returns io.EOF where the input ends after the last sample, of which it makes sure: a pipe shows
// what follows when it is read, and an archive has a checksum. Before the last sample it returns nil.
func (s *Stack) End() error {
	if s.next < s.n {
		return nil
	}
	var one [1]byte
	switch n, err := io.ReadFull(s.r, one[:]); {
	case n > 0:
		s.err = fmt.Errorf("continues after the last of the %d samples that its header states, at byte %d", s.n,
			s.header+int64(s.n)*int64(s.len*s.dtype.Size))
	case err != io.EOF:
		s.err = fmt.Errorf("is corrupt (%w)", stored.Bare(err))
	default:
		s.err = io.EOF
	}
	return s.err
}

// Seek goes to sample i, from 0 to Len, which Next then reads. In a pipe or a compressed archive it
// reads the samples in between; in a pipe it cannot go back.
func (s *Stack) Seek(i int) error {
	if i < 0 || i > s.n {
		return fmt.Errorf("sample %d does not exist, expected 0 to %d", i, s.n)
	}
	if s.err != nil && s.err != io.EOF {
		return s.err
	}
	bytes := int64(s.len) * int64(s.dtype.Size)
	switch {
	case s.at != nil:
		rc, err := s.at(s.header + int64(i)*bytes)
		if err != nil {
			return s.fail(i, 0, err)
		}
		if rc != s.closer {
			s.closer.Close()
		}
		s.r, s.closer = rc, rc
	case i < s.next:
		return fmt.Errorf("cannot go back from sample %d to sample %d: the input is not a regular file", s.next, i)
	default:
		if n, err := io.CopyN(io.Discard, s.r, int64(i-s.next)*bytes); err != nil {
			return s.fail(s.next+int(n/bytes), n%bytes, err)
		}
	}
	if i < s.n {
		s.err = nil
	}
	s.next = i
	return nil
}

// Close closes a file opened by OpenStack or Set.Stack; the stream of NewStack stays open.
func (s *Stack) Close() error { return s.closer.Close() }
