package main

import (
	"github.com/spf13/cobra"

	"surepipe/internal/dataio"
	"surepipe/internal/fit"
	"surepipe/pipeline"
	"surepipe/problems"
)

// writeFit writes the estimate, with all that surepipe predict needs, to a .npz file. r is the
// result of the estimate.
func writeFit(cmd *cobra.Command, path string, p *problems.Problem, data problems.Data, risk pipeline.Risk, r result) error {
	f := fit.Fit{
		BShape: p.BShape,
		B0:     interceptOf(p, risk), Center: p.Means(), Scale: p.Scales(),
	}
	mu := presented(p, dataio.Array{Shape: p.MuShape, Data: risk.MuHat})
	f.MuHat, f.MuShape = mu.Data, mu.Shape
	if low := risk.Factors; low != nil {
		low, err := low.Joined()
		if err != nil {
			return err
		}
		f.U, f.S, f.V, f.RowsAt, f.ColumnsAt = low.U, low.S, low.V, low.Rows, low.Columns
	}
	if b := writtenB(risk); b != nil { // a command has none
		b := presented(p, dataio.Array{Shape: p.BShape, Data: p.Coefficients(b)})
		f.B, f.BShape = b.Data, b.Shape
	}
	weight := func(n *number) any {
		if n == nil {
			return nil
		}
		return *n
	}
	f.Info = fit.Info{
		Problem: p.Name, D: p.D, P: p.P, Lambda: weight(r.Lambda), Lambda2: weight(r.Lambda2), Gamma: weight(r.Gamma), Sigma2: positive(r.Sigma2),
		SURE: r.SURE, SUREStdErr: r.SUREStdErr, GCV: r.GCV, GCVStdErr: r.GCVStdErr, ALO: r.ALO, ALOStdErr: r.ALOStdErr, Sigma2DF: r.Sigma2DF,
		Divergence: r.Divergence, Converged: r.Solver.Converged, Intercept: p.Means() != nil, Standardize: p.Scales() != nil,
		Data: dataHash(data), Command: commandLine(cmd), Version: version(),
	}
	if l := risk.LossTerms; l != nil {
		f.Loss, f.LossParameter = p.Loss.Name, p.Loss.Parameter
		f.More = append(f.More, dataio.Array{Name: "fitted", Shape: p.MuShape, Data: l.Fitted})
	}
	switch {
	case p.Rows():
		f.Predicts = fit.Rows
	case p.Observed() != nil:
		f.Predicts, f.Observed = fit.Entries, p.Observed()
	}
	if data.Table != nil && data.Table.X != nil {
		f.NA = data.Table.NA
		f.Design, f.Names = &data.Table.Design, data.Table.Design.Columns()
	}
	if !p.Rows() {
		shape := f.MuShape
		if p.Signal != nil {
			shape = p.SignalShape
		}
		l := labelled(dataio.Array{Shape: shape}, data.Labels)
		f.RowNames, f.ColumnNames = l.RowNames, l.Columns
	}
	keepEffects(&f, p, risk)
	if e := data.Entries; e != nil {
		f.NA = e.NA
		f.RowsBy, f.ColumnsBy, f.ValueBy, f.RowNames, f.ColumnNames = e.RowsBy, e.ColumnsBy, e.ValueBy, e.Rows, e.Columns
	}
	if p.Signal != nil {
		signal, err := synthesize(p, risk.DenseB())
		if err != nil {
			return err
		}
		f.More = append(f.More, signal)
	}
	maps, err := localMaps(p, data, risk, positive(r.Sigma2))
	if err != nil {
		return err
	}
	f.More = append(f.More, maps...)
	return f.Save(path)
}

// mostWritten is the largest number of entries of a matrix in factored form that a file has besides its
// factors, 128 MiB.
const mostWritten = 1 << 24

// writtenB is b where it is short enough to be written down besides its factors, or has none.
func writtenB(risk pipeline.Risk) []float64 {
	if low := risk.Factors; low != nil && low.Shape.Len() > mostWritten {
		return nil
	}
	return risk.DenseB()
}

// positive is nil for 0.
func positive(v float64) *float64 {
	if v == 0 {
		return nil
	}
	return &v
}
