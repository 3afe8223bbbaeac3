package study

import (
	"io"
	"slices"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/dataio"
	"surepipe/internal/fit"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/problems/spec"
	"surepipe/prox"
)

func keepEffects(f *fit.Fit, p *problems.Problem, risk pipeline.Risk) {
	if !p.Effects.Some() || !risk.HasB() {
		return
	}
	e := p.FitEffectsAt(risk.MuHat, risk.BAt(p.Observed()))
	f.EffectNames, f.Effects = p.Effects.Names(), &fit.Effects{Mean: e.Mean, Rows: e.Rows, Columns: e.Columns}
}

// Types of package fit that stand here under names of their own.
type (
	// Fit is an estimate with all that predictions need, and FitInfo what is known of it.
	Fit     = fit.Fit
	FitInfo = fit.Info
)

// ReadFit reads the size bytes of a fit's file.
func ReadFit(r io.ReaderAt, size int64) (*Fit, error) {
	f, err := fit.Read(r, size)
	if err != nil {
		return nil, Bad(err)
	}
	return f, nil
}

// FitOf is an estimate with all that predictions need. r is its result, and command the command line that makes it
// again, "" where there is none.
func FitOf(p *problems.Problem, data problems.Data, risk pipeline.Risk, r Result, command string) (*Fit, error) {
	f := &fit.Fit{
		BShape: p.BShape,
		B0:     InterceptOf(p, risk).All(), Center: p.Means(), Scale: slices.Concat(p.Scales(), p.Units),
	}
	if shift, ok := p.Shift(risk.B); ok {
		f.B0 = []float64{shift}
	}
	mu := Presented(p, dataio.Array{Shape: p.MuShape, Data: MuHat(data, risk)})
	f.MuHat, f.MuShape = mu.Data, mu.Shape
	if low := risk.Factors; low != nil {
		low, err := low.Joined()
		if err != nil {
			return nil, err
		}
		f.U, f.S, f.V, f.RowsAt, f.ColumnsAt = low.U, low.S, low.V, low.Rows, low.Columns
	}
	if b, ok := Solution(p, risk); ok {
		f.B, f.BShape = b.Data, b.Shape
	}
	weight := func(n *Number) any {
		if n == nil {
			return nil
		}
		return *n
	}
	f.Info = fit.Info{
		Format: fit.Format, Problem: p.Name, D: p.Observations(), P: p.Variables(),
		Numbers: fit.Numbers{Lambda: weight(r.Lambda), Lambda2: weight(r.Lambda2), Gamma: weight(r.Gamma),
			Sigma2: positive(r.Sigma2), SURE: r.SURE, SUREStdErr: r.SUREStdErr, GCV: r.GCV, GCVStdErr: r.GCVStdErr,
			ALO: r.ALO, ALOStdErr: r.ALOStdErr, Sigma2DF: r.Sigma2DF, Divergence: r.Divergence,
			Converged: r.Solver.Converged},
		Intercept: p.Means() != nil, Standardize: p.Standardized(),
		Data: DataHash(data), Command: command, Version: Version(),
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
		f.Design, f.Names = &data.Table.Design, CoefficientNames(data, p)
	}
	if names := OutcomeNames(data, p); p.Classes() {
		f.Classes = names
	} else {
		f.Responses = names
	}
	if !p.Rows() {
		shape := f.MuShape
		if p.Signal != nil {
			shape = p.SignalShape
		}
		l := Labelled(dataio.Array{Shape: shape}, data.Labels)
		f.RowNames, f.ColumnNames = l.RowNames, l.Columns
	}
	keepEffects(f, p, risk)
	if e := data.Entries; e != nil {
		f.NA = e.NA
		f.RowsBy, f.ColumnsBy, f.ValueBy, f.RowNames, f.ColumnNames = e.RowsBy, e.ColumnsBy, e.ValueBy, e.Rows,
			e.Columns
	}
	if p.Signal != nil {
		signal, err := Synthesize(p, risk.DenseB())
		if err != nil {
			return nil, err
		}
		f.More = append(f.More, signal)
	}
	maps, err := localMaps(p, data, risk, positive(r.Sigma2))
	f.More = append(f.More, maps...)
	return f, err
}

// MuHat is mu_hat, or the linear predictor, with the offset of the data, and in the units of their columns.
func MuHat(data problems.Data, risk pipeline.Risk) []float64 {
	if data.Offset == nil && data.Units == nil || risk.MuHat == nil {
		return risk.MuHat
	}
	mu := slices.Clone(risk.MuHat)
	if data.Offset != nil {
		floats.Add(mu, data.Offset)
	}
	if data.Units != nil {
		for i, at := range data.Indices {
			mu[i] *= data.Units[at%len(data.Units)]
		}
	}
	return mu
}

