package denoise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/pipeline"
	"surepipe/risk/warning"
	"surepipe/series"
	"surepipe/study"
)

// Request says what is denoised, and which files are written. Options in errors are named as its fields are in a
// command: --noise-scan for NoiseScan.
type Request struct {
	// Files has the files that are read, by their names; nil stands for those of the operating system.
	Files fs.FS `json:"-"`
	// Data is the file of the series. Imaginary or Phase is that of the other part of a complex series.
	Data       string `json:"data,omitempty" jsonschema:"the file of the series"`
	Imaginary  string `json:"imaginary,omitempty" jsonschema:"the file of the imaginary part"`
	Phase      string `json:"phase,omitempty" jsonschema:"the file of the phase in radians, where data has magnitudes"`
	SeriesLast bool   `json:"series_last,omitempty" jsonschema:"the volumes of an array are its last axis"`
	// Sigma is a number, or the file of a map; "" estimates it, from the file NoiseScan of noise alone where that is
	// given.
	Sigma     string `json:"sigma,omitempty" jsonschema:"the standard deviation of the noise, or the file of a map"`
	NoiseScan string `json:"noise_scan,omitempty" jsonschema:"the file of a scan of noise alone"`
	// NoiseVolumes are volumes of the series that hold noise alone, as "60-63,70", counted from 0: sigma is estimated
	// from them, and they are left out of the outputs.
	NoiseVolumes string `json:"noise_volumes,omitempty" jsonschema:"volumes of noise alone, as 60-63,70, from 0 on"`
	// Keep is the file of a design, a row a volume: what its columns explain is kept ([series.Options]).
	Keep string `json:"keep,omitempty" jsonschema:"the file of a design, a row a volume: what it explains is kept"`
	Mask string `json:"mask,omitempty" jsonschema:"the file of a map that is not 0 where voxels count"`
	// Patch and Stride are a number, or three as 5x5x5; "" stands for those of [series.Options].
	Patch  string `json:"patch,omitempty" jsonschema:"the side of patches in voxels, or three as 5x5x3"`
	Stride string `json:"stride,omitempty" jsonschema:"the distance of patches in voxels, or three as 2x2x1"`
	// Shrinkage, Threshold and Average are as in [series.Options].
	Shrinkage string            `json:"shrinkage,omitempty" jsonschema:"optimal, hard or soft"`
	Threshold series.Thresholds `json:"threshold,omitempty" jsonschema:"edge, sure or series-sure"`
	Average   series.Average    `json:"average,omitempty" jsonschema:"rank, uniform, gaussian or risk"`
	Rician    bool              `json:"rician,omitempty" jsonschema:"correct the mean of magnitudes for their noise"`
	Coils     int               `json:"coils,omitempty" jsonschema:"the coils whose sum of squares magnitudes are of"`
	Outputs
	// Return are arrays for [Result].Arrays, by the names of Outputs in JSON: out, df, ...
	Return []string `json:"return,omitempty" jsonschema:"arrays of the result, by the names of files: out, df, ..."`
}

// Outputs are the files to write; "" stands for none.
type Outputs struct {
	// Out is the estimate, and OutSecond its imaginary part or phase where there are two files.
	Out       string `json:"out,omitempty" jsonschema:"a file for the estimate"`
	OutSecond string `json:"out_second,omitempty" jsonschema:"a file for its imaginary part or phase"`
	// Residual is what was removed. Noise is sigma, NoiseError its standard error, and the others are the maps of
	// [series.Slice].
	Residual   string `json:"residual,omitempty" jsonschema:"a file for what was removed"`
	Noise      string `json:"noise,omitempty" jsonschema:"a file for sigma at each voxel"`
	NoiseError string `json:"noise_error,omitempty" jsonschema:"a file for the standard error of sigma"`
	DF         string `json:"df,omitempty" jsonschema:"a file for the degrees of freedom at each voxel"`
	Risk       string `json:"risk,omitempty" jsonschema:"a file for SURE at each voxel"`
	Rank       string `json:"rank,omitempty" jsonschema:"a file for the rank at each voxel"`
	Removed    string `json:"removed,omitempty" jsonschema:"a file for the correlation of what was removed"`
}

