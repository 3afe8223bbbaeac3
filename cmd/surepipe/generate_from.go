package main

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/spf13/cobra"

	"surepipe/internal/dataio"
	"surepipe/internal/design"
	"surepipe/internal/lists"
	"surepipe/study"
	"surepipe/study/draw"
)

func (f *generateFlags) addNoise(cmd *cobra.Command) error {
	for _, name := range append([]string{"problem", "nonzeros", "float32"}, sizeNames...) {
		if cmd.Flags().Changed(name) {
			return study.Errorf("--%s does not go with --from, which takes the file as it is", name)
		}
	}
	switch {
	case f.from == "":
		return study.Errorf("--from is missing: --sigma adds noise to the file of --from")
	case !(f.sigma > 0) || math.IsInf(f.sigma, 0):
		return study.Errorf("--sigma is %g, expected the noise's standard deviation, a positive number", f.sigma)
	case f.out == "":
		return study.Errorf("--out is missing, expected the file to write")
	}
	format, err := outFormat(f.out)
	if err != nil {
		return err
	}
	if format.Lossy {
		kept := slices.DeleteFunc(dataio.Written(), func(f dataio.Format) bool { return f.Lossy })
		return study.Errorf("--out is %q, but this format's compression removes noise: expected %s", f.out,
			dataio.Extensions(kept))
	}
	mu, err := readImage(f.from)
	if err != nil {
		return err
	}
	mu.Name = "mu"
	if err := draw.CheckShape(format, f.out, f.from, mu.Shape, false, false); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(f.seed, 0))
	y := dataio.Array{Name: "y", Shape: mu.Shape,
		Data: lists.Map(mu.Data, func(v float64) float64 { return v + f.sigma*rng.NormFloat64() })}
	clamped := 0
	if format.WriteArrays != nil {
		err = dataio.WriteNPZ(f.out, y, mu,
			dataio.Array{Name: "sigma2", Shape: []int{}, Data: []float64{f.sigma * f.sigma}})
	} else {
		clamped, err = format.WriteArray(f.out, y, format.Best, draw.EightBit(y.Data))
	}
	if err != nil {
		return err
	}
	if clamped > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(),
			"surepipe: %s, where the noise is not normal: a .tif or .npy file keeps it\n",
			draw.ClampedText(f.out, clamped, len(y.Data)))
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: wrote %s, with noise of sigma2 = %.6g\n", f.out, f.sigma*f.sigma)
	return nil
}

// readImage reads a file's only array, integers of a numpy file as an image.
func readImage(path string) (dataio.Array, error) {
	a, err := dataio.ReadOne(path, dataio.TableOptions{}, func(s *dataio.Set, name string) (dataio.Array, error) {
		a, err := s.Floats(name)
		if err == nil {
			err = cmp.Or(a.CheckFinite(), design.CheckArray(a))
		}
		s.Image(&a)
		return a, err
	})
	if err != nil {
		return a, study.Bad(err)
	}
	return a, nil
}
