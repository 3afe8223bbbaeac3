// Package hdf5 reads the numeric datasets of HDF5 files, as h5py, MATLAB 7.3 and the C library write
// them by default: groups as symbol tables or compact links, datasets that are compact, contiguous or
// in chunks, with the filters deflate, shuffle and fletcher32, of integers, floating point numbers and
// complex numbers, pairs of real and imaginary part. Files are not trusted: every address is checked
// against the file's length, and no input makes a function panic.
//
// The HDF Group, HDF5 File Format Specification, version 3.0.
package hdf5

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// Magic begins a file, at byte 0, 512, 1024, 2048 and so on.
const Magic = "\x89HDF\r\n\x1a\n"

type Dataset struct {
	// Name is the path of the dataset without the leading slash.
	Name string
	f    *File
	at   uint64 // of its object header
}

type File struct {
	r    io.ReaderAt
	size int64
	// base is what addresses are relative to; o and l are the sizes of addresses and lengths.
	base int64
	o, l int
	// Datasets lists the datasets of the file in the order of its groups.
	Datasets []Dataset
	// left is the number of objects that may still be visited.
	left int64
}

// corrupt is an error in the file, raised where it is met and returned by the function of the package
// that was called.
type corrupt struct{ error }

func fail(format string, args ...any) { panic(corrupt{fmt.Errorf(format, args...)}) }

// caught turns a corrupt that was raised into an error.
func caught(err *error) {
	switch r := recover().(type) {
	case nil:
	case corrupt:
		*err = r.error
	default:
		panic(r)
	}
}

func Open(r io.ReaderAt, size int64) (f *File, err error) {
	defer caught(&err)
	f = &File{r: r, size: size, o: 8, l: 8}
	f.left = f.objects()
	start := int64(0)
	for ; ; start = max(512, 2*start) {
		if start+int64(len(Magic)) > size {
			return nil, errors.New("has no HDF5 signature")
		}
		if string(f.bytes(uint64(start), len(Magic))) == Magic {
			break
		}
	}
	root := f.superblock(start)
	f.walk("", root, map[uint64]bool{})
	return f, nil
}

// objects bounds the number of objects: there are no more than bytes in the file, and groups that share
// members could be visited again and again.
func (f *File) objects() int64 { return min(f.size, 1<<20) }

// superblock reads the sizes and returns the address of the root group's header.
func (f *File) superblock(start int64) (root uint64) {
	c := f.cursor(uint64(start)+8, 16)
	switch version := c.uint(1); version {
	case 0, 1:
		c.skip(4)
		f.o, f.l = int(c.uint(1)), int(c.uint(1))
		f.checkSizes()
		more := 0
		if version == 1 {
			more = 4
		}
		c = f.cursor(uint64(start)+24+uint64(more), 4*f.o+2*f.o)
		f.base = int64(c.uint(f.o))
		c.skip(3 * f.o)
		c.skip(f.o) // the offset of the root's name
		root = c.uint(f.o)
	case 2, 3:
		f.o, f.l = int(c.uint(1)), int(c.uint(1))
		f.checkSizes()
		c = f.cursor(uint64(start)+12, 4*f.o)
		f.base = int64(c.uint(f.o))
		c.skip(2 * f.o)
		root = c.uint(f.o)
	default:
		fail("has an HDF5 superblock of version %d, expected 0 to 3", version)
	}
	if f.base < 0 || f.base > f.size {
		fail("is truncated or corrupt (its base address is %d)", f.base)
	}
	return root
}

func (f *File) checkSizes() {
	for _, n := range []int{f.o, f.l} {
		if n != 2 && n != 4 && n != 8 {
			fail("is truncated or corrupt (addresses of %d bytes and lengths of %d)", f.o, f.l)
		}
	}
}

func (f *File) bytes(at uint64, n int) []byte {
	from := int64(at) + f.base
	if at > uint64(f.size) || n < 0 || from < 0 || int64(n) > f.size-from {
		fail("is truncated or corrupt (%d bytes at address %d of a file of %d)", n, at, f.size)
	}
	b := make([]byte, n)
	if _, err := f.r.ReadAt(b, from); err != nil && !(errors.Is(err, io.EOF) && n == 0) {
		fail("cannot be read (%w)", err)
	}
	return b
}