// Solution is b in the units of the columns. A command has none, nor a long matrix besides its factors.
func Solution(p *problems.Problem, risk pipeline.Risk) (b dataio.Array, ok bool) {
	v := writtenB(risk)
	if v == nil {
		return b, false
	}
	return Presented(p, dataio.Array{Shape: p.BShape, Data: p.Coefficients(v)}), true
}

func writtenB(risk pipeline.Risk) []float64 {
	if low := risk.Factors; low != nil && low.Shape.Len() > linops.MostDense {
		return nil
	}
	return risk.DenseB()
}

// Presented is an array of the problem in the shape of the file: where y was read as frames, which
// are the columns of the problem's matrices, each matrix is frames again.
func Presented(p *problems.Problem, a dataio.Array) dataio.Array {
	if p.Frames == nil {
		return a
	}
	frames, pixels := p.Frames[0], p.Frames[1]*p.Frames[2]
	shape := slices.Concat(a.Shape[:len(a.Shape)-2], p.Frames)
	data := make([]float64, len(a.Data))
	for at := 0; at < len(data); at += frames * pixels {
		from, to := a.Data[at:], data[at:]
		for q := range pixels {
			for t := range frames {
				to[t*pixels+q] = from[q*frames+t]
			}
		}
	}
	a.Shape, a.Data = shape, data
	return a
}

// ShapeOut is the shape in which an array of the problem is presented.
func ShapeOut(p *problems.Problem, shape []int) []int {
	if p.Frames == nil {
		return shape
	}
	return slices.Concat(shape[:len(shape)-2], p.Frames)
}

// localMaps are the maps of an estimate by patches of a series of images: the degrees of freedom of
// each pixel, which add up to the divergence, and where the patches do not overlap the degrees of
// freedom and SURE of each patch,
//
//	-n sigma2 + ||y - mu_hat||^2 + 2 sigma2 df   over the n values of the patch,
//
// which add up to SURE. sigma2 is nil where it is not known. There are none for other problems.
func localMaps(p *problems.Problem, data problems.Data, risk pipeline.Risk, sigma2 *float64) ([]dataio.Array, error) {
	local := prox.StructureOf(p.Regularizer).Local
	if local == nil || risk.MuHat == nil || p.D != p.P {
		return nil, nil
	}
	maps, err := local(data.Y)
	if err != nil {
		return nil, err
	}
	s := maps.Series
	arrays := []dataio.Array{{Name: "degrees_of_freedom", Shape: []int{s.Rows, s.Cols}, Data: maps.DegreesOfFreedom}}
	if maps.PatchDivergence == nil {
		return arrays, nil
	}
	shape := []int{maps.PatchRows, maps.PatchCols}
	arrays = append(arrays, dataio.Array{Name: "patch_degrees_of_freedom", Shape: shape, Data: maps.PatchDivergence})
	if sigma2 == nil {
		return arrays, nil
	}
	sure := make([]float64, len(maps.PatchDivergence))
	for i, patch := range s.Patches() {
		sure[i] = 2 * *sigma2 * maps.PatchDivergence[i]
		patch.Visit(s, func(_, _, at int) {
			rest := data.Y[at] - risk.MuHat[at]
			sure[i] += rest*rest - *sigma2
		})
	}
	return append(arrays, dataio.Array{Name: "patch_sure", Shape: shape, Data: sure}), nil
}

// Labelled is an array with the names of the rows and columns that it has in the file of y, where it has so
// many.
func Labelled(a dataio.Array, l dataio.Labels) dataio.Array {
	cols := 1
	if len(a.Shape) == 2 {
		cols = a.Shape[1]
	}
	if len(l.Columns) == cols && len(a.Shape) > 0 && len(a.Shape) < 3 &&
		(l.RowNames == nil || len(l.RowNames) == a.Shape[0]) {
		a.Labels = l
	}
	return a
}

// Synthesize is the signal of b.
func Synthesize(p *problems.Problem, b []float64) (dataio.Array, error) {
	dev := p.Solve().Device
	signal := spec.ImageOf(dev, p.Signal, b)
	if p.Original != nil {
		p.Original(signal)
	}
	return dataio.Array{Name: "signal", Shape: p.SignalShape, Data: signal, Complex: p.SignalComplex}, dev.Sync()
}
