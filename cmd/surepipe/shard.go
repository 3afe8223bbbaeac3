package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/cpu"

	"surepipe/array"
	"surepipe/internal/shard"
)

// shardHeader is the first line of a shard's file.
type shardHeader struct {
	// Shard says which part of the run the lines are.
	Shard shardPart `json:"shard"`
	// Machine is what the last bits of the lines depend on.
	Machine machine `json:"machine"`
	// Samples is a hash of the file of all samples, where they come from a file.
	Samples string `json:"samples_sha256,omitempty"`
	// Whole is the first line of a file of the whole run.
	Whole logHeader `json:"whole"`
}

// shardPart is shard Index of Count: the units First to First + N - 1 of Total. A run's units are
// its samples, Samples of them from sample From on, and then its repetitions.
type shardPart struct {
	Index   int    `json:"index"`
	Count   int    `json:"count"`
	Unit    string `json:"unit"` // "sample"
	First   int    `json:"first"`
	N       int    `json:"n"`
	Total   int    `json:"total"`
	From    int    `json:"from"`
	Samples int    `json:"samples"`
}

// machine describes the arithmetic of a process: two with equal values give the same bits.
type machine struct {
	BLAS    string `json:"blas"`
	Kernels string `json:"kernels,omitempty"`
	SIMD    string `json:"simd"`
	Device  string `json:"device"`
	Version string `json:"version"`
}

func thisMachine(dev array.Device) machine {
	blas := array.BLASInfo()
	m := machine{BLAS: blas.Name, Kernels: blas.Core, SIMD: "none", Device: dev.Name(), Version: version()}
	if blas.Version != "" {
		m.BLAS += " " + blas.Version
	}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		m.SIMD = "AVX2, FMA"
	}
	return m
}

// differs names the first field that differs, "" if there is none.
func (m machine) differs(want machine) string {
	for _, f := range []struct{ name, was, is string }{
		{"version", m.Version, want.Version}, {"BLAS", m.BLAS, want.BLAS}, {"BLAS kernels", m.Kernels, want.Kernels}, {"SIMD instructions", m.SIMD, want.SIMD}, {"device", m.Device, want.Device},
	} {
		if f.was != f.is {
			return fmt.Sprintf("%s %q, expected %q", f.name, f.was, f.is)
		}
	}
	return ""
}

// differs says how h is not of the same run as want, "" if it is. The shards of a run differ in
// index, first and n alone.
func (h shardHeader) differs(want shardHeader) string {
	if why := h.Whole.differs(want.Whole); why != "" {
		return why
	}
	for _, f := range []struct {
		name    string
		was, is any
	}{
		{"unit", h.Shard.Unit, want.Shard.Unit}, {"number of shards", h.Shard.Count, want.Shard.Count}, {"number of units", h.Shard.Total, want.Shard.Total},
		{"first sample", h.Shard.From, want.Shard.From}, {"number of samples", h.Shard.Samples, want.Shard.Samples}, {"file of samples, by its hash,", h.Samples, want.Samples},
	} {
		if f.was != f.is {
			return fmt.Sprintf("its %s is %v, expected %v", f.name, f.was, f.is)
		}
	}
	return ""
}

// continues is true of the same shard of the same run, on a machine that gives the same bits.
func (h shardHeader) continues(line []byte) (doubt string, err error) {
	was, err := parseShardHeader(line)
	if err != nil {
		return "", err
	}
	if why := was.differs(h); why != "" {
		return "", errors.New(why)
	}
	if was.Shard != h.Shard {
		return "", fmt.Errorf("it is shard %d of %d, expected shard %d", was.Shard.Index, was.Shard.Count, h.Shard.Index)
	}
	if why := was.Machine.differs(h.Machine); why != "" {
		return "", fmt.Errorf("it was begun with %s: its lines would not agree to the last bit; continue it there, or remove it", why)
	}
	return "", nil
}

// parseShardHeader reads the first line of a shard's file.
func parseShardHeader(line []byte) (h shardHeader, err error) {
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
	if p.Count < 1 || p.Index < 0 || p.Index >= p.Count || p.Total < 0 || p.Samples < 0 || p.Samples > p.Total || p.From < 0 || p.Unit != "sample" {
		return h, fmt.Errorf("its first line has the shard %d of %d of %d units (%q), which does not exist", p.Index, p.Count, p.Total, p.Unit)
	}
	if first, end := s.Range(p.Total); first != p.First || end-first != p.N {
		return h, fmt.Errorf("its first line has the units from %d on, %d of them, expected %d from %d on", p.First, p.N, end-first, first)
	}
	return h, nil
}

// rangeOf is the part of shard i of the run: units first to end-1.
func (h shardHeader) rangeOf(i int) (first, end int) {
	return shard.Shard{Index: i, Count: h.Shard.Count}.Range(h.Shard.Total)
}

// runShard computes one shard of the run, to its own file.
func (o *monteCarloFlags) runShard(cmd *cobra.Command, m *monteCarlo, whole logHeader) error {
	s, source, err := shard.Parse(o.shard, os.Getenv)
	if err != nil {
		return usagef("--shard is %w", err)
	}
	total := m.part.end
	first, end := s.Range(total)
	h := shardHeader{
		Shard:   shardPart{Index: s.Index, Count: s.Count, Unit: "sample", First: first, N: end - first, Total: total, From: m.first, Samples: m.count},
		Machine: thisMachine(m.job.dev), Whole: whole,
	}
	if o.y != "" {
		if h.Samples, err = fileHash(o.y); err != nil {
			return err
		}
	}
	m.header, m.part, m.log, m.resume, m.out = h, part{first, end}, s.File(o.jsonl), true, nil
	m.again = "the same command"
	stderr := cmd.ErrOrStderr()
	if source != "" {
		fmt.Fprintf(stderr, "surepipe: %s says that this is shard %s\n", source, s)
	}
	sum, _, err := m.run(cmd.Context())
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "surepipe: shard %s, %d of %d samples and repetitions, is complete: %s\n", s, end-first, total, m.log)
	if sum.NotConverged > 0 {
		// No failure: an engine would compute the same again.
		fmt.Fprintf(stderr, "surepipe: %d did not converge; surepipe merge says so too\n", sum.NotConverged)
	}
	return nil
}

// fileHash is a hash of a file's contents.
func fileHash(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", usageError{err}
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", usageError{err}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}
