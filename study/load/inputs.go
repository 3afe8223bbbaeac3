package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"surepipe/internal/dataio"
	"surepipe/internal/design"
	"surepipe/internal/noise"
	"surepipe/problems"
	"surepipe/problems/spec"
	"surepipe/risk/warning"
	"surepipe/study"
)

// inputs collects the arrays of several files.
type inputs struct {
	*Source
	layout    problems.Layout
	more      []dataio.Array // arrays that take precedence over those of the file
	x, d      spec.Matrix    // X and D where they are sparse or stay in their files
	fromTable *design.Data
	entries   *design.Entries
	// stacks says that y may be a stack of samples, depth is that of its file, and frames its shape
	// where it was read as the frames of a video.
	stacks bool
	depth  dataio.Depth
	frames []int
	// haveY says that y does not come from --data.
	haveY bool
}

// Read reads the files of the source: a specification and its files, or the arrays that the
// problem needs, from files of any format. It estimates
// sigma2 by Sigma2Method. Every
// error is bad input and names the file.
func (f *Source) Read(ctx context.Context) (Contents, error) { return f.read(ctx, nil, false) }

// ReadSamples is [Source.Read] for many samples: y may have one more leading axis, or be missing where
// there is a mean to simulate samples around.
func (f *Source) ReadSamples(ctx context.Context) (Contents, error) {
	if strings.Contains(f.Table.Response, ",") {
		return Contents{}, study.Errorf("--response names several columns, %q, and samples have one y: several "+
			"responses are for surepipe run and sweep", f.Table.Response)
	}
	return f.read(ctx, nil, true)
}

func (f *Source) read(ctx context.Context, samples *study.SampleSource, stacks bool) (data Contents, err error) {
	f.ctx = ctx
	var sample *dataio.Array
	if samples != nil {
		if sample, err = f.firstOf(samples); err != nil {
			return Contents{}, err
		}
	}
	switch {
	case f.Specification != nil:
		files := problems.SpecFiles{Context: f.ctx, FS: f.Files, Data: f.Data, Table: f.coding(), X: f.X, Y: f.Y,
			Mu: f.Mu, Sample: sample, Stored: f.storedX}
		if sample != nil {
			files.Y = ""
		}
		data.Data, err = f.Specification.Load(files)
		if err != nil && stacks {
			files.Simulate, data.Simulated = true, true
			data.Data, err = f.Specification.Load(files)
		}
		if err != nil {
			return Contents{}, f.tableError(err)
		}
	default:
		if data, err = f.readInputs(sample, stacks); err == nil && sample != nil {
			err = f.checkSample(samples, data)
		}
	}
	if err != nil {
		return Contents{}, err
	}
	f.vary(&data.Data)
	if data.Table != nil {
		data.observed = data.Table.Beside
	}
	if f.several && len(data.YShape) == 2 {
		return data, nil
	}
	return data, f.complete(&data)
}

func (f *Source) complete(data *Contents) (err error) {
	if err := f.coordinates(data); err != nil {
		return err
	}
	if data.observed != nil {
		if err := f.observe(data, data.observed); err != nil {
			return f.InFile(err)
		}
	}
	if err := f.classify(data); err != nil {
		return f.InFile(err)
	}
	if f.LossOf().Transforms() {
		data.Mu = nil // mu_hat is not an estimate of it
	}
	if err := f.standardize(data); err != nil {
		return f.InFile(err)
	}
	if err := f.scan(data); err != nil {
		return err
	}
	if data.Together, err = f.groups(data); err != nil {
		return err
	}
	return f.estimateNoise(data)
}

