package shard

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Shard is part Index of Count, 0 <= Index < Count.
type Shard struct {
	Index, Count int
}

// MaxCount bounds the number of shards: their files have names with numbers of a fixed width.
const MaxCount = 1_000_000

// Range is the shard's part of total units: first to end-1. It may be empty.
func (s Shard) Range(total int) (first, end int) {
	return share(s.Index, total, s.Count), share(s.Index+1, total, s.Count)
}

// share is floor(i total/n), for 0 <= i <= n, without overflow.
func share(i, total, n int) int {
	high, low := bits.Mul64(uint64(i), uint64(total))
	q, _ := bits.Div64(high, low, uint64(n)) // high < n, since i <= n and total < 2^63
	return int(q)
}

// File is the name of the shard's file of lines, for the file that the merged lines go to:
// mc.shard-0003-of-0008.jsonl for mc.jsonl.
func (s Shard) File(merged string) string {
	return fmt.Sprintf("%s.shard-%04d-of-%04d.jsonl", strings.TrimSuffix(merged, ".jsonl"), s.Index, s.Count)
}

// String is i/n, as [Parse] reads it.
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Count) }

// Parse reads i/n; or auto, for [Detect]; or auto/n, where the environment gives i alone, as the
// number that the engine gives to the task. getenv is os.Getenv. source says where the shard comes
// from, such as "SLURM_ARRAY_TASK_ID"; it is empty for i/n.
func Parse(text string, getenv func(string) string) (s Shard, source string, err error) {
	index, count, divided := strings.Cut(text, "/")
	n := 0
	if divided {
		if n, err = strconv.Atoi(count); err != nil || n < 1 || n > MaxCount {
			return s, "", fmt.Errorf("%q, expected a number of shards from 1 to %d after the slash", text, MaxCount)
		}
	}
	if index == "auto" {
		if s, source, err = Detect(getenv, n); err != nil {
			err = fmt.Errorf("%q: %w", text, err)
		}
		return s, source, err
	}
	i, err := strconv.Atoi(index)
	if err != nil || !divided {
		return s, "", fmt.Errorf("%q, expected i/n such as 0/8, or auto, or auto/n", text)
	}
	if i < 0 || i >= n {
		return s, "", fmt.Errorf("%q: shards are numbered from 0 to %d", text, n-1)
	}
	return Shard{i, n}, "", nil
}
