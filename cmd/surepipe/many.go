package main

import (
	"cmp"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"surepipe"
	"surepipe/internal/dataio"
	"surepipe/internal/lists"
	"surepipe/study"
)

// forResponse is the name of a file for one of several responses: curve-price.csv of curve.csv.
func forResponse(path, response string) string {
	if path == "" || response == "" {
		return path
	}
	clean := strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r == ':' {
			return '_'
		}
		return r
	}, response)
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + "-" + clean + ext
}

// of is the command's part for response k, which says what it has to say to told: all of it where there is one.
func (e *estimation) of(m *surepipe.Estimator, k int, told io.Writer) estimation {
	mine, of := *e, m.Responses()[k]
	if of == m {
		return mine
	}
	mine.Request, mine.response, mine.told = of.RequestBelow(), of.Response(), told
	mine.holds, mine.held = false, nil
	mine.notes = slices.Clone(of.Warnings())
	mine.coefficients.csv = forResponse(e.coefficients.csv, mine.response)
	return mine
}

// inResponse names the response of an error, where there are several.
func inResponse(e *surepipe.Estimator, err error) error {
	if err == nil || e.Response() == "" {
		return err
	}
	return study.Errorf("response %q: %w", e.Response(), err)
}

// shown is the name of the data on a page, with that of one of several responses.
func (e *estimation) shown() string {
	name := filepath.Base(cmp.Or(e.Data, e.Name()))
	if e.response != "" {
		name += ", " + e.response
	}
	return name
}

// checkResponses rejects what is for one response alone where there are several, and what is wrong for all of them.
func (e *estimation) checkResponses(o *outputFlags, m *surepipe.Estimator) error {
	all := m.Responses()
	for _, name := range []string{"image-risk", "shard", "picture", "truth"} {
		if len(all) > 1 && e.cmd.Flags().Changed(name) {
			return study.Errorf("--%s is for one response, found %d: %s", name, len(all),
				strings.Join(lists.Map(all, (*surepipe.Estimator).Response), ", "))
		}
	}
	if ext := filepath.Ext(o.out); len(all) > 1 && o.out != "" && ext != ".npz" {
		return study.Errorf("--out is %q, and there are %d responses: expected a name that ends in .npz", o.out,
			len(all))
	}
	return e.checkProblem(o, all[0])
}

// writeJoined writes the fits of several responses as one; that of one response has been written.
func writeJoined(path string, m *surepipe.Estimator, fits []*surepipe.Fit) error {
	if path == "" || len(fits) == 1 {
		return nil
	}
	model, err := m.Join(fits)
	if err != nil {
		return study.Errorf("--out: %w", err)
	}
	return dataio.WriteFile(path, func(w io.Writer) error {
		_, err := model.WriteTo(w)
		return err
	})
}