// estimateNoise estimates sigma2 where the flags or the specification ask for it, from a stack by
// its first sample.
func (f *Source) estimateNoise(data *Contents) error {
	data.Variance = Variance{}
	if f.Sigma2Method == "" {
		return nil
	}
	if data.Simulated {
		return study.Errorf("--sigma2 is %s, but %s holds no y to estimate it from: to simulate samples, give "+
			"sigma2 as a number", f.Sigma2Method, f.Name())
	}
	estimate, err := f.estimator(data.Data)
	if errors.Is(err, problems.ErrNeedsFits) {
		data.Fits, data.Sigma2 = true, nil
		return nil
	}
	if err != nil {
		return f.InFile(err)
	}
	data.Estimate, data.Sigma2 = &estimate, &estimate.Sigma2
	return nil
}

func (f *Source) estimator(data problems.Data) (noise.Estimate, error) {
	if f.Command {
		return noise.Choose(f.Sigma2Method, noise.Observed{Y: data.Y, Shape: data.YShape, Bare: true})
	}
	return problems.EstimateSigma2(f.Sigma2Method, f.Problem, data)
}

// noteIntercept notes that a regression has no intercept, nor a constant column of X, although the mean of y is far
// from 0.
func (f *Source) noteIntercept(n *study.Notes, data problems.Data, spread func() (means, deviations []float64)) {
	if l, _ := LayoutOf(f.Problem); !l.Design || f.Specification != nil || f.Intercept || !f.Loss.Squared() {
		return
	}
	mean, sd := stat.MeanStdDev(data.Y, nil)
	if !(math.Abs(mean) > 3*sd/math.Sqrt(float64(len(data.Y)))) {
		return
	}
	means, deviations := spread()
	for j, v := range deviations {
		if v == 0 && means[j] != 0 {
			return
		}
	}
	n.Add(warning.NoIntercept, "y has mean %.3g and no column of X is constant: without an intercept the fit "+
		"and sigma2 are poor; --intercept fits one", mean)
}

// Name names the input for errors.
func (f *Source) Name() string {
	return cmp.Or(f.Spec, f.Data, f.Y, f.X, f.Mu)
}

// ignored lists the arrays of --data that were not read and that no flag replaces.
func (f *Source) ignored(set *dataio.Set, haveY bool) []string {
	if set == nil || !set.Archive() {
		return nil
	}
	given := map[string]string{"X": f.X, "y": f.Y, "mu": f.Mu, "D": f.D}
	return slices.DeleteFunc(set.Unread(),
		func(name string) bool { return given[name] != "" || name == "y" && haveY })
}

// InFile names the file of an error: that of the array which the error begins with, where a flag gives it,
// or else the input.
func (f *Source) InFile(err error) error {
	var array string
	fmt.Sscanf(err.Error(), "array %q", &array)
	own := map[string]string{"X": f.X, "y": f.Y, "mu": f.Mu, "D": f.D}[array]
	if own == "" && array != "" && f.Spec == "" {
		own = f.Data
	}
	return study.Errorf("%s: %w", cmp.Or(own, f.Name()), err)
}

