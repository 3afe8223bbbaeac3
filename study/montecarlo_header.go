package study

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"surepipe/problems"
)

// MonteCarloHeader is the first line of a --jsonl file: the settings and data of its samples. Two runs
// with equal Settings and Data compute the same lines.
type MonteCarloHeader struct {
	MonteCarlo int               `json:"montecarlo"` // the format, 1
	Settings   map[string]string `json:"settings"`
	Data       string            `json:"data"`
	// Version and Device may differ in a run that continues: results then agree up to rounding.
	Version string `json:"version"`
	Device  string `json:"device"`
}

const logFormat = 1

func (h MonteCarloHeader) What() string { return "montecarlo run" }

// Continues compares settings and data.
func (h MonteCarloHeader) Continues(line []byte) (doubt string, err error) {
	var was MonteCarloHeader
	if err := json.Unmarshal(line, &was); err != nil {
		return "", fmt.Errorf("its first line was not written by surepipe montecarlo (%w)", err)
	}
	if err := was.differs(h); err != nil {
		return "", err
	}
	if was.Version != h.Version || was.Device != h.Device {
		doubt = fmt.Sprintf("the samples in the file were computed by version %s on %s: further samples agree "+
			"with them up to rounding", was.Version, was.Device)
	}
	return doubt, nil
}

// differs says how h differs from want; nil if they agree.
func (h MonteCarloHeader) differs(want MonteCarloHeader) error {
	if h.MonteCarlo != want.MonteCarlo {
		return fmt.Errorf(
			"its first line was not written by surepipe montecarlo (format %d, expected %d)", h.MonteCarlo,
			want.MonteCarlo)
	}
	names := maps.Clone(h.Settings)
	maps.Copy(names, want.Settings)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if was, is := h.Settings[name], want.Settings[name]; was != is {
			return Errorf("it was begun with %s %q, expected %q", Option(name), was, is)
		}
	}
	if h.Data != want.Data {
		return fmt.Errorf("it was begun with other data (%.23s..., expected %.23s...)", h.Data, want.Data)
	}
	return nil
}

// NewMonteCarloHeader is the header of a run with these settings, for the data, on the device.
func NewMonteCarloHeader(settings map[string]string, data problems.Data, device string) MonteCarloHeader {
	return MonteCarloHeader{
		MonteCarlo: logFormat, Settings: settings, Data: DataHash(data), Version: Version(), Device: device,
	}
}