// Result is what is printed, as JSON.
type Result struct {
	Problem string `json:"problem"`
	Image   [3]int `json:"image"`
	Volumes int    `json:"volumes"`
	Complex bool   `json:"complex"`
	Voxels  int    `json:"voxels"`
	Values  int    `json:"d"`
	Patches int    `json:"patches"`
	Choices
	Multiple float64   `json:"threshold_over_edge"`
	Sigma    SigmaPart `json:"sigma"`
	Rank     float64   `json:"rank"`
	DF       float64   `json:"divergence"`
	DFShare  float64   `json:"df_share"`
	SURE     float64   `json:"sure"`
	SUREErr  float64   `json:"sure_stderr"`
	PerValue float64   `json:"sure_per_coordinate"`
	// Gain is the mean squared error of the data over that of the estimate, by SURE; null where SURE is not positive.
	Gain *float64 `json:"gain"`
	// Removed is the average correlation of what was removed at neighbouring voxels.
	Removed    float64            `json:"residual_correlation"`
	RemovedErr float64            `json:"residual_correlation_stderr"`
	Warnings   []pipeline.Warning `json:"warnings"`
	Seconds    float64            `json:"seconds"`
	// Arrays are those of Return: of a NIfTI file the series first, then z, y and x.
	Arrays map[string]study.Array `json:"-"`
}

// Choices are the options that were used.
type Choices struct {
	Patch     [3]int `json:"patch"`
	Stride    [3]int `json:"stride"`
	Shrinkage string `json:"shrinkage"`
	Threshold string `json:"threshold"`
	Average   string `json:"average"`
}

// SigmaPart is the standard deviation of the noise over the voxels.
type SigmaPart struct {
	From string  `json:"from"`
	Mean float64 `json:"mean"`
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
	// StdErr is the root mean square of the standard errors of the map; null where sigma was given.
	StdErr *float64 `json:"stderr"`
}

type job struct {
	Request
	in      dataio.Files
	options series.Options
	from    input
	silent  input // the volumes of noise alone, or nil
	shape   series.Shape
	sigma   []float64
	noise   *series.Noise
	// estimated says that noise is from the spectra of the data.
	estimated bool
	files     []output
	result    Result
	magnitude *series.Magnitude
	weak      int // values of magnitudes below its floor
	// sureBySigma is the part of SURE's error that comes from that of sigma.
	sureBySigma float64
	begun       time.Time
}

