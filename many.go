package surepipe

import (
	"context"
	"errors"
	"runtime"
	"slices"

	"surepipe/array"
	"surepipe/internal/fit"
	"surepipe/linops/together"
	"surepipe/problems"
	"surepipe/study"
	"surepipe/study/load"
	"surepipe/study/request"
)

// several are the estimators of several responses on one X, which is read, centered and scaled once. Each has weights
// and criteria of its own.
type several struct {
	each   []*Estimator
	groups []*problems.Common
}

// openResponses is open for one or several responses: the columns that Table.Response names, separated by commas, or
// those of Y of shape (d, m).
func openResponses(ctx context.Context, r *request.Request, free bool) (_ *Estimator, err error) {
	told, notes := r.Watch.Note, study.Notes{}
	r.Watch.Note = func(n study.Note) { notes = append(notes, n) }
	each, all, err := r.ReadMany(ctx)
	if r.Watch.Note = told; err != nil {
		return nil, err
	}
	tell := func(n study.Note) {
		if told != nil {
			told(n)
		}
	}
	for _, n := range notes {
		tell(n)
	}
	if len(all) == 1 {
		e := newEstimator(each[0])
		e.data = all[0]
		devices, err := e.devices(ctx, r)
		if err == nil {
			err = e.make(ctx, devices, free)
		}
		return e, err
	}
	m := &several{}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	heard, names := make([]study.Notes, len(all)), make([]string, len(all))
	for k, one := range each {
		one.Watch.Note = func(n study.Note) { heard[k] = append(heard[k], n) }
		e := newEstimator(one)
		e.data, names[k] = all[k], all[k].Response
		if err := m.add(ctx, e, all, free); err != nil {
			return nil, study.Errorf("response %q: %w", names[k], err)
		}
		e.told = told
	}
	tellAll(names, heard, tell)
	return &Estimator{request: r, data: all[0], several: m}, nil
}

func (m *several) add(ctx context.Context, e *Estimator, all []load.Contents, free bool) error {
	var first *Estimator
	for _, other := range m.each {
		if first == nil && other.data.Shared != nil && other.data.SharesX(&e.data) {
			first = other
		}
	}
	devices, err := e.devices(ctx, e.request)
	if err != nil {
		return err
	}
	if len(devices) == 1 && devices[0].Name() == "cpu" {
		room, err := e.request.Machine.Columns()
		if err != nil {
			return err
		}
		e.data.Shared = &problems.Shared{Common: &problems.Common{Problems: len(all), Memory: room}}
		if first != nil {
			request.Close(devices)
			e.data.Shared.Common, devices = first.data.Shared.Common, []array.Device{first.job.On}
		} else {
			m.groups = append(m.groups, e.data.Shared.Common)
		}
		e.request.Machine.On = devices[0]
	}
	if err := e.make(ctx, devices, free); err != nil {
		return err
	}
	if s := e.data.Shared; s != nil && first == nil {
		var ys [][]float64
		for k := range all {
			if all[k].SharesX(&e.data) {
				ys = append(ys, all[k].Y)
			}
		}
		e.job.Problem.Foresee(s.Common, ys)
	}
	m.each = append(m.each, e)
	return nil
}

// tellAll tells once what is noted of all responses, and the rest with the name of each.
func tellAll(names []string, heard []study.Notes, tell func(study.Note)) {
	common := func(n study.Note) bool {
		return !slices.ContainsFunc(heard, func(of study.Notes) bool {
			return !slices.ContainsFunc(of, func(m study.Note) bool {
				return m.Code == n.Code && m.Text.Error() == n.Text.Error()
			})
		})
	}
	for k, notes := range heard {
		for _, n := range notes {
			switch {
			case !common(n):
				tell(study.Note{Code: n.Code, Text: study.Errorf("response %q: %w", names[k], n.Text)})
			case k == 0:
				tell(n)
			}
		}
	}
}

func (m *several) close() {
	if m == nil {
		return
	}
	for _, e := range m.each {
		e.Close()
	}
	for _, c := range m.groups {
		if c.Release != nil {
			c.Release()
		}
	}
}

// Responses are the estimators of the responses: of one alone the estimator itself. Several are closed by that which
// [Open] returns.
func (e *Estimator) Responses() []*Estimator {
	if e.several == nil {
		return []*Estimator{e}
	}
	return slices.Clone(e.several.each)
}

// Response is the name of y where it is one of several responses, else "".
func (e *Estimator) Response() string {
	if e.several != nil {
		return ""
	}
	return e.data.Response
}

// RequestBelow is the request of an estimator for the packages below.
func (e *Estimator) RequestBelow() *request.Request { return e.request }

// Join is a model of the fits of all responses, in their order, which predicts a column for each.
func (e *Estimator) Join(fits []*Fit) (*Model, error) {
	var names []string
	all := make([]*study.Fit, len(fits))
	for k, f := range fits {
		one, err := f.Model()
		if err != nil {
			return nil, err
		}
		names, all[k] = append(names, f.Response), one.fit
	}
	if len(fits) == 0 || len(fits) != len(e.Responses()) {
		return nil, study.Errorf("there are %d fits, expected one of each of the %d responses", len(fits),
			len(e.Responses()))
	}
	joined, err := fit.Join(names, all)
	if err != nil {
		return nil, study.Bad(err)
	}
	return modelOf(joined)
}

// Each calls f for the estimator of each response, on all cores at once, and returns the errors. Sweeps, and fits, that
// run in it take their products with X together.
func (e *Estimator) Each(ctx context.Context, f func(ctx context.Context, k int, e *Estimator) error) error {
	all := e.Responses()
	errs := make([]error, len(all))
	one := func(k int) {
		if errs[k] = ctx.Err(); errs[k] == nil {
			errs[k] = f(ctx, k, all[k])
		}
	}
	for k, e := range all {
		if e.data.Shared == nil {
			one(k)
		}
	}
	if e.several == nil {
		return errors.Join(errs...)
	}
	for _, c := range e.several.groups {
		var of []int
		var members []*together.Member
		for k, e := range all {
			if s := e.data.Shared; s != nil && s.Common == c {
				of, members = append(of, k), append(members, s.Member)
			}
		}
		c.Do(runtime.GOMAXPROCS(0), members, func(i int) { one(of[i]) })
	}
	return errors.Join(errs...)
}
