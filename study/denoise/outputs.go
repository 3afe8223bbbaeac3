package denoise

import (
	"maps"
	"math"
	"math/cmplx"
	"slices"
	"strings"

	"surepipe/internal/dataio"
	"surepipe/series"
	"surepipe/study"
)

func (o *Outputs) named() map[string]string {
	return map[string]string{"out": o.Out, "out_second": o.OutSecond, "residual": o.Residual, "noise": o.Noise,
		"noise_error": o.NoiseError, "df": o.DF, "risk": o.Risk, "rank": o.Rank, "removed": o.Removed}
}

func (j *job) checkReturn() error {
	all := j.named()
	for _, name := range j.Return {
		if _, ok := all[name]; !ok {
			return study.Errorf("--return has %.40q, expected some of %s", name,
				strings.Join(slices.Sorted(maps.Keys(all)), ", "))
		}
	}
	return nil
}

func (j *job) wanted(name string) bool {
	return j.named()[name] != "" || slices.Contains(j.Return, name)
}

// outputs creates what is written, and returns what is done with every slice.
func (j *job) outputs() (writers []func(series.Slice) error, err error) {
	area := j.shape.Image[0] * j.shape.Image[1]
	rows := []struct {
		name string
		of   func(s series.Slice) []float64
	}{
		{"df", func(s series.Slice) []float64 { return s.DF }},
		{"risk", func(s series.Slice) []float64 { return s.Risk }},
		{"rank", func(s series.Slice) []float64 { return s.Rank }},
		{"removed", func(s series.Slice) []float64 { return s.Removed }},
		{"noise", func(s series.Slice) []float64 { return j.sigma[s.Z*area:][:area] }},
		{"noise_error", func(s series.Slice) []float64 { return j.noise.StdErr[s.Z*area:][:area] }},
	}
	if j.wanted("noise_error") && j.noise == nil {
		return nil, study.Errorf("--noise-error is given, but sigma is not estimated")
	}
	for _, m := range rows {
		if !j.wanted(m.name) {
			continue
		}
		write, err := j.create(m.name, 1, true)
		if err != nil {
			return nil, err
		}
		writers = append(writers, func(s series.Slice) error { return write(s.Z, m.of(s)) })
	}
	two := j.Imaginary+j.Phase != ""
	if j.wanted("residual") { // before the estimate is changed
		write, err := j.create("residual", j.shape.Volumes, false)
		if err != nil {
			return nil, err
		}
		values := make([]float64, area*j.shape.Volumes*j.shape.Parts())
		writers = append(writers, func(s series.Slice) error {
			if err := j.from.Slice(values, s.Z); err != nil {
				return err
			}
			for i, v := range s.Clean {
				values[i] -= v
			}
			first, _ := j.split(values, two)
			return write(s.Z, first)
		})
	}
	writers = append(writers, j.doubt, j.magnitudes)
	if !j.wanted("out") && !j.wanted("out_second") {
		return writers, nil
	}
	var write [2]func(z int, values []float64) error
	for i, name := range []string{"out", "out_second"} {
		if j.wanted(name) {
			if write[i], err = j.create(name, j.shape.Volumes, false); err != nil {
				return nil, err
			}
		}
	}
	return append(writers, func(s series.Slice) error {
		first, second := j.split(s.Clean, two)
		for i, values := range [][]float64{first, second} {
			if write[i] != nil {
				if err := write[i](s.Z, values); err != nil {
					return err
				}
			}
		}
		return nil
	}), nil
}

// create begins an output, whose file is checked to be writable, and returns what takes its slices.
func (j *job) create(name string, volumes int, real bool) (func(z int, values []float64) error, error) {
	var to []output
	if path := j.named()[name]; path != "" {
		if err := dataio.CheckWritable(path); err != nil {
			return nil, study.Errorf("%s: cannot be written: %w", path, err)
		}
		f, err := j.from.create(path, volumes, real)
		if err != nil {
			return nil, err
		}
		to = append(to, f)
	}
	if slices.Contains(j.Return, name) {
		to = append(to, j.from.array(volumes, real, func(a dataio.Array) error {
			if j.result.Arrays == nil {
				j.result.Arrays = map[string]study.Array{}
			}
			j.result.Arrays[name] = study.Array{Shape: a.Shape, Data: a.Data, Complex: a.Complex}
			return nil
		}))
	}
	j.files = append(j.files, to...)
	return func(z int, values []float64) error {
		for _, f := range to {
			if err := f.Slice(z, values); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func (j *job) split(values []float64, two bool) (first, second []float64) {
	if !two {
		return values, nil
	}
	first, second = make([]float64, len(values)/2), make([]float64, len(values)/2)
	for i := range first {
		v := complex(values[2*i], values[2*i+1])
		if first[i], second[i] = real(v), imag(v); j.Phase != "" {
			first[i], second[i] = cmplx.Abs(v), cmplx.Phase(v)
		}
	}
	return first, second
}

// doubt adds up by how much SURE changes where an estimated sigma is off by its standard error at all voxels alike.
func (j *job) doubt(s series.Slice) error {
	if j.noise == nil {
		return nil
	}
	course := float64(j.shape.Volumes * j.shape.Parts())
	for i, df := range s.DF {
		if at := s.Z*len(s.DF) + i; !math.IsNaN(df) {
			j.sureBySigma += 2 * math.Abs(2*df-course) * j.sigma[at] * j.noise.StdErr[at]
		}
	}
	return nil
}

// magnitudes counts the values of little signal, and corrects them where that is asked for.
func (j *job) magnitudes(s series.Slice) error {
	if j.shape.Complex {
		return nil
	}
	area, floor := j.shape.Image[0]*j.shape.Image[1], j.magnitude.Floor()
	for i := range area {
		if math.IsNaN(s.DF[i]) {
			continue
		}
		sigma, course := j.sigma[s.Z*area+i], s.Clean[i*j.shape.Volumes:][:j.shape.Volumes]
		for _, v := range course {
			if v < floor*sigma {
				j.weak++
			}
		}
		if !j.Rician {
			continue
		}
		if j.estimated { // from magnitudes, whose noise is less where there is little signal
			sigma = j.magnitude.Sigma(course, sigma)
		}
		for t, v := range course {
			course[t] = j.magnitude.Unbias(v, sigma)
		}
	}
	return nil
}