// Run denoises, with the native BLAS that [array.UseNative] finds. No file is written unless all are.
func Run(ctx context.Context, r Request) (_ *Result, err error) {
	j := &job{Request: r, begun: time.Now(), in: dataio.Files{Context: ctx, FS: r.Files}}
	if err := j.checkReturn(); err != nil {
		return nil, err
	}
	if err := array.UseNative(); err != nil {
		return nil, study.Bad(err)
	}
	if j.from, err = j.open(); err != nil {
		return nil, err
	}
	defer j.from.Close()
	if err := j.separate(); err != nil {
		return nil, err
	}
	j.shape = j.from.Shape()
	if err := j.settle(); err != nil {
		return nil, err
	}
	if err := j.findSigma(ctx); err != nil {
		return nil, err
	}
	writers, err := j.outputs()
	defer func() {
		for _, f := range j.files {
			f.Abort()
		}
	}()
	if err != nil {
		return nil, err
	}
	summary, err := series.Denoise(ctx, j.from, j.sigma, j.options, func(s series.Slice) error {
		for _, write := range writers {
			if err := write(s); err != nil {
				return err
			}
		}
		return nil
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, j.badInput(err, j.Data)
	}
	for len(j.files) > 0 {
		if err := j.files[0].Commit(); err != nil {
			return nil, err
		}
		j.files = j.files[1:]
	}
	return j.report(summary), nil
}

// badInput marks the errors of package series, which are about the values of files: path is that of the volumes.
func (j *job) badInput(err error, path string) error {
	if v := (*series.ValueError)(nil); errors.As(err, &v) {
		text := fmt.Sprintf("%s at %s, expected %s", v.Found, j.from.place(v.Voxel), v.Expected)
		if strings.HasPrefix(v.Found, "volume ") {
			text = path + ": " + text
		}
		return study.Errorf("%s", text)
	}
	if text, ours := strings.CutPrefix(err.Error(), "series: "); ours {
		return study.Errorf("%s", text)
	}
	return err
}

func (j *job) open() (input, error) {
	if j.Imaginary != "" && j.Phase != "" {
		return nil, study.Errorf("--imaginary and --phase are both given, expected one of them")
	}
	first, err := open(j.in, j.Data, j.SeriesLast)
	other := j.Imaginary + j.Phase
	if err != nil || other == "" {
		return first, err
	}
	second, err := open(j.in, other, j.SeriesLast)
	if err != nil {
		first.Close()
		return nil, err
	}
	a, b := first.Shape(), second.Shape()
	if a != b || a.Complex {
		err = study.Errorf("%s and %s: series of %v and of %v voxels x volumes, expected two of real numbers of one "+
			"shape",
			j.Data, other, append(a.Image[:], a.Volumes), append(b.Image[:], b.Volumes))
		return nil, errors.Join(err, first.Close(), second.Close())
	}
	return &pair{input: first, second: second, polar: j.Phase != ""}, nil
}

func (j *job) settle() (err error) {
	o := &j.options
	o.Shrinkage, o.Thresholds, o.Average = j.Shrinkage, j.Threshold, j.Average
	image := j.shape.Image
	if o.Patch, err = extent("patch", j.Patch, image); err != nil {
		return err
	}
	most := o.Patch
	if most == (series.Extent{}) {
		most = image
	}
	if o.Stride, err = extent("stride", j.Stride, most); err != nil {
		return err
	}
	if (j.Rician || j.Coils != 0) && j.shape.Complex {
		return study.Errorf("--rician and --coils are for magnitudes, found a complex series, whose noise is normal")
	}
	if j.Coils < 0 || j.Coils > 256 {
		return study.Errorf("--coils is %d, expected 1 to 256", j.Coils)
	}
	j.magnitude = series.NewMagnitude(max(j.Coils, 1))
	if j.OutSecond != "" && j.Imaginary+j.Phase == "" {
		return study.Errorf("--out-second is for a series of two files: --imaginary or --phase is missing")
	}
	if j.Keep != "" {
		design, err := read(j.in, j.Keep)
		if err != nil {
			return err
		}
		if rows := append(design.Shape, 0)[0]; rows != j.shape.Volumes || len(design.Shape) > 2 || design.Complex {
			return study.Errorf("%s: has the shape %v, expected %d rows, one a volume", j.Keep, design.Shape,
				j.shape.Volumes)
		}
		o.Keep = design.Data
	}
	if j.Mask == "" {
		return nil
	}
	values, err := j.from.volume(j.Mask)
	if err != nil {
		return err
	}
	o.Mask = make([]bool, len(values))
	any := false
	for i, v := range values {
		o.Mask[i] = v != 0 && !math.IsNaN(v)
		any = any || o.Mask[i]
	}
	if !any {
		return study.Errorf("%s: is 0 everywhere, expected a mask that is not 0 where voxels count", j.Mask)
	}
	return nil
}

// extent reads 5 or 5x4x3. A number alone is cut to the most along each axis.
func extent(option, text string, most series.Extent) (e series.Extent, err error) {
	if text == "" {
		return e, nil
	}
	sides := strings.Split(text, "x")
	if len(sides) != 1 && len(sides) != 3 {
		return e, study.Errorf("--%s is %q, expected a number of voxels, or three as 5x5x3", option, text)
	}
	for axis := range e {
		n, err := strconv.Atoi(sides[min(axis, len(sides)-1)])
		if err != nil || n < 1 {
			return e, study.Errorf("--%s is %q, expected a number of voxels, or three as 5x5x3", option, text)
		}
		if len(sides) == 1 {
			n = min(n, most[axis])
		}
		if n > most[axis] {
			return e, study.Errorf("--%s is %q, expected at most %dx%dx%d", option, text, most[0], most[1], most[2])
		}
		e[axis] = n
	}
	return e, nil
}

func (j *job) findSigma(ctx context.Context) (err error) {
	part := &j.result.Sigma
	j.sigma = make([]float64, j.shape.Image[0]*j.shape.Image[1]*j.shape.Image[2])
	number, numeric := strconv.ParseFloat(j.Sigma, 64)
	switch {
	case j.Sigma != "" && j.NoiseScan+j.NoiseVolumes != "", j.NoiseScan != "" && j.NoiseVolumes != "":
		return study.Errorf("expected one of --sigma, --noise-scan and --noise-volumes, found two")
	case j.Sigma != "" && numeric == nil:
		if !(number > 0) || math.IsInf(number, 1) {
			return study.Errorf("--sigma is %s, expected a positive number, or the file of a map", j.Sigma)
		}
		part.From, j.sigma = "given", slices.Repeat([]float64{number}, len(j.sigma))
	case j.Sigma != "":
		part.From = "map"
		if j.sigma, err = j.from.volume(j.Sigma); err != nil {
			return err
		}
	case j.NoiseVolumes != "":
		part.From = "noise volumes"
		if err := j.noiseOf(j.silent); err != nil {
			return err
		}
	case j.NoiseScan != "":
		part.From = "noise scan"
		if err := j.scan(); err != nil {
			return err
		}
	default:
		part.From = "Marchenko-Pastur"
		n, err := series.EstimateNoise(ctx, j.from, j.noisePatch(), j.options.Mask)
		if err != nil {
			return j.badInput(err, j.Data)
		}
		j.noise, j.estimated = &n, true
	}
	if j.noise != nil {
		j.sigma = j.noise.Sigma
	}
	j.describeSigma()
	return nil
}

func (j *job) noisePatch() series.Extent {
	if e := j.options.Patch; e != (series.Extent{}) {
		return e
	}
	return series.DefaultPatch(j.shape.Image, j.shape.Volumes)
}

func (j *job) scan() error {
	scan, err := openScan(j.in, j.NoiseScan, j.SeriesLast)
	if err != nil {
		return err
	}
	defer scan.Close()
	if s := scan.Shape(); s.Image != j.shape.Image {
		return study.Errorf("%s: has %v voxels, expected %v as the series has", j.NoiseScan, s.Image, j.shape.Image)
	}
	return j.noiseOf(scan)
}

func (j *job) noiseOf(scan input) error {
	magnitudes := !scan.Shape().Complex && !j.shape.Complex && nonnegative(scan)
	n, err := series.NoiseOf(scan, j.noisePatch(), magnitudes)
	if err != nil {
		return j.badInput(err, cmp.Or(j.NoiseScan, j.Data))
	}
	j.noise = &n
	return nil
}

func openScan(files dataio.Files, path string, last bool) (input, error) {
	if !isScan(path) {
		return openArray(files, path, last)
	}
	s, err := files.OpenNIfTI(path)
	if err != nil {
		return nil, study.Bad(err)
	}
	return nifti{s, files}, nil
}

func nonnegative(from series.Source) bool {
	shape := from.Shape()
	n := shape.Image[0] * shape.Image[1] * shape.Volumes
	if shape.Complex {
		return false
	}
	values := make([]float64, n)
	if from.Slice(values, shape.Image[2]/2) != nil {
		return false
	}
	return !slices.ContainsFunc(values, func(v float64) bool { return v < 0 })
}

func (j *job) describeSigma() {
	part, n, square := &j.result.Sigma, 0.0, 0.0
	part.Min = math.Inf(1)
	for i, v := range j.sigma {
		if j.options.Mask != nil && !j.options.Mask[i] {
			continue
		}
		n++
		part.Mean += v
		part.Min, part.Max = min(part.Min, v), max(part.Max, v)
		if j.noise != nil {
			square += j.noise.StdErr[i] * j.noise.StdErr[i]
		}
	}
	part.Mean /= n
	if j.noise != nil {
		part.StdErr = new(math.Sqrt(square / n))
	}
}

func (j *job) report(s series.Summary) *Result {
	r := &j.result
	r.Problem = "denoise"
	r.Image, r.Volumes, r.Complex = j.shape.Image, j.shape.Volumes, j.shape.Complex
	r.Voxels, r.Values, r.Patches, r.Multiple = s.Voxels, s.Values, s.Patches, s.Multiple
	r.Choices = Choices{s.Patch, s.Stride, s.Options.Shrinkage, string(s.Options.Thresholds), string(s.Options.Average)}
	r.Rank, r.DF, r.DFShare = s.Rank, s.DF, s.DF/float64(s.Values)
	r.SURE, r.SUREErr, r.PerValue = s.SURE, math.Hypot(s.SUREStdErr, j.sureBySigma), s.SURE/float64(s.Values)
	if s.SURE > 0 {
		r.Gain = new(s.Variance / s.SURE)
	}
	r.Removed, r.RemovedErr = s.Removed, s.RemovedStdErr
	r.Warnings = j.warnings(s)
	r.Seconds = time.Since(j.begun).Seconds()
	return r
}

func (j *job) warnings(s series.Summary) []pipeline.Warning {
	all := []pipeline.Warning{}
	add := func(k *warning.Kind, format string, args ...any) {
		all = append(all, k.With(format, args...))
	}
	if s.Removed > 0.05 && s.Removed > 5*s.RemovedStdErr {
		add(warning.SignalRemoved, "what was removed is correlated between neighbouring voxels, by %.3f ± %.3f on "+
			"average, where noise is by about 0: it holds signal, or the noise is correlated over space. Look at "+
			"--removed and --residual", s.Removed, s.RemovedStdErr)
	}
	if near := s.DF / float64(s.Values); near > nearData {
		add(warning.NearData, "the estimate takes %.2f of the degrees of freedom of the data: where neighbouring "+
			"voxels share their noise, or sigma is too small, it follows the noise", near)
	}
	if math.Abs(s.Serial) > max(leastSerial, 5*s.SerialStdErr) {
		add(warning.SignalRemoved, "what voxels differ from their neighbours by is correlated by %.3f ± %.3f "+
			"between volumes that follow each other: the noise is correlated, and sigma, SURE and its error bar take "+
			"it for white, or fine structure moves everywhere", s.Serial, s.SerialStdErr)
	}
	if s.Spikes > 0 {
		add(warning.Outliers, "%d values stand out from those of the neighbouring voxels by more than six standard "+
			"deviations, with %.2g times the variance of all noise, as spikes of a detector: the low rank follows "+
			"them, and SURE takes them for signal; put the median of their neighbours in their place", s.Spikes,
			s.SpikeShare)
	}
	if s.UnevenBy != "" {
		add(warning.UnevenNoise, "the variance of the noise, over that as it was taken, differs "+
			"along %s, by a factor of %.2g between %.3g and %.3g, counted from 0: sigma, SURE and its error bar are "+
			"off; give a map --sigma, or divide volumes by the standard deviations of their noise", s.UnevenBy,
			s.UnevenRatio, s.LeastAt, s.GreatestAt)
	}
	share := float64(j.weak) / float64(s.Values)
	if !j.shape.Complex && !j.Rician && share > 0.1 && nonnegative(j.from) {
		add(warning.LowSNR, "%.0f%% of the values are magnitudes below %.3g sigma, where noise is not normal and "+
			"their mean is too large: SURE and sigma are off there; --rician corrects the mean", 100*share,
			j.magnitude.Floor())
	}
	if o := s.Options; o.Shrinkage == "hard" {
		add(warning.WithoutJumps, "hard thresholds jump, which SURE and the degrees of freedom leave out: both are "+
			"too small")
	}
	if s.Options.Thresholds == series.BySURE {
		add(warning.ChosenThresholds, "the thresholds minimize SURE at these data, so that SURE is too small by what "+
			"noise gained from that")
	}
	return all
}

// A correlation between volumes matters from leastSerial on, and an estimate is near the data from nearData.
const leastSerial, nearData = 0.05, 0.9
