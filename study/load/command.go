package load

import (
	"fmt"
	"slices"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/design"
	"surepipe/study"
)

// readExec reads y, and mu and sigma2 where there are any. With samples y may be missing where there
// is mu, or be a stack of samples of mu's shape. A sample that is given is y.
func (f *Source) readExec(sample *dataio.Array, samples bool) (data Contents, err error) {
	arrays := map[string]dataio.Array{}
	for _, source := range []struct{ flag, path, name string }{{"data", f.Data, "y"}, {"y", f.Y, "y"},
		{"mu", f.Mu, "mu"}} {
		if source.path == "" {
			continue
		}
		if _, twice := arrays[source.name]; twice && len(arrays) == 1 {
			return data, study.Errorf("--data is %q and %s %q: both hold %s, expected one of them", f.Data,
				study.Option(source.flag), source.path, source.name)
		}
		unread, err := f.readNamed(source.path, source.name, source.flag == "data", arrays)
		if err != nil {
			return data, study.Errorf("%s: %w", study.Option(source.flag), err)
		}
		if source.flag == "data" {
			data.Ignored = unread
		}
	}
	y, ok := arrays["y"]
	mu, known := arrays["mu"]
	switch {
	case sample != nil:
		y, ok = *sample, true
	case samples && !known:
		return data, study.Errorf("%s: array \"mu\" is missing, expected the mean to simulate samples around, or "+
			"--y with a stack of samples (N x ...)", f.Name())
	case samples && !ok:
		y, ok, data.Simulated = mu, true, true
	case samples && len(y.Shape) > 1 && slices.Equal(y.Shape[1:], mu.Shape):
		for one := range slices.Chunk(y.Data, len(mu.Data)) {
			data.Stack = append(data.Stack, one)
		}
		y.Data, y.Shape = data.Stack[0], mu.Shape
	}
	if !ok {
		return data, study.Errorf("%s: array \"y\" is missing, expected the observations, of any shape",
			f.Name())
	}
	data.Y, data.YShape = y.Data, y.Shape
	if known {
		if !slices.Equal(mu.Shape, y.Shape) {
			return data, study.Errorf("%s: array \"mu\" has shape %s, expected %s, as y has",
				f.Name(), ndarray.ShapeString(mu.Shape), ndarray.ShapeString(y.Shape))
		}
		data.Mu = mu.Data
	}
	if sigma2, ok := arrays["sigma2"]; ok {
		data.Sigma2 = &sigma2.Data[0]
	}
	return data, nil
}

// readNamed adds the array of a file: its only one, or that of the name, and with others also mu and
// sigma2 of a .npz archive; unread are its other arrays.
func (f *Source) readNamed(path, name string, others bool, to map[string]dataio.Array) (unread []string, err error) {
	set, err := dataio.OpenAs(path, dataio.TableOptions{Files: f.files()})
	if err != nil {
		return nil, err
	}
	defer set.Close()
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}()
	array, err := set.Find(name)
	if some := others && set.Archive() && len(set.Names()) > 1; err != nil && !some {
		return nil, err
	}
	if array != "" {
		a, err := set.Floats(array)
		if err == nil {
			err = design.CheckArray(a)
		}
		if err != nil {
			return nil, err
		}
		a.Name = name
		to[name] = set.Vector(a)
	}
	if !others || array != "" && array != name {
		return nil, nil
	}
	if set.Has("mu") {
		if to["mu"], err = set.Floats("mu"); err != nil {
			return nil, err
		}
	}
	if set.Has("sigma2") {
		v, err := set.Scalar("sigma2")
		if err != nil {
			return nil, err
		}
		to["sigma2"] = dataio.Array{Name: "sigma2", Data: []float64{v}}
	}
	return set.Unread(), nil
}
