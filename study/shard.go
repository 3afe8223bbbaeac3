package study

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"golang.org/x/sys/cpu"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/internal/shard"
	"surepipe/pipeline"
)

// ShardHeader is the first line of a shard's file.
type ShardHeader struct {
	Shard ShardPart `json:"shard"`
	// Machine is what the last bits of the lines depend on.
	Machine Machine `json:"machine"`
	// Samples is a hash of the file of all samples, where they come from a file.
	Samples string `json:"samples_sha256,omitempty"`
	// Flags and Files are the flags of the command, from which merge goes on where lines alone do not
	// make the result, and which figures carry: those that determine it, and those that say where the
	// data are.
	Flags map[string][]string `json:"flags,omitempty"`
	Files map[string]string   `json:"files,omitempty"`
	// Whole is the first line of a file of the whole run.
	Whole json.RawMessage `json:"whole"`

	run shape // of the run that Whole describes
}

// ShardPart is shard Index of Count: the units First to First + N - 1 of Total. The units of a Monte
// Carlo run are its samples, Samples of them from sample From on, and then its repetitions.
type ShardPart struct {
	Index   int    `json:"index"`
	Count   int    `json:"count"`
	Unit    string `json:"unit"`
	First   int    `json:"first"`
	N       int    `json:"n"`
	Total   int    `json:"total"`
	From    int    `json:"from,omitempty"`
	Samples int    `json:"samples,omitempty"`
}

const (
	SampleUnit = "sample"
	ChainUnit  = "chain"
)

// shape is what the first line of a run says about its lines.
type shape struct {
	// total is the number of units, -1 where the header of a shard alone says it, and noun what they are.
	total int
	noun  string
	// bounds are the first lines of the units, and the end; nil where each unit is a line.
	bounds []int
	// at is where line n of the run belongs. read rejects what the line of that number should not have; it is nil
	// where the place of a line says all.
	at   func(p ShardPart, n int) position
	read func(n int, line []byte) error
	// flags says that runs whose flags differ are different ones.
	flags bool
}

// shapes read the first line of a run, by its unit.
var shapes = map[string]func(whole []byte) (shape, error){
	SampleUnit: func(whole []byte) (s shape, err error) {
		_, err = ReadMonteCarloHeader(whole)
		return shape{total: -1, at: func(p ShardPart, n int) position {
			return sampleAt(p.From, p.Samples, n)
		}}, err
	},
	ChainUnit: func(whole []byte) (s shape, err error) {
		run, err := ReadSweepHeader(whole)
		if err != nil {
			return s, err
		}
		bounds := run.Chains()
		return shape{total: len(bounds) - 1, noun: "chains of its grid", bounds: bounds, flags: true,
			at: func(_ ShardPart, n int) position { return position{Index: &n, Stage: pipeline.GridStage} },
			read: func(n int, line []byte) error {
				_, err := run.readPoint(n, line)
				return err
			}}, nil
	},
}

// Units are the units of the runs that have shards.
func Units() []string { return slices.Sorted(maps.Keys(shapes)) }

// lines are the first line of units first to end-1, and the end.
func (s shape) lines(first, end int) (from, to int) {
	if s.bounds == nil {
		return first, end
	}
	return s.bounds[first], s.bounds[end]
}

// Machine describes the arithmetic of a process: two with equal values give the same bits.
type Machine struct {
	BLAS    string `json:"blas"`
	Kernels string `json:"kernels,omitempty"`
	SIMD    string `json:"simd"`
	Device  string `json:"device"`
	Version string `json:"version"`
}

// onMachine are the keys of the first line of a run that its machine has too.
var onMachine = []string{"device", "blas", "version"}

// ThisMachine is the machine of this process, with the device.
func ThisMachine(device string) Machine {
	blas := array.BLASInfo()
	m := Machine{BLAS: blas.Name, Kernels: blas.Core, SIMD: "none", Device: device, Version: Version()}
	if blas.Version != "" {
		m.BLAS += " " + blas.Version
	}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		m.SIMD = "AVX2, FMA"
	}
	return m
}

func (m Machine) differs(want Machine) string {
	for _, f := range []struct{ name, was, is string }{
		{"version", m.Version, want.Version}, {"BLAS", m.BLAS, want.BLAS},
		{"BLAS kernels", m.Kernels, want.Kernels}, {"SIMD instructions", m.SIMD, want.SIMD},
		{"device", m.Device, want.Device},
	} {
		if f.was != f.is {
			return fmt.Sprintf("%s %q, expected %q", f.name, f.was, f.is)
		}
	}
	return ""
}

// Shard is shard Index of Count of a run.
type Shard = shard.Shard

// Divide is the header of a shard, on this machine, of the run whose units p says, and whose own header is whole.
func Divide(s shard.Shard, p ShardPart, device string, whole any) (h ShardHeader, err error) {
	if s.Count < 1 || s.Count > shard.MaxCount || s.Index < 0 || s.Index >= s.Count {
		return h, Errorf("--shard is %d of %d, expected an index from 0 on below a count of 1 to %d", s.Index, s.Count,
			shard.MaxCount)
	}
	first, end := s.Range(p.Total)
	p.Index, p.Count, p.First, p.N = s.Index, s.Count, first, end-first
	h = ShardHeader{Machine: ThisMachine(device), Shard: p}
	if h.Whole, err = json.Marshal(whole); err == nil {
		h.run, err = shapes[p.Unit](h.Whole)
	}
	return h, err
}

