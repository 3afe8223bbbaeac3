package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"

	"surepipe/array"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/risk"
	"surepipe/solve"
)

// sweepHeader is the first line of a sweep's JSON: everything that its results depend on. A sweep
// can continue another with the same header.
type sweepHeader struct {
	Sweep bool `json:"sweep"`
	// Criterion is what is minimized, and ALO whether leave-one-out is computed.
	Criterion risk.Criterion `json:"criterion"`
	ALO       bool           `json:"alo,omitempty"`
	targetsResult
	execResult
	Problem string `json:"problem"`
	// LossName and LossParameter are the loss's where it is not squared.
	LossName      string  `json:"loss_name,omitempty"`
	LossParameter float64 `json:"loss_parameter,omitempty"`
	// Intercept is --intercept's value.
	Intercept bool `json:"intercept,omitempty"`
	// Standardize is --standardize's.
	Standardize bool `json:"standardize,omitempty"`
	// Effects are --effects.
	Effects []string    `json:"effects,omitempty"`
	Grid    []sweepGrid `json:"grid"`
	Lambda  *number     `json:"lambda,omitempty"` // the weights that are not swept
	Lambda2 *number     `json:"lambda2,omitempty"`
	Gamma   *number     `json:"gamma,omitempty"`
	Sigma2  float64     `json:"sigma2,omitempty"`
	// Sigma2Method is how sigma2 was estimated, Sigma2RelStdErr its standard error over its value.
	Sigma2Method    string  `json:"sigma2_method,omitempty"`
	Sigma2RelStdErr float64 `json:"sigma2_rel_stderr,omitempty"`
	Solver          string  `json:"solver"`
	Derivative      string  `json:"derivative"`
	Trace           string  `json:"trace"`
	Queries         string  `json:"queries"`
	TraceError      float64 `json:"trace_error,omitempty"`
	Seed            uint64  `json:"seed"`
	Tol             float64 `json:"tol"`
	MaxIter         int     `json:"max_iter"`
	Chain           int     `json:"chain"` // 0 for whole rows
	Refine          int     `json:"refine"`
	Verify          bool    `json:"verify,omitempty"`
	Data            string  `json:"data_sha256"`
	Device          string  `json:"device"`
	BLAS            string  `json:"blas"`
	Version         string  `json:"version"`
}

type sweepGrid struct {
	Weight string  `json:"weight"`
	From   float64 `json:"from"`
	To     float64 `json:"to"`
	Points int     `json:"points"`
}

// sweepLine is the line of one point.
type sweepLine struct {
	Index int                 `json:"index"`
	Stage pipeline.SweepStage `json:"stage"`
	result
	// Digest is what the summary and --resume compare points by.
	Digest *risk.Digest `json:"digest,omitempty"`
}

// trusted is the result of Trusted for the point's risk.
func (l sweepLine) trusted() bool {
	return l.Solver.Converged && l.DerivativeConverged && !l.doubted()
}

// doubted says that --verify disagrees.
func (r result) doubted() bool { return r.Verification != nil && !r.Verification.Passed() }

// chainOf is the number of points in a chain of warm starts, 0 for a whole row.
func (f *sweepFlags) chainOf(solver string) int {
	if e, _ := solve.Lookup(solver); e.Path && f.chain == 0 {
		return 0
	}
	return cmp.Or(f.chain, pipeline.DefaultChain)
}

// header returns the first line of the sweep's JSON.
func (f *sweepFlags) header(j *job, data problems.Data) sweepHeader {
	h := sweepHeader{
		Sweep: true, Criterion: f.criterion, ALO: f.alo, targetsResult: targetsOf(j.problem, j.sigma2), Problem: j.problem.Name, LossName: aboutLoss(j.problem).LossName, LossParameter: j.problem.Loss.Parameter, Intercept: f.intercept, Standardize: f.table.standardize, Effects: f.effects.Names(), Sigma2: j.sigma2, execResult: j.execResult(f.exec.line), Solver: j.name(), Derivative: f.derivative,
		Trace: f.trace, Queries: f.queries.String(), Seed: f.seed, Tol: f.tol, MaxIter: f.maxIter,
		Chain: f.chainOf(j.name()), Refine: f.refine, Verify: f.verify,
		Data: dataHash(data), Device: j.device(), BLAS: fmt.Sprint(array.BLASInfo()), Version: version(),
	}
	if f.queries.auto {
		h.TraceError = f.traceError
	}
	if f.estimate != nil {
		h.Sigma2Method, h.Sigma2RelStdErr = f.estimate.Method, f.estimate.RelStdErr
	}
	if j.box != nil {
		h.Derivative = f.exec.divergence
	}
	fixed := weights(j.problem)
	for _, axis := range f.axes {
		h.Grid = append(h.Grid, sweepGrid{axis.name, axis.values[0], axis.values[len(axis.values)-1], len(axis.values)})
		fixed[axis.name] = math.NaN()
	}
	h.Lambda, h.Lambda2, h.Gamma = weightOrNil(fixed["lambda"]), weightOrNil(fixed["lambda2"]), weightOrNil(fixed["gamma"])
	return h
}