// readInputs reads the arrays from files of any format: --data, and --X, --y, --mu and --D, which
// take precedence. If a sample is given, it is y.
func (f *Source) readInputs(sample *dataio.Array, stacks bool) (Contents, error) {
	l, _ := LayoutOf(f.Problem)
	in := inputs{Source: f, layout: l, stacks: stacks, haveY: sample != nil || f.Y != ""}
	if !in.layout.Design && f.X != "" {
		return Contents{}, study.Errorf("--X is %q, but %s has no design matrix", f.X, f.Problem)
	}
	set, err := in.openData()
	if err != nil {
		return Contents{}, err
	}
	a := arrays{Set: dataio.HoldTable(), gaps: f.gaps(), sample: sample != nil, grouped: f.ColumnGroups != "",
		several: f.columns() || f.several, joint: f.columns(), command: f.Command}
	if set != nil {
		defer set.Close()
		if set.Named() {
			a.Set, a.named = set, true
		}
	}
	own := len(a.Names())
	for _, flag := range []struct{ name, path string }{{"X", f.X}, {"y", f.Y}, {"mu", f.Mu}, {"D", f.D}} {
		if flag.path == "" {
			continue
		}
		twice := slices.ContainsFunc(in.more, func(a dataio.Array) bool { return a.Name == flag.name })
		if twice && f.Table.Response == "" {
			return Contents{}, study.Errorf("--data is %q and %s %q: both hold %s, expected one of them", f.Data,
				study.Option(flag.name), flag.path, flag.name)
		}
		if err := in.fromFlag(flag.name, flag.path); err != nil {
			return Contents{}, err
		}
	}
	if sample != nil {
		in.more = append(in.more, *sample)
	}
	if a.Hold(in.more...); l.Selection || l.Sequence() {
		if err := a.pickMu(); err != nil {
			return Contents{}, f.InFile(err)
		}
	}
	if _, held := a.Held("X"); !held && in.x == (spec.Matrix{}) && l.Design && a.Has("X") {
		if in.x.Stored, err = in.storedX(a.Set, "X"); err != nil {
			return Contents{}, f.InFile(err)
		}
	}
	a.x, a.d = in.x, in.d
	data, err := readSet(a, f.Problem, stacks)
	if err != nil {
		return Contents{}, f.InFile(err)
	}
	data.Ignored = f.ignored(a.Set, sample != nil)
	if a.named && f.Table.Response == "" && len(data.Ignored) == own {
		return Contents{}, study.Errorf("--data is %q, of which nothing is used: it holds %s", f.Data,
			strings.Join(data.Ignored, ", "))
	}
	data.Table, data.Entries, data.Depth = in.fromTable, in.entries, in.depth
	if t := in.fromTable; t != nil && t.Sequence != nil {
		data.Labels = t.Sequence.Labelled(t.Design.Response, false)
		if l.Places {
			data.At = t.Sequence.Places(false)
		}
	}
	if in.frames != nil {
		data.Frames = in.frames
	}
	return data, nil
}

// openData opens --data, and takes what it holds without names of its own. The set is nil where that is all.
func (in *inputs) openData() (set *dataio.Set, err error) {
	switch response := in.Table.Response != ""; {
	case response && in.layout.Selection:
		in.entries, err = in.openEntries()
		return nil, err
	case in.layout.Selection && dataio.IsTable(in.Data):
		in.entries, err = in.openMatrix()
		return nil, err
	case response:
		if in.fromTable, err = in.openTable(); err != nil {
			return nil, err
		}
		if in.fromTable.Sequence == nil {
			return dataio.HoldTable(in.fromTable.Arrays()...), nil
		}
		in.more = append(in.more, in.fromTable.Arrays()...)
		return nil, nil
	case isBED(in.Data):
		return nil, in.fromBED("data", in.Data)
	case in.Data == "":
		return nil, nil
	}
	if err := in.askResponse(); err != nil {
		return nil, err
	}
	if set, err = dataio.OpenAs(in.Data, in.reading()); err != nil {
		return nil, in.missingCell(err)
	}
	if err := in.fromData(set); err != nil {
		set.Close()
		return nil, study.Errorf("%s: %w", in.Data, err)
	}
	return set, nil
}

// missingCell says what to do where a cell of a table is missing.
func (in *inputs) missingCell(err error) error {
	var missing *dataio.MissingCellError
	switch {
	case !errors.As(err, &missing):
	case in.layout.Sequence():
		err = study.Errorf("%w; --missing drop estimates missing values from the others", err)
	case !in.layout.Design:
		err = study.Errorf("%w; --problem matrix-completion takes a matrix of which some entries are missing", err)
	}
	return study.Bad(err)
}

