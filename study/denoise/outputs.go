package denoise

import (
	"math"
	"math/cmplx"

	"surepipe/internal/dataio"
	"surepipe/series"
	"surepipe/study"
)

// outputs creates the files, and returns what is done with every slice.
func (j *job) outputs() (writers []func(series.Slice) error, err error) {
	area := j.shape.Image[0] * j.shape.Image[1]
	maps := []struct {
		path string
		of   func(s series.Slice) []float64
	}{
		{j.DF, func(s series.Slice) []float64 { return s.DF }},
		{j.Risk, func(s series.Slice) []float64 { return s.Risk }},
		{j.Rank, func(s series.Slice) []float64 { return s.Rank }},
		{j.Removed, func(s series.Slice) []float64 { return s.Removed }},
		{j.Noise, func(s series.Slice) []float64 { return j.sigma[s.Z*area:][:area] }},
		{j.NoiseError, func(s series.Slice) []float64 { return j.noise.StdErr[s.Z*area:][:area] }},
	}
	if j.NoiseError != "" && j.noise == nil {
		return nil, study.Errorf("--noise-error is given, but sigma is not estimated")
	}
	for _, m := range maps {
		if m.path == "" {
			continue
		}
		f, err := j.create(m.path, 1, true)
		if err != nil {
			return nil, err
		}
		writers = append(writers, func(s series.Slice) error { return f.Slice(s.Z, m.of(s)) })
	}
	two := j.Imaginary+j.Phase != ""
	if j.Residual != "" { // before the estimate is changed
		f, err := j.create(j.Residual, j.shape.Volumes, false)
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
			return f.Slice(s.Z, first)
		})
	}
	writers = append(writers, j.magnitudes)
	if j.Out == "" && j.OutSecond == "" {
		return writers, nil
	}
	var files [2]output
	for i, path := range []string{j.Out, j.OutSecond} {
		if path != "" {
			if files[i], err = j.create(path, j.shape.Volumes, false); err != nil {
				return nil, err
			}
		}
	}
	return append(writers, func(s series.Slice) error {
		first, second := j.split(s.Clean, two)
		for i, values := range [][]float64{first, second} {
			if files[i] != nil {
				if err := files[i].Slice(s.Z, values); err != nil {
					return err
				}
			}
		}
		return nil
	}), nil
}

// create begins a file, and checks before that it can be written.
func (j *job) create(path string, volumes int, real bool) (output, error) {
	if err := dataio.CheckWritable(path); err != nil {
		return nil, study.Errorf("%s: cannot be written: %w", path, err)
	}
	f, err := j.from.create(path, volumes, real)
	if err == nil {
		j.files = append(j.files, f)
	}
	return f, err
}

// split is what goes to the one or two files of a series.
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

// magnitudes counts the values of little signal, and corrects them where that is asked for.
func (j *job) magnitudes(s series.Slice) error {
	if j.shape.Complex {
		return nil
	}
	area := j.shape.Image[0] * j.shape.Image[1]
	for i := range area {
		if math.IsNaN(s.DF[i]) {
			continue
		}
		sigma := j.sigma[s.Z*area+i]
		for t, v := range s.Clean[i*j.shape.Volumes:][:j.shape.Volumes] {
			if v < 3*sigma {
				j.weak++
			}
			if j.Rician {
				s.Clean[i*j.shape.Volumes+t] = series.Unbias(v, sigma)
			}
		}
	}
	return nil
}