// weightOrNil is nil for NaN, which stands for a weight that the problem does not have.
func weightOrNil(v float64) *number {
	if math.IsNaN(v) {
		return nil
	}
	n := number(v)
	return &n
}

// UnmarshalJSON reads what MarshalJSON writes.
func (x *number) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case `"inf"`:
		*x = number(math.Inf(1))
	case `"-inf"`:
		*x = number(math.Inf(-1))
	default:
		return json.Unmarshal(text, (*float64)(x))
	}
	return nil
}

// sweepLog is the --jsonl file. A line is on the disk when write returns.
type sweepLog struct{ *os.File }

func (l sweepLog) write(v any) error {
	if err := writeLine(l.File, v); err != nil {
		return err
	}
	return l.Sync()
}

// openSweepLog opens the --jsonl file, and returns the points that it holds; further lines are
// appended. A file that is not empty is refused unless resume is set.
func openSweepLog(path string, resume bool, header sweepHeader) (_ *sweepLog, known []sweepLine, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, nil, usagef("--jsonl: %w", err)
	}
	log := &sweepLog{file}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	// It is read when nobody else writes to it any more.
	if err := lock(file); err != nil {
		return nil, nil, usagef("--jsonl is %q: %w", path, err)
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, nil, usagef("--jsonl: %w", err)
	}
	if len(text) > 0 && !resume {
		return nil, nil, usagef("--jsonl is %q, which exists: continue it with --resume, or remove it", path)
	}
	if err := tornHeader(text, header, "sweep"); err != nil {
		return nil, nil, usagef("--resume: %s: %w", path, err)
	}
	known, good, err := readSweepLog(text, header)
	if err != nil {
		return nil, nil, usagef("--resume: %s: %w", path, err)
	}
	if err := file.Truncate(good); err != nil {
		return nil, nil, err
	}
	if _, err := file.Seek(good, 0); err != nil {
		return nil, nil, err
	}
	if good == 0 {
		return log, nil, log.write(header)
	}
	return log, known, nil
}

// tornHeader rejects a file of one incomplete line that is not the beginning of the header: such a
// file is not a log, and must not be overwritten.
func tornHeader(text []byte, header any, what string) error {
	if bytes.IndexByte(text, '\n') >= 0 {
		return nil
	}
	expected, err := json.Marshal(header)
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(expected, text) {
		return fmt.Errorf("it does not begin with the header of a %s", what)
	}
	return nil
}

// readSweepLog reads the lines of a sweep with this header. good is the length of the part to keep:
// all but the summary and an incomplete last line.
func readSweepLog(text []byte, header sweepHeader) (known []sweepLine, good int64, err error) {
	for n := 1; int(good) < len(text); n++ {
		rest := text[good:]
		size := bytes.IndexByte(rest, '\n') + 1
		if size == 0 {
			break
		}
		line, last := rest[:size-1], size == len(rest)
		if !json.Valid(line) && last && n > 1 {
			break
		}
		if n == 1 {
			if err := header.same(line); err != nil {
				return nil, 0, err
			}
			good += int64(size)
			continue
		}
		// A point and a summary have some keys in common, with different types.
		var end struct {
			Summary bool `json:"summary"`
		}
		var point sweepLine
		err := json.Unmarshal(line, &end)
		if err == nil && end.Summary {
			if !last {
				return nil, 0, fmt.Errorf("line %d is a summary, expected no lines after it", n)
			}
			break
		}
		if err == nil {
			err = json.Unmarshal(line, &point)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", n, err)
		}
		if point.Stage != pipeline.GridStage && point.Stage != pipeline.RefineStage {
			return nil, 0, fmt.Errorf("line %d is not a point of a sweep", n)
		}
		known = append(known, point)
		good += int64(size)
	}
	return known, good, nil
}

// same rejects the header of a different sweep.
func (h sweepHeader) same(line []byte) error {
	var found map[string]json.RawMessage
	if err := json.Unmarshal(line, &found); err != nil || string(found["sweep"]) != "true" {
		return errors.New("it does not begin with the header of a sweep")
	}
	expected, err := h.keys()
	if err != nil {
		return err
	}
	if key, was, is := differentKey(found, expected); key == "data_sha256" {
		return errors.New("its sweep had different data")
	} else if key != "" {
		return fmt.Errorf("its sweep had a different %s: %s, now %s", key, was, is)
	}
	return nil
}

// keys are the keys of the header's JSON.
func (h sweepHeader) keys() (keys map[string]json.RawMessage, err error) {
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	return keys, json.Unmarshal(text, &keys)
}

// differentKey is the first key by which two headers differ, with both values; "" if they agree. Keys
// that ignored holds may differ. Settings that follow from others are named last.
func differentKey(found, expected map[string]json.RawMessage, ignored ...string) (key, was, is string) {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(found)), maps.Keys(expected))
	derived := []string{"criterion", "alo", "chain", "data_sha256"}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(slices.Index(derived, a), slices.Index(derived, b)), cmp.Compare(a, b))
	})
	for _, key := range keys {
		was, is := string(found[key]), string(expected[key])
		if was != is && !slices.Contains(ignored, key) {
			return key, cmp.Or(was, "not given"), cmp.Or(is, "not given")
		}
	}
	return "", "", ""
}