// fromData takes the arrays of --data. Those of a .npz archive have names. Other formats hold one
// array, whose use follows from the problem and the other flags.
func (in *inputs) fromData(set *dataio.Set) error {
	l := in.layout
	switch {
	case set.IsSparse() && (!l.Design || in.X != ""):
		return in.fromSparse(set)
	case set.Archive() && !in.alone(set):
		return nil
	case set.IsSparse(), l.Design && in.haveY && in.X == "":
		return in.fromSet("X", set)
	case !l.Design, in.X != "" && !in.haveY:
		return in.fromSet("y", set)
	}
	name, err := set.Only()
	if err != nil || !dataio.IsTable(in.Data) {
		return cmp.Or(err, study.Errorf("the file holds a single array, expected X and y: give the other with --X or "+
			"--y"))
	}
	a, err := set.Floats(name)
	return cmp.Or(err, study.Errorf("which column is the response? Expected --response NAME%s, or --y FILE",
		columnNames(a.Columns)))
}

// alone reports whether the one array of an archive is y under another name.
func (in *inputs) alone(set *dataio.Set) bool {
	names := set.Names()
	whole := !in.layout.Design && !in.layout.Selection && !in.haveY
	return whole && len(names) == 1 && !slices.Contains(dataNames, names[0])
}

// fromSparse takes a sparse matrix for the observed entries of a matrix.
func (in *inputs) fromSparse(set *dataio.Set) error {
	if !in.layout.Selection {
		return fmt.Errorf("the file holds a sparse matrix, which %s cannot use; expected a dense array", in.Problem)
	}
	m, err := set.Triplets()
	if err != nil {
		return err
	}
	places, values, duplicates := m.Entries()
	if duplicates > 0 {
		return fmt.Errorf("%d entries repeat a place: expected each place to be observed once", duplicates)
	}
	in.more = append(in.more, entries(values, places, []int{m.Rows, m.Cols})...)
	return nil
}

// fromFlag reads the array of --X, --y, --mu or --D: the one of that name in an archive, else the file's
// only one.
func (in *inputs) fromFlag(name, path string) error {
	if name == "X" && isBED(path) {
		return in.fromBED(name, path)
	}
	set, err := dataio.OpenAs(path, in.reading())
	if err != nil {
		return study.Bad(err)
	}
	defer set.Close()
	if set.IsSparse() && name != "X" && name != "D" {
		return study.Errorf("%s: %s holds a sparse matrix, expected a dense array", study.Option(name), path)
	}
	if err := in.fromSet(name, set); err != nil {
		return study.Errorf("%s: %s: %w", study.Option(name), path, err)
	}
	return nil
}

// fromSet is fromFlag for an open file. X and D may be sparse, and X may stay where it is.
func (in *inputs) fromSet(name string, set *dataio.Set) (err error) {
	array := name
	if !set.IsSparse() {
		if array, err = set.Find(name); err != nil {
			return err
		}
	}
	switch name {
	case "X":
		if in.x, err = spec.StoredOrSparse(set, array, in.storedX); err != nil || in.x != (spec.Matrix{}) {
			return err
		}
	case "D":
		if in.d, err = spec.StoredOrSparse(set, array, nil); err != nil || in.d != (spec.Matrix{}) {
			return err
		}
	}
	a, err := in.read(set, array)
	if err == nil {
		in.put(name, a, set)
	}
	return err
}

// read reads an array, the frames of a video as the columns of a matrix.
func (in *inputs) read(set *dataio.Set, name string) (dataio.Array, error) {
	if !in.layout.Frames || in.stacks {
		return set.Floats(name)
	}
	a, frames, err := set.Frames(name)
	if err == nil && frames != nil {
		in.frames = frames
		if !set.IsImage() {
			a.ScaleToUnit()
		}
	}
	return a, err
}

// put stores an array under a name. Where a vector is expected, a single row or column of a format
// that has only matrices is taken as one.
func (in *inputs) put(name string, a dataio.Array, set *dataio.Set) {
	a.Name = name
	if in.layout.Colours && (name == "y" || name == "mu") {
		set.Image(&a)
	}
	if name == "y" && (set.IsImage() || a.Depth.Scaled) {
		in.depth = a.Depth
	}
	if name != "X" && name != "D" && in.layout.YRank <= 1 {
		a = set.Vector(a)
	}
	in.more = append(in.more, a)
}
