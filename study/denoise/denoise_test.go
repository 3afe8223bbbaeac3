package denoise

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/risk/warning"
)

func TestMain(m *testing.M) {
	array.UseNative()
	os.Exit(m.Run())
}

// image is a NIfTI-1 file in the making.
type image struct {
	order    binary.ByteOrder
	dims     []int
	code     uint16 // 4: int16, 16: float32, 32: complex64
	slope    float32
	affineX  float32
	values   []float64
	extended bool
}

// bytes are those of the file. Values are stored as (v - 10)/slope where slope is not 0.
func (m image) bytes() []byte {
	h := make([]byte, 352)
	if m.extended { // an extension of 16 bytes
		h = append(h, 16, 0, 0, 0, 6, 0, 0, 0, 'n', 'o', 't', 'e', 0, 0, 0, 0)
		h[348] = 1
	}
	m.order.PutUint32(h, 348)
	m.order.PutUint16(h[40:], uint16(len(m.dims)))
	for i := range 7 {
		k := 1
		if i < len(m.dims) {
			k = m.dims[i]
		}
		m.order.PutUint16(h[42+2*i:], uint16(k))
	}
	m.order.PutUint16(h[70:], m.code)
	for i, v := range []float32{1, 2, 2, 2.5, 3.2} { // pixdim: the last is the repetition time
		m.order.PutUint32(h[76+4*i:], math.Float32bits(v))
	}
	m.order.PutUint32(h[108:], math.Float32bits(float32(len(h))))
	m.order.PutUint32(h[112:], math.Float32bits(m.slope))
	if m.slope != 0 {
		m.order.PutUint32(h[116:], math.Float32bits(10))
	}
	h[123] = 10 // mm and s
	copy(h[148:], "a scan of nobody")
	m.order.PutUint16(h[254:], 1)
	for i, v := range []float32{2, 0, 0, m.affineX, 0, 2, 0, -20, 0, 0, 2.5, 7} {
		m.order.PutUint32(h[280+4*i:], math.Float32bits(v))
	}
	copy(h[344:], "n+1\x00")
	for _, v := range m.values {
		if m.slope != 0 {
			v = (v - 10) / float64(m.slope)
		}
		if m.code == 4 {
			h = append(h, 0, 0)
			m.order.PutUint16(h[len(h)-2:], uint16(int16(math.Round(v))))
		} else {
			h = append(h, 0, 0, 0, 0)
			m.order.PutUint32(h[len(h)-4:], math.Float32bits(float32(v)))
		}
	}
	return h
}

// scan draws a series of rank two in noise, in the order of a file: x fastest, volumes slowest.
func scan(dims [4]int, sigma float64, seed uint64) []float64 {
	rng := rand.New(rand.NewPCG(seed, 9))
	values := make([]float64, 0, dims[0]*dims[1]*dims[2]*dims[3])
	for t := range dims[3] {
		for z := range dims[2] {
			for y := range dims[1] {
				for x := range dims[0] {
					values = append(values, 100+20*math.Sin(float64(t))*float64(x+z)+15*math.Cos(2*float64(t))*float64(y)+
						sigma*rng.NormFloat64())
				}
			}
		}
	}
	return values
}

func write(t *testing.T, path string, b []byte) string {
	t.Helper()
	if strings.HasSuffix(path, ".gz") {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		w.Write(b)
		w.Close()
		b = z.Bytes()
	}
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNIfTIFilesKeepTheirHeader(t *testing.T) {
	dims := [4]int{9, 8, 5, 12}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		dir := t.TempDir()
		m := image{order: order, dims: dims[:], code: 4, slope: 0.01, values: scan(dims, 5, 1), extended: true}
		in := m.bytes()
		r := Request{Data: write(t, filepath.Join(dir, "y.nii.gz"), in), Patch: "4"}
		r.Out, r.DF, r.Noise = filepath.Join(dir, "x.nii"), filepath.Join(dir, "df.nii.gz"), filepath.Join(dir, "s.nii")
		result, err := Run(context.Background(), r)
		if err != nil {
			t.Fatal(err)
		}
		if s := result.Sigma.Mean; math.Abs(s-5) > 0.25 || result.SURE > 0.3*25*float64(result.Values) {
			t.Errorf("sigma %g, SURE %g of %d values", s, result.SURE, result.Values)
		}
		out, err := os.ReadFile(r.Out)
		if err != nil {
			t.Fatal(err)
		}
		if order.Uint16(out[70:]) != 16 || order.Uint16(out[72:]) != 32 || order.Uint32(out[112:]) != math.Float32bits(1) {
			t.Errorf("type %d of %d bits, slope %x", order.Uint16(out[70:]), order.Uint16(out[72:]), out[112:116])
		}
		for _, part := range [][2]int{{0, 70}, {74, 112}, {120, 368}} { // all but type and scale
			if !bytes.Equal(in[part[0]:part[1]], out[part[0]:part[1]]) {
				t.Errorf("bytes %d to %d of the header have changed", part[0], part[1])
			}
		}
		df, err := dataio.Files{}.OpenNIfTI(r.DF)
		if err != nil {
			t.Fatal(err)
		}
		defer df.Close()
		sum, slice := 0.0, make([]float64, 72)
		for z := range 5 {
			if err := df.Slice(slice, z); err != nil {
				t.Fatal(err)
			}
			for _, v := range slice {
				sum += v
			}
		}
		if df.Volumes != 1 || math.Abs(sum-result.DF) > 1e-5*sum { // float32
			t.Errorf("the map of degrees of freedom sums up to %g, the divergence is %g", sum, result.DF)
		}
	}
}