// cursor reads fields one after the other.
type cursor struct {
	f *File
	b []byte
}

func (f *File) cursor(at uint64, n int) *cursor { return &cursor{f, f.bytes(at, n)} }

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b) {
		fail("is truncated or corrupt (a header ends early)")
	}
	b := c.b[:n]
	c.b = c.b[n:]
	return b
}

func (c *cursor) skip(n int) { c.take(n) }

func (c *cursor) uint(n int) uint64 {
	v := uint64(0)
	for i, b := range c.take(n) {
		if i < 8 {
			v |= uint64(b) << (8 * i)
		}
	}
	return v
}

// address is an address; ok is false for the undefined one.
func (c *cursor) address() (at uint64, ok bool) {
	at = c.uint(c.f.o)
	return at, at != math.MaxUint64>>(64-8*c.f.o)
}

// length is a length that must fit in the file.
func (c *cursor) length() int {
	n := c.uint(c.f.l)
	if n > uint64(c.f.size) {
		fail("is truncated or corrupt (a length of %d in a file of %d bytes)", n, c.f.size)
	}
	return int(n)
}

// text is the bytes up to the next 0.
func (c *cursor) text() string {
	n := bytes.IndexByte(c.b, 0)
	if n < 0 {
		fail("is truncated or corrupt (a name without an end)")
	}
	return string(c.take(n + 1)[:n])
}

// message is one message of an object's header.
type message struct {
	kind uint64
	body *cursor
}

const (
	dataspaceMessage  = 0x01
	linkInfoMessage   = 0x02
	datatypeMessage   = 0x03
	fillMessage       = 0x05
	linkMessage       = 0x06
	layoutMessage     = 0x08
	filterMessage     = 0x0b
	continuationMsg   = 0x10
	symbolTableMsg    = 0x11
	mostContinuations = 1 << 10
)

func (f *File) messages(at uint64) (all []message) {
	if f.left--; f.left < 0 {
		fail("is corrupt (it has more objects than bytes)")
	}
	type block struct {
		at uint64
		n  int
	}
	start := f.cursor(at, 4)
	second := string(start.b) == "OHDR"
	order := 0
	first, n := at+16, uint64(0)
	if second {
		c := f.cursor(at, 6)
		c.skip(5)
		flags := c.uint(1)
		skip := 6
		if flags&0x20 != 0 {
			skip += 16
		}
		if flags&0x10 != 0 {
			skip += 4
		}
		if flags&0x04 != 0 {
			order = 2
		}
		width := 1 << (flags & 3)
		n = f.cursor(at+uint64(skip), width).uint(width)
		first = at + uint64(skip+width)
	} else {
		if v := start.uint(1); v != 1 {
			fail("is truncated or corrupt (an object header of version %d)", v)
		}
		c := f.cursor(at, 12)
		c.skip(8)
		n = c.uint(4)
	}
	if n > uint64(f.size) {
		fail("is truncated or corrupt (a header of %d bytes)", n)
	}
	blocks := []block{{first, int(n)}}
	for i := 0; i < len(blocks) && i < mostContinuations; i++ {
		c := f.cursor(blocks[i].at, blocks[i].n)
		if second && i > 0 {
			if string(c.take(4)) != "OCHK" || len(c.b) < 4 {
				fail("is truncated or corrupt (a header's continuation)")
			}
			c.b = c.b[:len(c.b)-4] // the checksum
		}
		for len(c.b) >= 8 || second && len(c.b) >= 4+order {
			var kind uint64
			var size int
			if second {
				kind, size = c.uint(1), int(c.uint(2))
				c.skip(1 + order)
			} else {
				kind, size = c.uint(2), int(c.uint(2))
				c.skip(4)
			}
			body := &cursor{f, c.take(size)}
			if kind == continuationMsg {
				next, _ := body.address()
				blocks = append(blocks, block{next, body.length()})
				continue
			}
			all = append(all, message{kind, body})
		}
	}
	return all
}

