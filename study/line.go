package study

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"surepipe/pipeline"
)

// position is where a line belongs in a run: the keys of a sample, a repetition or a point.
type position struct {
	Sample *int                `json:"sample"`
	Repeat *int                `json:"repeat"`
	Index  *int                `json:"index"`
	Stage  pipeline.SweepStage `json:"stage"`
	// Summary marks the last line.
	Summary bool `json:"summary"`
}

// sampleAt is unit n of count samples from number first on, and of the repetitions of the first of them.
func sampleAt(first, count, n int) position {
	if k := n - count; k >= 0 {
		return position{Sample: &first, Repeat: &k}
	}
	n += first
	return position{Sample: &n}
}

func pointAt(n int) position { return position{Index: &n} }

// name is the key that such lines have, and String the line in errors.
func (p position) name() (key, text string) {
	switch {
	case p.Sample != nil && p.Repeat != nil:
		return "sample", fmt.Sprintf("repetition %d of sample %d", *p.Repeat, *p.Sample)
	case p.Sample != nil:
		return "sample", fmt.Sprintf("sample %d", *p.Sample)
	case p.Index != nil:
		return "index", fmt.Sprintf("point %d", *p.Index)
	}
	return "", ""
}

func (p position) check(line []byte) error {
	var found position
	if err := json.Unmarshal(line, &found); err != nil {
		return err
	}
	key, want := p.name()
	own, is := found.name()
	switch {
	case key == "index" && found.Summary && p.Stage == "":
		return errSummary
	case own != key || found.Summary:
		return fmt.Errorf("it has no %q", key)
	case is != want:
		return fmt.Errorf("it is %s, expected %s", is, want)
	case found.Stage != p.Stage && p.Stage != "":
		return fmt.Errorf("it is a point of the stage %q, expected %q", found.Stage, p.Stage)
	}
	return nil
}

// firstLine is the first line of a run's file as keys, those of settings and flags one by one. The values are JSON.
type firstLine map[string]string

// optionKey begins the key of a setting or a flag.
const optionKey = "--"

func parseFirst(line []byte) (firstLine, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(line, &keys); err != nil {
		return nil, errors.New("it does not begin with a line of JSON")
	}
	all := firstLine{}
	for key, value := range keys {
		var compact bytes.Buffer
		if err := json.Compact(&compact, value); err != nil {
			return nil, err
		}
		all[key] = compact.String()
	}
	for _, key := range []string{"settings", "flags"} {
		var options map[string]json.RawMessage
		if all[key] == "" || json.Unmarshal(keys[key], &options) != nil {
			continue
		}
		delete(all, key)
		for name, value := range options {
			all[optionKey+name] = strings.Trim(string(value), "[]")
		}
	}
	return all, nil
}

func firstLineOf(header any) (firstLine, error) {
	text, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	return parseFirst(text)
}

// derived are keys that follow from others, which are named first.
var derived = []string{"criterion", "alo", "chain", "folds", "data", "data_sha256", "grid"}

// differs names the first key in which the line is not the expected one, with both values; nil if there is none. Keys
// among the free ones may differ.
func (l firstLine) differs(want firstLine, free ...string) error {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(l)), maps.Keys(want))
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(slices.Index(derived, a), slices.Index(derived, b)), cmp.Compare(a, b))
	})
	for _, key := range keys {
		was, is := cmp.Or(l[key], "none"), cmp.Or(want[key], "none")
		name, option := strings.CutPrefix(key, optionKey)
		switch {
		case was == is || slices.Contains(free, key):
		case key == "data" || key == "data_sha256":
			return Errorf("it was begun with other data (%.24s..., expected %.24s...)", strings.Trim(was, `"`),
				strings.Trim(is, `"`))
		case option:
			return Errorf("it was begun with --%s %s, expected %s", name, was, is)
		default:
			return Errorf("it was begun with %s %s, expected %s", key, was, is)
		}
	}
	return nil
}

// continues compares the first line of a file with the header of the run that is to continue it: with a marker, which
// the headers of such runs have.
func continues(line []byte, header Header, marker string, free ...string) (found, expected firstLine, err error) {
	if found, err = parseFirst(line); err != nil || found[marker] == "" {
		return nil, nil, fmt.Errorf("it does not begin with the header of a %s", header.What())
	}
	if expected, err = firstLineOf(header); err != nil {
		return nil, nil, err
	}
	return found, expected, found.differs(expected, free...)
}