func TestAComplexSeriesInTwoFilesIsTheOneInOne(t *testing.T) {
	dims := [4]int{6, 6, 3, 10}
	dir := t.TempDir()
	re, im := scan(dims, 5, 1), scan(dims, 5, 2)
	both := make([]float64, 0, 2*len(re))
	magnitude, phase := make([]float64, len(re)), make([]float64, len(re))
	for i := range re {
		both = append(both, re[i], im[i])
		magnitude[i], phase[i] = math.Hypot(re[i], im[i]), math.Atan2(im[i], re[i])
	}
	file := func(name string, code uint16, values []float64) string {
		return write(t, filepath.Join(dir, name), image{order: binary.LittleEndian, dims: dims[:], code: code, values: values}.bytes())
	}
	var all []float64
	for _, r := range []Request{
		{Data: file("c.nii", 32, both)},
		{Data: file("re.nii", 16, re), Imaginary: file("im.nii", 16, im), Outputs: Outputs{OutSecond: filepath.Join(dir, "i.nii")}},
		{Data: file("abs.nii", 16, magnitude), Phase: file("arg.nii", 16, phase)},
	} {
		r.Sigma, r.Patch, r.Out = "5", "3", filepath.Join(dir, "x.nii")
		result, err := Run(context.Background(), r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, result.SURE)
		if !result.Complex || math.Abs(result.SURE-all[0]) > 1e-3*all[0] {
			t.Errorf("complex %v, SURE %v", result.Complex, all)
		}
	}
}