// walk adds the datasets at and below an object. Groups that are being visited are not visited again.
func (f *File) walk(path string, at uint64, open map[uint64]bool) {
	if open[at] {
		return
	}
	open[at] = true
	defer delete(open, at)
	dataset := false
	all := f.messages(at)
	for _, m := range all {
		dataset = dataset || m.kind == layoutMessage
	}
	if dataset {
		f.Datasets = append(f.Datasets, Dataset{strings.TrimPrefix(path, "/"), f, at})
		return
	}
	for _, m := range all {
		switch m.kind {
		case symbolTableMsg:
			tree, ok := m.body.address()
			at, _ := m.body.address()
			if ok {
				heap := f.heap(at)
				f.tree(tree, groupTree, f.l, 0, func(_ *cursor, child uint64) { f.symbols(path, child, heap, open) })
			}
		case linkMessage:
			if name, to, ok := f.link(m.body); ok {
				f.child(path, name, to, open)
			}
		case linkInfoMessage:
			c := m.body
			c.skip(1)
			if c.uint(1)&1 != 0 {
				c.skip(8)
			}
			if _, dense := c.address(); dense {
				fail("keeps the names of a group in a fractal heap, as h5py does with libver='latest', which is " +
					"not supported: write it with libver='earliest'")
			}
		}
	}
}

// child visits a member of a group. MATLAB keeps what variables refer to in #refs#.
func (f *File) child(path, name string, at uint64, open map[uint64]bool) {
	if strings.HasPrefix(name, "#") {
		return
	}
	if len(open) > 64 {
		fail("is corrupt (groups within groups, more than 64 deep)")
	}
	f.walk(path+"/"+name, at, open)
}

// link reads a link message; ok is false for links that are not hard.
func (f *File) link(c *cursor) (name string, to uint64, ok bool) {
	c.skip(1)
	flags := c.uint(1)
	kind := uint64(0)
	if flags&0x08 != 0 {
		kind = c.uint(1)
	}
	if flags&0x04 != 0 {
		c.skip(8)
	}
	if flags&0x10 != 0 {
		c.skip(1)
	}
	n := c.uint(1 << (flags & 3))
	if n > uint64(len(c.b)) {
		fail("is truncated or corrupt (a name of %d bytes)", n)
	}
	name = string(c.take(int(n)))
	if kind != 0 {
		return name, 0, false
	}
	to, ok = c.address()
	return name, to, ok
}

func (f *File) heap(at uint64) []byte {
	c := f.cursor(at, 8+2*f.l+f.o)
	if string(c.take(4)) != "HEAP" {
		fail("is truncated or corrupt (a heap at address %d)", at)
	}
	c.skip(4)
	n := c.length()
	c.skip(f.l)
	data, _ := c.address()
	return f.bytes(data, n)
}

const (
	groupTree    = 0
	chunkTree    = 1
	symbolicLink = 2
)

const mostLevels = 32

// tree visits the children of the leaves of a B-tree, each with its key, of key bytes.
func (f *File) tree(at, kind uint64, key, level int, visit func(key *cursor, child uint64)) {
	if f.left--; f.left < 0 || level > mostLevels {
		fail("is corrupt (a tree has no end)")
	}
	head := f.cursor(at, 8)
	if string(head.take(4)) != "TREE" || head.uint(1) != kind {
		fail("is truncated or corrupt (a tree at address %d)", at)
	}
	leaf, n := head.uint(1) == 0, int(head.uint(2))
	c := f.cursor(at+8+uint64(2*f.o), n*(key+f.o))
	for range n {
		k := &cursor{f, c.take(key)}
		child, ok := c.address()
		switch {
		case !ok:
		case leaf:
			visit(k, child)
		default:
			f.tree(child, kind, key, level+1, visit)
		}
	}
}

func (f *File) symbols(path string, at uint64, heap []byte, open map[uint64]bool) {
	head := f.cursor(at, 8)
	if string(head.take(4)) != "SNOD" {
		fail("is truncated or corrupt (a group's node at address %d)", at)
	}
	head.skip(2)
	n := int(head.uint(2))
	c := f.cursor(at+8, n*(2*f.o+24))
	for range n {
		offset := c.uint(f.o)
		to, _ := c.address()
		kind := c.uint(4)
		c.skip(20)
		if offset > uint64(len(heap)) {
			fail("is truncated or corrupt (a name outside of its heap)")
		}
		name := (&cursor{f, heap[offset:]}).text()
		if kind != symbolicLink {
			f.child(path, name, to, open)
		}
	}
}
