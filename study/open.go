package study

import (
	"context"
	"errors"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/internal/noise"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/vjp"
)

// Options are those of an estimator.
type Options struct {
	// Problem is the name of a problem, or of the specification that Data has.
	Problem string
	Data    problems.Data
	// Own, if not nil, takes the place of the problem.
	Own *problems.Own
	// Hyper are the weights, which take precedence over those of Data.
	Hyper problems.Hyper
	// Devices are where the estimator is computed; [Open] takes them.
	Devices []array.Device
	// Solver is the name of a solver; "" and auto stand for the problem's own.
	Solver string
	// Settings are the options of the solver on a device; nil for the defaults.
	Settings func(dev array.Device) (vjp.Options, error)
	// Pipeline are the options of the risk. Leave-one-out is always computed where the loss is not
	// squared.
	Pipeline pipeline.Options
	// Variance is how Pipeline.Sigma2 was estimated, nil where it was given.
	Variance *noise.Estimate
	// Check, if not nil, rejects a problem of d observations before it is prepared.
	Check func(d int) error
	// InData, if not nil, says in which input the fault of the data is that make no problem.
	InData func(err error) error
	// Lost, if not nil, is told of a device that has failed, and whose work goes on elsewhere.
	Lost func(device string, fault error)
}

// Open makes an estimator. Multiples of a weight's maximum refer to y of the data. The estimator takes
// the devices, which [Estimator.Close] closes; Open closes them if it fails. Errors are bad input ([*Error]),
// those of a device and those of ctx.
func Open(ctx context.Context, o Options) (_ *Estimator, err error) {
	j := &Estimator{Instance: Instance{On: o.Devices[0]}, Sigma2: o.Pipeline.Sigma2, Variance: o.Variance,
		Noise: o.Pipeline.Noise}
	for _, dev := range o.Devices[1:] {
		j.Others = append(j.Others, Instance{On: dev})
	}
	defer func() {
		if err != nil {
			j.Close()
		}
	}()
	if o.Lost == nil {
		o.Lost = func(string, error) {}
	}
	var members []*pipeline.Pipeline
	for i := range o.Devices {
		on := &j.Instance
		if i > 0 {
			on = &j.Others[i-1]
		}
		if err := on.open(ctx, o); err != nil {
			return nil, err
		}
		p := o.Pipeline
		p.ALO = p.ALO || !on.Problem.Loss.Squared()
		if i > 0 && p.Parallel <= 1 {
			p.Progress = nil // that of the first device
		}
		member, err := pipeline.New(on.Solver, p)
		if err != nil {
			return nil, PlanError(err)
		}
		members = append(members, member)
	}
	j.Pipeline, err = pipeline.NewPool(o.Lost, members...)
	return j, err
}

func (i *Instance) open(ctx context.Context, o Options) (err error) {
	if o.Own != nil {
		i.Problem, err = o.Own.New(ctx, i.On, o.Data, o.Hyper)
	} else {
		i.Problem, err = problems.NewContext(ctx, o.Problem, i.On, o.Data, o.Hyper)
	}
	if err != nil {
		if fault := i.On.Err(); fault != nil {
			return fault
		}
		if ctx.Err() != nil {
			return err
		}
		if o.InData != nil {
			return o.InData(err)
		}
		return Bad(err)
	}
	if o.Check != nil {
		if err := o.Check(i.Problem.D); err != nil {
			return err
		}
	}
	name := o.Solver
	if name == "" || name == "auto" {
		name = i.Problem.DefaultSolver
	}
	i.Options = vjp.Options{Sigma2: o.Pipeline.Sigma2}
	if o.Settings != nil {
		if i.Options, err = o.Settings(i.On); err != nil {
			return err
		}
	}
	i.Options.Images = o.Pipeline.ALO || !i.Problem.Loss.Squared() ||
		o.Pipeline.Sigma2 == 0 && pipeline.Completes(i.Problem.Solve())
	if i.Solver, err = vjp.NewSolver(ctx, name, i.Problem.Solve(), i.Options); err != nil {
		if ctx.Err() != nil {
			return err
		}
		if fault := i.On.Err(); fault != nil {
			return fault
		}
		return Errorf("--solver %s: %w", name, err)
	}
	return nil
}

// PlanError names the option of the argument that a trace estimator rejects.
func PlanError(err error) error {
	var refused *hutch.PlanError
	if !errors.As(err, &refused) {
		return err
	}
	return Errorf("--%s is %v: %s", map[string]string{"estimator": "trace", "queries": "queries"}[refused.Argument],
		refused.Value, refused.Reason)
}
