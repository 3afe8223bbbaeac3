// Package page makes a page to look at of what package study computes: one file that needs no network, or the same page
// on the loopback address while a run writes its lines.
//
// A [Document] is a header, the lines of points and the summary as the file of a run has them, and the pictures of the
// points ([Looker]), which are packed together. The page reads the keys of the lines: page.js holds them and moves,
// a panel is a row of the table in panels.js, made there, in curves.js (by uPlot) or in pictures.js. [Server] sends the
// lines one by one.
package page

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"surepipe/internal/dataio"
	"surepipe/problems/spec"
	"surepipe/risk"
	"surepipe/risk/warning"
	"surepipe/study"
)

var (
	//go:embed page.html
	html string
	//go:embed page.css
	ownStyle string
	//go:embed page.js
	ownScript string
	//go:embed panels.js
	panels string
	//go:embed curves.js
	curves string
	//go:embed pictures.js
	pictures string
	//go:embed uplot/uPlot.iife.min.js
	plotScript string
	//go:embed uplot/uPlot.min.css
	plotStyle string
	//go:embed uplot/LICENSE
	plotLicence string
)

// Document is what a page shows, and the page's only data.
type Document struct {
	Name    string `json:"name"` // of the data or the file
	Version string `json:"version"`
	// Command and Python make the results again; "" where nobody knows how.
	Command string `json:"command,omitempty"`
	Python  string `json:"python,omitempty"`
	// Live says that the lines come from a server.
	Live bool `json:"live,omitempty"`
	// Criteria and Warnings are the tables of what may occur, by name and code.
	Criteria map[string]Criterion `json:"criteria"`
	Warnings map[string]Warning   `json:"warnings"`
	// Records are lines of a run's file, or [Series], and Packs the pictures of the points: fit, signal and data.
	Records []any              `json:"records"`
	Packs   map[string][]*Pack `json:"packs"`

	looks []look
}

// look has the pictures of a point, whose weights are given.
type look struct {
	*study.Look
	index   int
	weights [3]float64
}

// Criterion is what a page says of a criterion, and Warning of a code.
type (
	Criterion struct {
		Label  string `json:"label"`
		Help   string `json:"help"`
		Sigma2 bool   `json:"sigma2"`
	}
	Warning struct {
		Severity warning.Severity `json:"severity"`
		Do       string           `json:"do"`
	}
)

// Series are the numbers of many samples.
type Series struct {
	Of map[string][]float64 `json:"series"`
}

// New is a page without results. name is that of the data, and the others are what makes them again.
func New(name, command, python string) *Document {
	d := &Document{Name: name, Version: study.Version(), Command: command, Python: python,
		Criteria: map[string]Criterion{}, Warnings: map[string]Warning{}}
	for r := range risk.Rules() {
		d.Criteria[string(r.Name)] = Criterion{r.Label, r.Help, r.Sigma2}
	}
	for _, k := range warning.Kinds() {
		d.Warnings[k.Code] = Warning{k.Severity, k.Do}
	}
	return d
}

// Point adds a point, or one estimate.
func (d *Document) Point(l study.SweepLine) {
	l.Digest = nil
	if l.Look != nil {
		at := look{Look: l.Look, index: l.Index}
		for i, name := range spec.WeightNames() {
			if w := *l.Named(name); w != nil {
				at.weights[len(at.weights)-1-i] = float64(*w)
			}
		}
		d.looks = append(d.looks, at)
		bare := *l.Look
		bare.Fit, bare.Signal, bare.Data = nil, nil, nil
		l.Look = &bare
	}
	d.Records = append(d.Records, l)
}

// Sweep adds a sweep.
func (d *Document) Sweep(r *study.Swept) {
	d.Records = append(d.Records, r.Header)
	for _, l := range r.Lines {
		d.Point(l)
	}
	d.Records = append(d.Records, r.Summary)
}

const mostSamples = 20000

// MonteCarlo adds the samples of a run and its summary.
func (d *Document) MonteCarlo(t *study.Tally) {
	s := Series{map[string][]float64{}}
	for name, all := range map[string][]float64{"sure": t.PerSample.SURE, "sure_stderr": t.PerSample.SUREStdErr,
		"loss": t.PerSample.Loss, "error": t.PerSample.Error, "gcv": t.PerSample.GCV, "alo": t.PerSample.ALO} {
		for _, v := range all[:min(len(all), mostSamples)] {
			s.Of[name] = append(s.Of[name], rounded(v, 7))
		}
	}
	d.Records = append(d.Records, map[string]any{"montecarlo": 1, "problem": t.Problem}, s, t.Summary)
}

// packLooks packs the pictures of all points in the order of their weights, of which neighbours look alike. The data
// are those of the first point that has them.
func (d *Document) packLooks() error {
	slices.SortStableFunc(d.looks, func(a, b look) int { return slices.Compare(a.weights[:], b.weights[:]) })
	of := map[string][]*study.Picture{"fit": nil, "signal": nil, "data": nil}
	var at []int
	for _, l := range d.looks {
		at = append(at, l.index)
		of["fit"], of["signal"] = append(of["fit"], l.Fit), append(of["signal"], l.Signal)
		if of["data"] == nil && l.Data != nil {
			of["data"] = []*study.Picture{l.Data}
		}
	}
	d.Packs = map[string][]*Pack{}
	for name, all := range of {
		p, err := pack(all, at)
		if err != nil {
			return err
		}
		if p != nil {
			d.Packs[name] = []*Pack{p}
		}
	}
	return nil
}

// Write writes the page to a file.
func (d *Document) Write(path string) error {
	return dataio.WriteFile(path, func(w io.Writer) error { return d.write(w) })
}

// write writes the page. JSON in it has no <, > and &, which [json.Marshal] escapes.
func (d *Document) write(w io.Writer) error {
	if err := d.packLooks(); err != nil {
		return err
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	script := "/* uPlot\n" + plotLicence + "*/\n" + plotScript + "\n" + ownScript + panels + curves + pictures
	style := plotStyle + ownStyle
	connect := "'none'"
	if d.Live {
		connect = "'self'"
	}
	policy := "default-src 'none'; img-src data:; connect-src " + connect + "; style-src " + hashed(style) +
		"; script-src " + hashed(script) + "; base-uri 'none'; form-action 'none'"
	for part := range strings.SplitSeq(html, "{{") {
		key, rest, found := strings.Cut(part, "}}")
		value := map[string]string{"policy": policy, "style": style, "script": script, "data": string(text)}[key]
		if !found {
			value, rest = "", part
		}
		_, err = io.WriteString(w, value+rest)
		if err != nil {
			return err
		}
	}
	return nil
}

// hashed is what a policy calls an element of the page by.
func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// event is what a server sends of a line of a run's file: the line without what pages do not show, and its pictures.
func event(line []byte) ([]byte, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(line, &keys); err != nil {
		return nil, err
	}
	e := Document{Packs: map[string][]*Pack{}}
	delete(keys, "digest")
	if keys["look"] != nil {
		var l study.Look
		var index int
		err := cmp.Or(json.Unmarshal(keys["look"], &l), json.Unmarshal(keys["index"], &index))
		if err != nil {
			return nil, err
		}
		for name, p := range map[string]**study.Picture{"fit": &l.Fit, "signal": &l.Signal, "data": &l.Data} {
			if *p != nil {
				e.Packs[name] = []*Pack{{**p, []int{index}}}
				*p = nil
			}
		}
		if keys["look"], err = json.Marshal(l); err != nil {
			return nil, err
		}
	}
	return json.Marshal(map[string]any{"records": []any{keys}, "packs": e.Packs})
}
