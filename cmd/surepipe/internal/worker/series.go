package worker

import (
	"context"
	"maps"
	"slices"
	"strings"

	"surepipe"
	"surepipe/internal/dataio"
	"surepipe/problems"
	"surepipe/study"
	local "surepipe/study/denoise"
)

// SeriesParams are a series of images, in files or arrays, and how it is denoised.
type SeriesParams struct {
	Arrays map[string]Array `json:"arrays,omitempty" jsonschema:"arrays in place of files: data, mask, ..."`
	surepipe.Series
}

// SeriesDenoised is the estimate and what is known of it.
type SeriesDenoised struct {
	Result local.Result     `json:"result" jsonschema:"the object of surepipe denoise --json"`
	Arrays map[string]Array `json:"arrays,omitempty" jsonschema:"those of return"`
}

func denoiseSeries(w *worker, ctx context.Context, p SeriesParams) (s SeriesDenoised, err error) {
	files := dataio.Memory{}
	to := map[string]*string{"data": &p.Data, "imaginary": &p.Imaginary, "phase": &p.Phase, "sigma": &p.Sigma,
		"noise_scan": &p.NoiseScan, "mask": &p.Mask, "keep": &p.Keep}
	for name, a := range p.Arrays {
		path := to[name]
		if path == nil {
			return s, study.Errorf("--arrays has the key %.40q, expected one of %s", name,
				strings.Join(slices.Sorted(maps.Keys(to)), ", "))
		}
		if err := a.place(name, path, files); err != nil {
			return s, err
		}
	}
	if p.Data == "" {
		return s, study.Errorf("--data is missing, expected the file or the array of a series")
	}
	in := surepipe.In(dataio.Over{Held: files, FS: problems.Disk}, p.Data)
	r, err := in.Denoise(ctx, p.Series)
	if err != nil {
		return s, err
	}
	s.Result, s.Arrays = *r, map[string]Array{}
	for name, a := range r.Arrays {
		if s.Arrays[name], err = w.array(name, a); err != nil {
			return s, err
		}
	}
	return s, nil
}