func TestArraysOfAnyAxes(t *testing.T) {
	dims := [4]int{7, 6, 4, 12}
	values := scan(dims, 3, 3)
	dir := t.TempDir()
	first := filepath.Join(dir, "first.npy")
	if err := dataio.WriteNPY(first, dataio.Array{Shape: []int{12, 4, 6, 7}, Data: values}); err != nil {
		t.Fatal(err)
	}
	last := filepath.Join(dir, "last.npy")
	if err := dataio.WriteNPY(last, dataio.Array{Shape: []int{4, 6, 7, 12}, Data: turned(values, 12, 1)}); err != nil {
		t.Fatal(err)
	}
	a, err := Run(context.Background(), Request{Data: first, Patch: "3", Outputs: Outputs{Out: filepath.Join(dir, "a.npy"),
		Risk: filepath.Join(dir, "risk.npy")}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := Run(context.Background(), Request{Data: last, SeriesLast: true, Patch: "3",
		Outputs: Outputs{Out: filepath.Join(dir, "b.npy")}})
	if err != nil {
		t.Fatal(err)
	}
	if a.SURE != b.SURE {
		t.Errorf("SURE %g with the series first, %g with it last", a.SURE, b.SURE)
	}
	x, _ := read(dataio.Files{}, filepath.Join(dir, "a.npy"))
	y, _ := read(dataio.Files{}, filepath.Join(dir, "b.npy"))
	for i, v := range turned(x.Data, 12, 1) {
		if v != y.Data[i] {
			t.Fatalf("entry %d: %g and %g", i, v, y.Data[i])
		}
	}
	if risk, _ := read(dataio.Files{}, filepath.Join(dir, "risk.npy")); len(risk.Shape) != 3 || risk.Shape[2] != 7 {
		t.Errorf("a map has the shape %v", risk.Shape)
	}
	if _, err := json.Marshal(a); err != nil {
		t.Error(err)
	}

	// Errors count voxels as the array does.
	values[((2*4+1)*6+3)*7+5] = math.NaN() // [2, 1, 3, 5] of the array with the series first
	for path, value := range map[string]dataio.Array{
		first: {Shape: []int{12, 4, 6, 7}, Data: values}, last: {Shape: []int{4, 6, 7, 12}, Data: turned(values, 12, 1)},
	} {
		if err := dataio.WriteNPY(path, value); err != nil {
			t.Fatal(err)
		}
		_, err := Run(context.Background(), Request{Data: path, SeriesLast: path == last, Sigma: "3", Patch: "3"})
		if want := path + ": volume 2 holds NaN at [1, 3, 5], expected"; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
}

func TestBadSeriesAreRefused(t *testing.T) {
	dims := [4]int{5, 5, 3, 6}
	dir := t.TempDir()
	le := binary.LittleEndian
	file := func(name string, m image) string { return write(t, filepath.Join(dir, name), m.bytes()) }
	design := func(rows ...string) string {
		return write(t, filepath.Join(dir, rows[0][2:]+strings.Repeat("x", len(rows))+".csv"), []byte(strings.Join(rows, "\n")+"\n"))
	}
	series4 := image{order: le, dims: dims[:], code: 16, values: scan(dims, 3, 3)}
	good := file("y.nii", series4)
	nan := series4
	nan.values = append([]float64(nil), nan.values...)
	nan.values[77] = math.NaN()
	one := image{order: le, dims: dims[:3], code: 16, values: make([]float64, 75)}
	shifted, small := one, one
	shifted.affineX = 5
	small.dims, small.values = []int{5, 5, 2}, make([]float64, 50)
	cut := file("cut.nii.gz", series4)
	b, _ := os.ReadFile(cut)
	os.WriteFile(cut, b[:len(b)/2], 0o666)
	damaged := file("damaged.nii.gz", series4)
	b, _ = os.ReadFile(damaged)
	b[len(b)-6] ^= 1 // of the checksum
	os.WriteFile(damaged, b, 0o666)
	long := image{order: le, dims: []int{5, 5, 3, 6, 2}, code: 16, values: make([]float64, 900)}
	for name, c := range map[string]struct {
		r    Request
		want string
	}{
		"3-D":                  {Request{Data: file("one.nii", one)}, "one volume of 5 x 5 x 3 voxels, expected a series"},
		"5-D":                  {Request{Data: file("five.nii", long)}, "has 5 axes"},
		"NaN":                  {Request{Data: file("nan.nii", nan), Sigma: "3"}, "volume 1 holds NaN at the voxel (2, 0, 0)"},
		"truncated":            {Request{Data: cut}, "cut.nii.gz: is truncated or corrupt"},
		"damaged":              {Request{Data: damaged}, "damaged.nii.gz: is truncated or corrupt"},
		"mask of another size": {Request{Data: good, Mask: file("small.nii", small)}, "has 5 x 5 x 2 voxels, expected 5 x 5 x 3"},
		"map elsewhere":        {Request{Data: good, Sigma: file("shifted.nii", shifted)}, "lies elsewhere in space"},
		"empty mask":           {Request{Data: good, Mask: file("empty.nii", one)}, "is 0 everywhere"},
		"sigma of zeros":       {Request{Data: good, Sigma: file("zero.nii", one)}, "sigma is 0 at the voxel (0, 0, 0)"},
		"sigma negative":       {Request{Data: good, Sigma: "-2"}, "sigma is -2"},
		"patch":                {Request{Data: good, Patch: "3x3"}, "patch is \"3x3\""},
		"patch too large":      {Request{Data: good, Patch: "9x3x3"}, "expected at most 5x5x3"},
		"no such shrinkage":    {Request{Data: good, Shrinkage: "none"}, "optimal, hard or soft"},
		"noise volumes":        {Request{Data: good, NoiseVolumes: "3-6"}, "noise-volumes has \"3-6\", expected volumes as"},
		"all noise":            {Request{Data: good, NoiseVolumes: "0-4"}, "5 of 6 volumes"},
		"two sigmas":           {Request{Data: good, NoiseVolumes: "5", Sigma: "3"}, "found two"},
		"design of rows":       {Request{Data: good, Sigma: "3", Keep: design("1,2", "1,3")}, "has the shape [2 2], expected 6 rows"},
		"design singular":      {Request{Data: good, Sigma: "3", Keep: design("1,2", "1,2", "1,2", "1,2", "1,2", "1,2")}, "column 2"},
		"two parts":            {Request{Data: good, Imaginary: "a", Phase: "b"}, "imaginary and phase"},
		"output of other kind": {Request{Data: good, Outputs: Outputs{Out: filepath.Join(dir, "x.npy")}}, "ends in .nii"},
		"no folder":            {Request{Data: good, Outputs: Outputs{Out: filepath.Join(dir, "no", "x.nii")}}, "does not exist"},
		"no such file":         {Request{Data: filepath.Join(dir, "missing.nii")}, "missing.nii"},
		"constant":             {Request{Data: file("flat.nii", image{order: le, dims: dims[:], code: 16, values: make([]float64, 450)})}, "give its standard deviation"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Run(context.Background(), c.r)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, expected %q", err, c.want)
			}
		})
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*tmp")); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// Volumes of noise alone are left out, and their sigma is that of a scan of them.
func TestNoiseVolumesAreAsAScan(t *testing.T) {
	dims := [4]int{8, 8, 4, 12}
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(4, 4))
	values, noise := scan(dims, 5, 3), make([]float64, 8*8*4*3)
	for i := range noise {
		noise[i] = 5 * rng.NormFloat64()
	}
	file := func(name string, volumes int, values []float64) string {
		return write(t, filepath.Join(dir, name), image{order: binary.LittleEndian, dims: []int{8, 8, 4, volumes}, code: 16,
			values: values}.bytes())
	}
	alone, err := Run(context.Background(), Request{Data: file("y.nii", 12, values), NoiseScan: file("n.nii", 3, noise)})
	if err != nil {
		t.Fatal(err)
	}
	r := Request{Data: file("both.nii", 15, append(values, noise...)), NoiseVolumes: "12-13,14"}
	r.Out = filepath.Join(dir, "x.nii")
	both, err := Run(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if both.SURE != alone.SURE || both.Sigma.Mean != alone.Sigma.Mean || math.Abs(both.Sigma.Mean-5) > 0.3 {
		t.Errorf("SURE %g, of a scan %g; sigma %v and %v", both.SURE, alone.SURE, both.Sigma, alone.Sigma)
	}
	if x, err := (dataio.Files{}).OpenNIfTI(r.Out); err != nil || x.Volumes != 12 {
		t.Errorf("%v: %v", x, err)
	}
}

func TestACancelledRunLeavesNoFile(t *testing.T) {
	dims := [4]int{20, 20, 6, 30}
	dir := t.TempDir()
	data := write(t, filepath.Join(dir, "y.nii"), image{order: binary.LittleEndian, dims: dims[:], code: 16, values: scan(dims, 3, 3)}.bytes())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Run(ctx, Request{Data: data, Sigma: "3", Outputs: Outputs{Out: filepath.Join(dir, "x.nii.gz")}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if all, _ := os.ReadDir(dir); len(all) != 1 {
		t.Errorf("%d files", len(all))
	}
}

func TestMagnitudesAreCorrected(t *testing.T) {
	dims := [4]int{10, 10, 5, 20}
	rng := rand.New(rand.NewPCG(1, 1))
	values := make([]float64, 10*10*5*20)
	for i := range values {
		values[i] = math.Hypot(4+5*rng.NormFloat64(), 5*rng.NormFloat64()) // nu = 4, sigma = 5
	}
	dir := t.TempDir()
	data := write(t, filepath.Join(dir, "y.nii"), image{order: binary.LittleEndian, dims: dims[:], code: 16, values: values}.bytes())
	r := Request{Data: data, Sigma: "5", Outputs: Outputs{Out: filepath.Join(dir, "x.nii")}}
	plain, err := Run(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if len(plain.Warnings) == 0 || !plain.Warnings[0].Is(warning.LowSNR) {
		t.Errorf("warnings %v, expected %s", plain.Warnings, warning.LowSNR.Code)
	}
	r.Rician = true
	if _, err := Run(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	x, err := read(dataio.Files{}, r.Out)
	if err != nil {
		t.Fatal(err)
	}
	check := func(x dataio.Array, within float64) {
		t.Helper()
		mean := 0.0
		for _, v := range x.Data {
			mean += v / float64(len(x.Data))
		}
		if math.Abs(mean-4) > within {
			t.Errorf("mean %g after the correction, expected 4", mean)
		}
	}
	check(x, 0.3)
	r.Coils = 4 // of which noise alone has a mean of 2.74 sigma, more than these magnitudes
	if _, err := Run(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	if zero, err := read(dataio.Files{}, r.Out); err != nil || slices.Max(zero.Data) > 1 {
		t.Errorf("%v, the largest signal %g of magnitudes below the mean of noise of four coils", err, slices.Max(zero.Data))
	}
	r.Coils = 0
	r.Sigma = "" // estimated from magnitudes: about 3.6, the standard deviation at that nu
	result, err := Run(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if x, err = read(dataio.Files{}, r.Out); err != nil {
		t.Fatal(err)
	}
	// Without a correction of sigma the mean is 5.6; near the floor it moves by 20 times the error of sigma.
	if check(x, 1.2); result.Sigma.Mean > 4.3 {
		t.Errorf("sigma %g, estimated from magnitudes", result.Sigma.Mean)
	}
}

// The error of SURE holds that of a sigma that is estimated: with the estimate given as a map SURE is the same, and its
// error smaller by what sigma's changes of SURE.
func TestTheErrorOfSUREHoldsThatOfSigma(t *testing.T) {
	dims := [4]int{8, 8, 4, 20}
	dir := t.TempDir()
	data := write(t, filepath.Join(dir, "y.nii"), image{order: binary.LittleEndian, dims: dims[:], code: 16,
		values: scan(dims, 5, 3)}.bytes())
	r := Request{Data: data, Patch: "3", Return: []string{"noise", "noise_error", "df"}}
	r.Noise = filepath.Join(dir, "sigma.nii")
	a, err := Run(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	want := 0.0
	for i, df := range a.Arrays["df"].Data {
		want += 2 * (20 - 2*df) * a.Arrays["noise"].Data[i] * a.Arrays["noise_error"].Data[i]
	}
	b, err := Run(context.Background(), Request{Data: data, Patch: "3", Sigma: r.Noise})
	if err != nil {
		t.Fatal(err)
	}
	if got := math.Sqrt(a.SUREErr*a.SUREErr - b.SUREErr*b.SUREErr); math.Abs(got-want) > 1e-4*want || math.Abs(a.SURE-b.SURE) > 1e-3*a.SUREErr {
		t.Errorf("SURE %g ± %g, with the map given %g ± %g: by sigma %g, expected %g", a.SURE, a.SUREErr, b.SURE, b.SUREErr, got, want)
	}
}

// An MRtrix image, its values in another order and scaled, gives what the NIfTI file of the same values gives.
func TestAnMRtrixImageIsAsANIfTIFile(t *testing.T) {
	dims := [4]int{6, 5, 4, 12}
	dir := t.TempDir()
	values := scan(dims, 5, 3)
	data := write(t, filepath.Join(dir, "y.nii"), image{order: binary.LittleEndian, dims: dims[:], code: 4, slope: 0.01, values: values}.bytes())
	const header = "mrtrix image\ndim: 6,5,4,12\nvox: 2,2,2.5,3.2\nlayout: -1,+2,+3,+0\ndatatype: Int16BE\nscaling: 10,0.01\n" +
		"transform: 1,0,0,3\ncommand_history: none\nfile: . 300\nEND\n"
	b := append([]byte(header), make([]byte, 300-len(header)+2*len(values))...)
	for i, v := range values {
		x, y, z, k := i%6, i/6%5, i/30%4, i/120
		at := k + 12*((5-x)+6*(y+5*z))
		binary.BigEndian.PutUint16(b[300+2*at:], uint16(int16(math.Round((v-10)/0.01))))
	}
	r := Request{Data: write(t, filepath.Join(dir, "y.mif"), b), Patch: "3"}
	r.Out, r.DF = filepath.Join(dir, "x.mif"), filepath.Join(dir, "df.mif")
	got, err := Run(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Run(context.Background(), Request{Data: data, Patch: "3"})
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(got.SURE-want.SURE) > 1e-5*want.SURE {
		t.Errorf("SURE %g, of the NIfTI file %g", got.SURE, want.SURE)
	}
	again, err := Run(context.Background(), Request{Data: r.Out, Sigma: r.DF, Patch: "3"})
	if err != nil || again.Volumes != 12 {
		t.Errorf("%+v, %v", again, err)
	}
	text, _ := os.ReadFile(r.Out)
	if !strings.Contains(string(text[:300]), "\ncommand_history: none\n") {
		t.Errorf("the header is %q", text[:300])
	}
	r.Out = filepath.Join(dir, "x.nii")
	if _, err := Run(context.Background(), r); err == nil || !strings.Contains(err.Error(), "ends in .mif") {
		t.Errorf("a NIfTI file for an MRtrix image: %v", err)
	}
	if _, err := Run(context.Background(), Request{Data: write(t, filepath.Join(dir, "cut.mif"), b[:900])}); err == nil ||
		!strings.Contains(err.Error(), "900 bytes, its header states 3180") {
		t.Errorf("a truncated image: %v", err)
	}
}