// Here is the header of the same shard of a run that is opened on this machine, and whose header is whole.
func (h ShardHeader) Here(device string, whole any) (ShardHeader, error) {
	here, err := Divide(shard.Shard{Index: h.Shard.Index, Count: h.Shard.Count}, h.Shard, device, whole)
	here.Samples, here.Flags, here.Files = h.Samples, h.Flags, h.Files
	return here, err
}

// SameRun says how h is not of the same run as want, nil if it is. The shards of a run differ in index, first and n
// alone. Where mixed is false machines must be equal.
func (h ShardHeader) SameRun(want ShardHeader, mixed bool) error {
	if h.Shard.Unit != want.Shard.Unit {
		return fmt.Errorf("its unit is %q, expected %q", h.Shard.Unit, want.Shard.Unit)
	}
	was, err := h.keys()
	if err != nil {
		return err
	}
	is, err := want.keys()
	if err != nil {
		return err
	}
	if err := was.differs(is, onMachine...); err != nil {
		return err
	}
	for _, f := range []struct {
		name    string
		was, is any
	}{
		{"first sample", h.Shard.From, want.Shard.From}, {"number of units", h.Shard.Total, want.Shard.Total},
		{"number of samples", h.Shard.Samples, want.Shard.Samples},
		{"file of samples, by its hash,", h.Samples, want.Samples},
		{"number of shards", h.Shard.Count, want.Shard.Count},
	} {
		if f.was != f.is {
			return fmt.Errorf("its %s is %v, expected %v", f.name, f.was, f.is)
		}
	}
	if machine := h.Machine.differs(want.Machine); machine != "" && !mixed {
		return Errorf("it was computed with %s, so that results do not agree to the last bit; --mixed merges them "+
			"all the same", machine)
	}
	return nil
}

func (h ShardHeader) keys() (firstLine, error) {
	all, err := parseFirst(h.Whole)
	if err != nil || !h.run.flags {
		return all, err
	}
	flags, err := firstLineOf(map[string]any{"flags": h.Flags})
	maps.Copy(all, flags)
	return all, err
}

// Continues is true of the same shard of the same run, on a machine that gives the same bits.
func (h ShardHeader) Continues(line []byte) (doubt string, err error) {
	was, err := ParseShardHeader(line)
	if err != nil {
		return "", err
	}
	if err := was.SameRun(h, true); err != nil {
		return "", err
	}
	if was.Shard != h.Shard {
		return "", fmt.Errorf("it is shard %d of %d, expected shard %d", was.Shard.Index, was.Shard.Count,
			h.Shard.Index)
	}
	if why := was.Machine.differs(h.Machine); why != "" {
		return "", fmt.Errorf("it was begun with %s: its lines would not agree to the last bit; continue it "+
			"there, or remove it", why)
	}
	return "", nil
}

func (h ShardHeader) What() string { return "shard" }

// ParseShardHeader reads the first line of a shard's file.
func ParseShardHeader(line []byte) (h ShardHeader, err error) {
	var kind map[string]json.RawMessage
	if err := json.Unmarshal(line, &kind); err != nil {
		return h, errors.New("it does not begin with a line of JSON")
	}
	if kind["shard"] == nil || kind["whole"] == nil {
		return h, errors.New("it is not the file of a shard: its first line has no \"shard\"")
	}
	if err := json.Unmarshal(line, &h); err != nil {
		return h, fmt.Errorf("its first line was not written by a shard (%w)", err)
	}
	p := h.Shard
	s := shard.Shard{Index: p.Index, Count: p.Count}
	read := shapes[p.Unit]
	if read == nil || p.Count < 1 || p.Count > shard.MaxCount || p.Index < 0 || p.Index >= p.Count || p.Total < 0 ||
		p.Samples < 0 || p.Samples > p.Total || p.From < 0 {
		return h, fmt.Errorf("its first line has the shard %d of %d of %d units (%q), which does not exist",
			p.Index, p.Count, p.Total, p.Unit)
	}
	if h.run, err = read(h.Whole); err != nil {
		return h, fmt.Errorf("its first line was not written by a shard (%w)", err)
	}
	if h.run.total >= 0 && p.Total != h.run.total {
		return h, fmt.Errorf("its first line has a total of %d units, expected the %d %s", p.Total, h.run.total,
			h.run.noun)
	}
	if first, end := s.Range(p.Total); first != p.First || end-first != p.N {
		return h, fmt.Errorf("its first line has the units from %d on, %d of them, expected %d from %d on",
			p.First, p.N, end-first, first)
	}
	return h, nil
}

// linesOf are the first line of shard i of the run, and the end.
func (h ShardHeader) linesOf(i int) (first, end int) {
	return h.run.lines(shard.Shard{Index: i, Count: h.Shard.Count}.Range(h.Shard.Total))
}

func (h ShardHeader) place(n int, line []byte) error {
	first, _ := h.linesOf(h.Shard.Index)
	n += first
	if err := h.run.at(h.Shard, n).check(line); err != nil || h.run.read == nil {
		return err
	}
	return h.run.read(n, line)
}

// FileHash is a hash of a file's contents.
func FileHash(ctx context.Context, path string) (string, error) {
	file, err := dataio.OpenFile(ctx, path)
	if err != nil {
		return "", Bad(err)
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", Bad(err)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// FilesOf rejects the files of a shard that are not where they were, but for those that have moved.
func (h ShardHeader) FilesOf(moved map[string]string) (map[string]string, error) {
	files := map[string]string{}
	for name, path := range h.Files {
		to, given := moved[name]
		if files[name] = to; given {
			continue
		}
		if _, err := os.Stat(path); err != nil {
			return nil, Errorf("the shards had the data from --%s %s, which is not there: give --%s", name, path, name)
		}
		files[name] = path
	}
	maps.Copy(files, moved)
	return files, nil
}
