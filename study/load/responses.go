package load

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/design"
	"surepipe/internal/lists"
	"surepipe/problems/spec"
	"surepipe/study"
)

// ReadMany is [Source.Read] for one or several responses: the columns of a table that Table.Response names, separated
// by commas, or the columns of a y of shape (d, m). X is read once; of a table each response has the rows of its own
// where values are missing. Several responses have names. With a loss of several columns they are one y, of the rows
// in which none is missing.
func (f *Source) ReadMany(ctx context.Context) ([]Contents, error) {
	if strings.Contains(f.Table.Response, ",") {
		return f.readColumns(ctx, lists.Map(strings.Split(f.Table.Response, ","), strings.TrimSpace))
	}
	g := *f
	l, _ := LayoutOf(f.Problem)
	g.several = l.Design && f.Specification == nil && !f.columns() && !f.LossOf().Row().Timed
	data, err := g.Read(ctx)
	if err != nil || !g.several || len(data.YShape) != 2 {
		return []Contents{data}, err
	}
	g.several = false
	return g.divide(data)
}

func (f *Source) readColumns(ctx context.Context, names []string) ([]Contents, error) {
	l, _ := LayoutOf(f.Problem)
	switch {
	case f.Specification != nil:
		return nil, study.Errorf("--response names %d columns, but a specification has one y", len(names))
	case !l.Design:
		return nil, study.Errorf("--response names %d columns, but several responses are for regressions, found "+
			"--problem %s", len(names), f.Problem)
	case f.LossOf().Row().Timed:
		return nil, study.Errorf("--response names %d columns, but the %s loss has one y, and its times", len(names),
			f.LossOf().Name)
	}
	f.ctx = ctx
	o := f.tableOptions()
	o.Files, o.Reference, o.Whole = f.files(), f.unpenalized(), f.columns() && !f.classes()
	tables, err := design.OpenMany(f.Data, o, names)
	if err != nil {
		return nil, f.tableError(err)
	}
	if o.Whole {
		g := *f
		g.table = design.Joined(tables)
		data, err := g.Read(ctx)
		return []Contents{data}, err
	}
	all := make([]Contents, len(names))
	for k, name := range names {
		g := *f
		g.Table.Response, g.table = name, tables[k]
		if all[k], err = g.Read(ctx); err != nil {
			return nil, study.Errorf("response %q: %w", name, err)
		}
		all[k].Response = name
	}
	return all, nil
}

func (f *Source) divide(data Contents) ([]Contents, error) {
	d, m := data.YShape[0], data.YShape[1]
	if rows, _ := spec.MatrixOf(data.X).Dims(); rows == m && rows != d {
		return nil, study.Errorf("%s: array \"y\" has shape %s, expected (%d, m) for m responses: a stack of samples "+
			"is for surepipe montecarlo", f.Name(), ndarray.ShapeString(data.YShape), rows)
	}
	names := data.Labels.Columns
	if len(names) != m {
		names = lists.Make(m, func(k int) string { return fmt.Sprintf("y%d", k+1) })
	}
	column := func(values []float64, k int) []float64 {
		if len(values) != d*m {
			return values
		}
		return mat.Col(nil, k, mat.NewDense(d, m, values))
	}
	all := make([]Contents, m)
	for k, name := range names {
		if slices.Contains(names[:k], name) {
			return nil, study.Errorf("%s: two columns of \"y\" have the name %q", f.Name(), name)
		}
		c := data
		c.Y, c.Mu, c.YShape = column(data.Y, k), column(data.Mu, k), []int{d}
		c.Response, c.Labels = name, dataio.Labels{}
		if err := f.complete(&c); err != nil {
			return nil, study.Errorf("response %q: %w", name, err)
		}
		all[k] = c
	}
	return all, nil
}

// SharesX says that the problems of two responses may share an operator: X is the same, and so are the weights.
func (c *Contents) SharesX(of *Contents) bool {
	x, y := spec.MatrixOf(c.X), spec.MatrixOf(of.X)
	same := x.Stored == y.Stored && x.Sparse == y.Sparse && (x.Dense == nil) == (y.Dense == nil)
	if same && x.Dense != nil {
		a, b := x.Dense.RawMatrix(), y.Dense.RawMatrix()
		same = a.Rows == b.Rows && a.Cols == b.Cols && len(a.Data) > 0 && &a.Data[0] == &b.Data[0]
	}
	// Observations of the two may have different numbers of entries.
	same = same && len(c.Y) == len(of.Y)
	return same && slices.Equal(c.Weights, of.Weights) && (c.Weights == nil) == (of.Weights == nil)
}
