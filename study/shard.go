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
	"slices"
	"strings"

	"golang.org/x/sys/cpu"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/internal/shard"
)

// ShardHeader is the first line of a shard's file.
type ShardHeader struct {
	// Shard says which part of the run the lines are.
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
	// Fit has hashes of the solution, where the units are its probes.
	Fit *FitResult `json:"fit,omitempty"`
	// Whole is the first line of a file of the whole run.
	Whole json.RawMessage `json:"whole"`

	run sharded // what Whole describes
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

// sharded is a run that is divided into shards.
type sharded interface {
	// check rejects a part that the run does not have.
	check(p ShardPart) error
	// differs says how the run of h is not that of another header with the same unit, nil if it is.
	differs(h, of ShardHeader) error
	// lines is the number of lines of units first to end-1.
	lines(first, end int) int
	// place rejects a line that is not line n, from 0, of the part.
	place(p ShardPart, n int, line []byte) error
}

// The units of runs.
const (
	SampleUnit = "sample"
	ChainUnit  = "chain"
	ProbeUnit  = "probe"
)

// shardedRuns reads the first line of a whole run, by its unit.
var shardedRuns = map[string]func(whole []byte) (sharded, error){
	SampleUnit: func(whole []byte) (sharded, error) { return ReadShardedSamples(whole) },
	ChainUnit:  func(whole []byte) (sharded, error) { return ReadShardedSweep(whole) },
	ProbeUnit:  func(whole []byte) (sharded, error) { return ReadShardedProbes(whole) },
}

// Machine describes the arithmetic of a process: two with equal values give the same bits.
type Machine struct {
	BLAS    string `json:"blas"`
	Kernels string `json:"kernels,omitempty"`
	SIMD    string `json:"simd"`
	Device  string `json:"device"`
	Version string `json:"version"`
}

// part is the shard's part of so many units.
func PartOf(s shard.Shard, unit string, total int) ShardPart {
	first, end := s.Range(total)
	return ShardPart{Index: s.Index, Count: s.Count, Unit: unit, First: first, N: end - first, Total: total}
}

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

// Differs names the first field that differs, "" if there is none.
func (m Machine) Differs(want Machine) string {
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

// NewShardHeader is the header of the part of a run, whose own header is whole.
func NewShardHeader(p ShardPart, m Machine, whole any) (h ShardHeader, err error) {
	h = ShardHeader{Shard: p, Machine: m}
	if h.Whole, err = json.Marshal(whole); err != nil {
		return h, err
	}
	h.run, err = shardedRuns[p.Unit](h.Whole)
	return h, err
}

// SameRun says how the run of h, which has the same unit, is not that of want; nil if it is.
func (h ShardHeader) SameRun(want ShardHeader) error { return h.run.differs(h, want) }

// differs says how h is not of the same run as want, nil if it is. The shards of a run differ in
// index, first and n alone.
func (h ShardHeader) differs(want ShardHeader) error {
	if h.Shard.Unit != want.Shard.Unit {
		return fmt.Errorf("its unit is %q, expected %q", h.Shard.Unit, want.Shard.Unit)
	}
	if err := h.SameRun(want); err != nil {
		return err
	}
	for _, f := range []struct {
		name    string
		was, is any
	}{{"number of shards", h.Shard.Count, want.Shard.Count}, {"number of units", h.Shard.Total, want.Shard.Total}} {
		if f.was != f.is {
			return fmt.Errorf("its %s is %v, expected %v", f.name, f.was, f.is)
		}
	}
	return nil
}

// differentFlags names the first flag that differs; nil if there is none.
func differentFlags(was, is map[string][]string) error {
	names := maps.Clone(was)
	if names == nil {
		names = map[string][]string{}
	}
	maps.Copy(names, is)
	given := func(values []string) string {
		if values == nil {
			return "none"
		}
		return fmt.Sprintf("%q", strings.Join(values, ","))
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !slices.Equal(was[name], is[name]) {
			return Errorf("it was begun with %s %s, expected %s", Option(name), given(was[name]), given(is[name]))
		}
	}
	return nil
}

// Continues is true of the same shard of the same run, on a machine that gives the same bits.
func (h ShardHeader) Continues(line []byte) (doubt string, err error) {
	was, err := ParseShardHeader(line)
	if err != nil {
		return "", err
	}
	if err := was.differs(h); err != nil {
		return "", err
	}
	if was.Shard != h.Shard {
		return "", fmt.Errorf("it is shard %d of %d, expected shard %d", was.Shard.Index, was.Shard.Count,
			h.Shard.Index)
	}
	if why := was.Machine.Differs(h.Machine); why != "" {
		return "", fmt.Errorf("it was begun with %s: its lines would not agree to the last bit; continue it "+
			"there, or remove it", why)
	}
	return "", nil
}

// What names a shard.
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
	read := shardedRuns[p.Unit]
	if read == nil || p.Count < 1 || p.Count > shard.MaxCount || p.Index < 0 || p.Index >= p.Count || p.Total < 0 {
		return h, fmt.Errorf("its first line has the shard %d of %d of %d units (%q), which does not exist",
			p.Index, p.Count, p.Total, p.Unit)
	}
	if h.run, err = read(h.Whole); err != nil {
		return h, fmt.Errorf("its first line was not written by a shard (%w)", err)
	}
	if err := h.run.check(p); err != nil {
		return h, err
	}
	if first, end := s.Range(p.Total); first != p.First || end-first != p.N {
		return h, fmt.Errorf("its first line has the units from %d on, %d of them, expected %d from %d on",
			p.First, p.N, end-first, first)
	}
	return h, nil
}

// linesOf is the number of lines of shard i of the run.
func (h ShardHeader) linesOf(i int) int {
	return h.run.lines(shard.Shard{Index: i, Count: h.Shard.Count}.Range(h.Shard.Total))
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
