package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"surepipe/study"
)

// foreign makes files that are not a shard of a run of 4 shards, from its shard 1.
type foreign struct {
	t     *testing.T
	run   []string
	files []string
	lines []string // of shard 1, with their newlines
}

func newForeign(t *testing.T, run []string) *foreign {
	f := &foreign{t: t, run: run}
	_, f.files = withShards(t, run, 4)
	text, err := os.ReadFile(f.files[1])
	if err != nil {
		t.Fatal(err)
	}
	f.lines = slices.Collect(func(yield func(string) bool) {
		for line := range bytes.Lines(text) {
			if !yield(string(line)) {
				return
			}
		}
	})
	return f
}

// other is shard 1 of the run with other flags.
func (f *foreign) other(change ...string) string {
	args := slices.Clone(f.run)
	for i := 0; i < len(change); i += 2 {
		if at := slices.Index(args, change[i]); at >= 0 {
			args[at+1] = change[i+1]
		} else {
			args = append(args, change[i], change[i+1])
		}
	}
	_, files := withShards(f.t, args, 4)
	return files[1]
}

func (f *foreign) write(parts ...string) string {
	path := filepath.Join(f.t.TempDir(), "shard.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(parts, "")), 0o666); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// edited is the file with old replaced by new in line n.
func (f *foreign) edited(n int, old, new string) string {
	if !strings.Contains(f.lines[n], old) {
		f.t.Fatalf("%q is not in %s", old, f.lines[n])
	}
	lines := slices.Clone(f.lines)
	lines[n] = strings.Replace(lines[n], old, new, 1)
	return f.write(lines...)
}

type refused struct{ file, want string }

// check merges each file with the run's, and expects it to be refused by name, with the reason.
func (f *foreign) check(cases map[string]refused) {
	for name, c := range cases {
		merged := filepath.Join(f.t.TempDir(), "merged.jsonl")
		status, stdout, stderr := command(f.t, slices.Concat([]string{"merge"}, f.files,
			[]string{c.file, "--jsonl", merged})...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, c.want) ||
			!strings.Contains(stderr, c.file) || strings.Count(stderr, "\n") != 1 {
			f.t.Errorf("%s: status %d, %.600q, expected %q", name, status, stderr, c.want)
		}
		if _, err := os.Stat(merged); err == nil {
			f.t.Errorf("%s: something was written", name)
		}
	}
}

// common are the files that are refused whatever the run is; first and second are what its first two
// lines of units are called.
func (f *foreign) common(unit, first, second string) map[string]refused {
	l := f.lines
	rest := strings.Join(l[2:], "")
	_, three := withShards(f.t, f.run, 3)
	_, samples := withShards(f.t, shardedRun(f.t), 4)
	return map[string]refused{
		"other count":        {three[1], "its number of shards is 3, expected 4"},
		"another command's":  {samples[1], `its unit is "sample", expected "` + unit + `"`},
		"other BLAS":         {f.edited(0, `"blas":"`, `"blas":"x`), "it was computed with BLAS"},
		"other device":       {f.edited(0, `"device":"`, `"device":"x`), "it was computed with device"},
		"other version":      {f.edited(0, `"version":"`, `"version":"x`), "it was computed with version"},
		"another unit":       {f.edited(0, `"unit":"`+unit+`"`, `"unit":"sample"`), "was not written by a shard"},
		"no unit":            {f.edited(0, `"unit":"`+unit+`"`, `"unit":""`), "which does not exist"},
		"no shards":          {f.edited(0, `"count":4`, `"count":0`), "which does not exist"},
		"shards without end": {f.edited(0, `"count":4`, `"count":1000000000000000`), "which does not exist"},
		"a negative index":   {f.edited(0, `"index":1`, `"index":-1`), "which does not exist"},
		"another's index":    {f.edited(0, `"index":1`, `"index":2`), "its first line has the units from"},
		"other total":        {f.edited(0, `"total":`, `"total":1`), "its first line has a total of 1"},
		"negative total":     {f.edited(0, `"total":`, `"total":-`), "which does not exist"},
		"other n":            {f.edited(0, `"n":`, `"n":1`), "its first line has the units from"},
		"a wrong type":       {f.edited(0, `"flags":{`, `"flags":{"tol":3,`), "was not written by a shard"},
		"other flags":        {f.edited(0, `"flags":{`, `"flags":{"tol":["1e-3"],`), "it was begun with --tol"},
		"whole is a number": {f.write(`{"shard":{"index":1,"count":4,"unit":"`+unit+`"},"whole":3}`+"\n", l[1]),
			"was not written by a shard"},
		"whole is empty": {f.write(`{"shard":{"index":1,"count":4,"unit":"`+unit+`"},"whole":{}}`+"\n", l[1]),
			"was not written by a shard"},
		"no header":        {f.write(l[1:]...), "it is not the file of a shard"},
		"the header twice": {f.write(l[0], l[0], rest), "line 2: "},
		"swapped lines": {f.write(l[0], l[2], l[1], strings.Join(l[3:], "")),
			"line 2: it is " + second + ", expected " + first},
		"a line twice":       {f.write(l[0], l[1], l[1], rest), "line 3: it is " + first + ", expected " + second},
		"a line left out":    {f.write(l[0], rest), "line 2: it is " + second + ", expected " + first},
		"a line too many":    {f.write(append(slices.Clone(l), l[1])...), "it has more lines than its shard's"},
		"a torn line inside": {f.write(l[0], l[1][:20]+"\n", rest), "line 2 is not JSON"},
		"an empty object":    {f.write(l[0], "{}\n", rest), "line 2: it has no"},
		"a list":             {f.write(l[0], "[]\n", rest), "line 2: "},
		"binary":             {f.write("\x1f\x8b\x00\n", l[1]), "it does not begin with a line of JSON"},
		"cut in the header":  {f.write(l[0][:40]), "it has no complete line"},
		"two headers in one": {f.write(strings.TrimSuffix(l[0], "\n")+l[0], l[1]),
			"it does not begin with a line of JSON"},
		"UTF-16":              {f.write("\xff\xfe{\x00}\x00\n"), "it does not begin with a line of JSON"},
		"the file of another": {f.write("sample,sure\n", "0,1.5\n"), "it does not begin with a line of JSON"},
	}
}

// What is not a shard of the sweep is refused by name, with the reason, and nothing is written.
func TestForeignShardsOfSweepsAreRefused(t *testing.T) {
	f := newForeign(t, strings.Fields("sweep --problem lasso --data ../../testdata/diabetes.npz --sigma2 3000 "+
		"--lambda 100:800:12 --chain 3 --seed 0 --trace hutchinson --queries 4 --solver fista"))
	cases := f.common("chain", "point 3", "point 4")
	for name, c := range map[string]refused{
		"other grid":      {f.other("--lambda", "100:900:12"), `it was begun with --lambda "100:900:12", expected "100:800:12"`},
		"other seed":      {f.other("--seed", "3"), `it was begun with --seed "3", expected "0"`},
		"other noise":     {f.other("--sigma2", "2000"), `it was begun with --sigma2 "2000"`},
		"other rule":      {f.other("--rule", "1se"), `it was begun with --rule "1se", expected none`},
		"other criterion": {f.other("--criterion", "gcv"), `it was begun with --criterion "gcv"`},
		"other chains":    {f.other("--chain", "2"), `it was begun with --chain "2", expected "3"`},
		"other problem":   {f.other("--problem", "elastic-net", "--lambda2", "1"), `it was begun with --lambda2 "1"`},
		"other data": {f.edited(0, `"data_sha256":"sha256:`, `"data_sha256":"sha256:0`),
			"it was begun with other data"},
		"no points": {f.edited(0, `"points":12`, `"points":0`), "was not written by a shard"},
		"no grid":   {f.edited(0, `"weight":"lambda"`, `"weight":"alpha"`), `its grid is of "alpha"`},
		"a refined point": {f.edited(1, `"stage":"grid"`, `"stage":"refine"`),
			`line 2: it is a point of the stage "refine"`},
		"other weight": {f.edited(1, `"lambda":`, `"lambda":1`), "line 2: it has lambda"},
		"a summary":    {f.write(f.lines[0], `{"summary":true,"points":12}`+"\n"), `line 2: it has no "index"`},
		"another result": {f.edited(1, `"divergence":`, `"divergence":1`),
			"are both shard 1 of 4: line 2 of them differs"},
		"a wrong digest": {f.edited(1, `"digest":{`, `"digest":{"residual":3,`), "line 2: "},
	} {
		cases[name] = c
	}
	if len(cases) < 40 {
		t.Errorf("%d cases, expected 40", len(cases))
	}
	f.check(cases)
}

// So is what is not a shard of a Monte Carlo run, but for what is common to all shards; nor is a file of another kind.
func TestForeignShardsOfSamplesAreRefused(t *testing.T) {
	f := newForeign(t, shardedRun(t))
	head, err := study.ParseShardHeader([]byte(f.lines[0]))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := study.ReadMonteCarloHeader(head.Whole)
	if err != nil {
		t.Fatal(err)
	}
	edited := func(old, new string) string { return f.edited(0, old, new) }
	f.check(map[string]refused{
		"other lambda":       {f.other("--lambda", "2"), `it was begun with --lambda "2", expected "1"`},
		"other seed":         {f.other("--seed", "7"), `it was begun with --seed "7", expected "0"`},
		"other queries":      {f.other("--queries", "8"), "it was begun with --queries"},
		"other first sample": {f.other("--first", "2"), "it was begun with --first"},
		"more samples":       {f.other("--samples", "12"), "its number of units is 15, expected 14"},
		"other split":        {f.other("--samples", "12", "--seeds", "2"), "its number of samples is 12, expected 11"},
		"other data":         {edited(whole.Data[:20], "sha256:0000000000000"), "it was begun with other data"},
		"other SIMD":         {edited(`"simd":"`, `"simd":"x`), "it was computed with SIMD instructions"},
		"no file":            {filepath.Join(t.TempDir(), "none.jsonl"), "no such file"},
		"a folder":           {t.TempDir(), "is a directory"},
		"empty":              {f.write(""), "it has no complete line"},
		"no newline":         {f.write(strings.TrimSuffix(f.lines[0], "\n")), "it has no complete line"},
		"an array":           {f.write("[1]\n"), "it does not begin with a line of JSON"},
		"a number":           {f.write("3\n"), "it does not begin with a line of JSON"},
		"null":               {f.write("null\n"), "it is not the file of a shard"},
		"another object":     {f.write("{}\n"), "it is not the file of a shard"},
		"a whole run":        {f.write(`{"montecarlo":1,"settings":{}}` + "\n"), "it is not the file of a shard"},
		"too large an index": {edited(`"index":1`, `"index":4`), "which does not exist"},
		"too many samples":   {edited(`"samples":11`, `"samples":15`), "which does not exist"},
		"another unit":       {edited(`"unit":"sample"`, `"unit":"thing"`), "which does not exist"},
		"other first":        {edited(`"first":3`, `"first":4`), "its first line has the units from 4 on"},
		"swapped lines": {f.write(f.lines[0], f.lines[2], f.lines[1]),
			"line 2: it is sample 4, expected sample 3"},
		"a summary":     {f.write(f.lines[0], `{"summary":true}`+"\n"), `line 2: it has no "sample"`},
		"a wrong value": {f.write(f.lines[0], `{"sample":"3"}`+"\n"), "line 2: "},
		"another result": {f.edited(1, `"divergence":`, `"divergence":1`),
			"are both shard 1 of 4: line 2 of them differs"},
	})
	// The same files twice are the same run; other machines' are with --mixed.
	merged := filepath.Join(t.TempDir(), "merged.jsonl")
	for _, args := range [][]string{slices.Concat(f.files, f.files),
		slices.Concat(f.files[:1], []string{edited(`"blas":"`, `"blas":"x`)}, f.files[2:], []string{"--mixed"})} {
		for _, want := range []struct {
			status int
			text   string
		}{{exitDone, ""}, {exitUsage, "which exists"}} {
			if status, _, stderr := command(t, slices.Concat([]string{"merge", "--jsonl", merged},
				args)...); status != want.status || !strings.Contains(stderr, want.text) {
				t.Errorf("status %d, %s", status, stderr)
			}
		}
		os.Remove(merged)
	}
}
