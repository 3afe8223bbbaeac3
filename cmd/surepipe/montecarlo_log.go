package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"surepipe/study"
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

func (h logHeader) What() string { return "montecarlo run" }

// Continues compares settings and data.
func (h logHeader) Continues(line []byte) (doubt string, err error) {
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

// syncEvery is the time within which the lines of samples are on the disk.
const syncEvery = time.Second

// openLog opens the file of a run whose lines come often: see [study.OpenLog].
func openLog(
	path string, header study.Header, resume bool, warn func(string), replay func(line []byte) error,
) (*study.Log, error) {
	log, err := study.OpenLog(path, header, study.LogOptions{Resume: resume, Every: syncEvery, Warn: warn, Replay: replay})
	return log, logError(err)
}

// logError names the flag of a fault of the --jsonl file.
func logError(err error) error {
	var fault *study.LogError
	if !errors.As(err, &fault) {
		return err
	}
	switch fault.Fault {
	case study.NotRegular:
		return usagef("--jsonl is %q, expected a regular file", fault.Path)
	case study.HasLines:
		return usagef("--jsonl: %s holds %d bytes already; --resume continues it", fault.Path, fault.Size)
	case study.Locked:
		return fmt.Errorf("--jsonl: %s: %w", fault.Path, fault.Err)
	case study.OtherLines:
		return usagef("%s: %w", fault.Path, fault.Err)
	}
	return usagef("--jsonl is %q: %w", fault.Path, fault.Err)
}
