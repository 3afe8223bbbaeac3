package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"

	"surepipe/array"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/solve"
	"surepipe/study"
)

// chainOf is the number of points in a chain of warm starts, 0 for a whole row.
func (f *sweepFlags) chainOf(solver string) int {
	if e, _ := solve.Lookup(solver); e.Path && f.chain == 0 {
		return 0
	}
	return cmp.Or(f.chain, pipeline.DefaultChain)
}

// header returns the first line of the sweep's JSON.
func (f *sweepFlags) header(j *job, data problems.Data) study.SweepHeader {
	h := study.SweepHeader{
		Sweep: true, Criterion: f.criterion, ALO: f.alo, TargetsResult: study.TargetsOf(j.problem, j.sigma2), Problem: j.problem.Name, LossName: study.AboutLoss(j.problem).LossName, LossParameter: j.problem.Loss.Parameter, Intercept: f.intercept, Standardize: f.table.standardize, Effects: f.effects.Names(), Sigma2: j.sigma2, ExecResult: j.execResult(f.exec.line), Solver: j.name(), Derivative: f.derivative,
		Trace: f.trace, Queries: f.queries.String(), Seed: f.seed, Tol: f.tol, MaxIter: f.maxIter,
		Chain: f.chainOf(j.name()), Refine: f.refine, Verify: f.verify,
		Data: study.DataHash(data), Device: j.device(), BLAS: fmt.Sprint(array.BLASInfo()), Version: study.Version(),
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
		h.Grid = append(h.Grid, study.SweepGrid{
			Weight: axis.name, From: axis.values[0], To: axis.values[len(axis.values)-1], Points: len(axis.values),
		})
		fixed[axis.name] = math.NaN()
	}
	h.Lambda, h.Lambda2, h.Gamma = study.Weight(fixed["lambda"]), study.Weight(fixed["lambda2"]), study.Weight(fixed["gamma"])
	return h
}

// sweepLog is the --jsonl file. A line is on the disk when write returns.
type sweepLog struct{ *os.File }

func (l sweepLog) write(v any) error {
	if err := study.WriteLine(l.File, v); err != nil {
		return err
	}
	return l.Sync()
}

// openSweepLog opens the --jsonl file, and returns the points that it holds; further lines are
// appended. A file that is not empty is refused unless resume is set.
func openSweepLog(path string, resume bool, header study.SweepHeader) (_ *sweepLog, known []study.SweepLine, err error) {
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
func readSweepLog(text []byte, header study.SweepHeader) (known []study.SweepLine, good int64, err error) {
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
			if err := header.Same(line); err != nil {
				return nil, 0, err
			}
			good += int64(size)
			continue
		}
		// A point and a summary have some keys in common, with different types.
		var end struct {
			Summary bool `json:"summary"`
		}
		var point study.SweepLine
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
