package series

import "math"

// finish divides the sums of slice z by their weights, and adds what they say to the summary. The slice's values are
// in the slab still.
func (d *denoiser) finish(z int) (Slice, error) {
	s, y := d.sums[z], d.slices[z]
	delete(d.sums, z)
	area, course := d.shape.area(), d.shape.course()
	out := Slice{Z: z, Clean: s.clean, DF: s.df, Rank: s.rank, Risk: make([]float64, area),
		Removed: make([]float64, area)}
	for i := range area {
		values, clean := y[i*course:][:course], s.clean[i*course:][:course]
		weight := s.weight[i]
		if weight == 0 {
			copy(clean, values)
			out.DF[i], out.Risk[i], out.Rank[i] = math.NaN(), math.NaN(), math.NaN()
			continue
		}
		out.DF[i] /= weight
		out.Rank[i] /= weight
		sigma := d.sigma[z*area+i]
		residual := 0.0
		for t, v := range values {
			clean[t] /= weight
			e := (v - clean[t]) / sigma
			residual += e * e
		}
		out.Risk[i] = sigma * sigma * (residual - float64(course) + 2*out.DF[i])
		d.count(out, i, s.choice[i]/weight, sigma, residual)
	}
	d.correlate(out, y)
	d.watched.watch(d, out, y)
	if d.kept == nil {
		return out, nil
	}
	df, risk, err := d.kept.restore(&out, d.sigma[z*area:][:area])
	d.total.DF += df
	d.total.SURE += risk
	d.total.Variance += risk
	d.total.Values += int(df)
	return out, err
}

func (d *denoiser) count(s Slice, i int, multiple, sigma, residual float64) {
	t, course := &d.total, d.shape.course()
	t.Voxels++
	t.Values += course
	t.DF += s.DF[i]
	t.SURE += s.Risk[i]
	t.Rank += s.Rank[i]
	t.Multiple += multiple
	t.Variance += float64(course) * sigma * sigma
	// Bellec and Zhang (2021), with the degrees of freedom in the place of ||D mu_hat||_F^2, which they are not
	// less than where the derivative's eigenvalues are in [0, 1].
	d.sure2 += math.Pow(sigma, 4) * max(4*residual+4*s.DF[i]-2*float64(course), 0)
}

// correlate sets s.Removed: the correlation of the residuals of a voxel with those of its neighbours along x and y.
func (d *denoiser) correlate(s Slice, y []float64) {
	nx, area, course := d.image[0], d.shape.area(), d.shape.course()
	norms, counts := make([]float64, area), make([]int, area)
	product := func(i, j int) (sum float64) {
		a, b := y[i*course:][:course], y[j*course:][:course]
		ca, cb := s.Clean[i*course:][:course], s.Clean[j*course:][:course]
		for t, v := range a {
			sum += (v - ca[t]) * (b[t] - cb[t])
		}
		return sum
	}
	denoised := func(i int) bool { return !math.IsNaN(s.DF[i]) }
	for i := range area {
		if denoised(i) {
			norms[i] = math.Sqrt(product(i, i))
		}
	}
	for i := range area {
		for _, j := range [2]int{i + 1, i + nx} {
			if j >= area || j == i+1 && j%nx == 0 || norms[i] == 0 || norms[j] == 0 {
				continue
			}
			r := product(i, j) / (norms[i] * norms[j])
			s.Removed[i] += r
			s.Removed[j] += r
			counts[i]++
			counts[j]++
			d.total.Removed += r
			d.pairs++
		}
	}
	for i, n := range counts {
		if s.Removed[i] /= float64(n); n == 0 {
			s.Removed[i] = math.NaN()
		}
	}
}

func (d *denoiser) summary() Summary {
	t := d.total
	t.Options, t.Patch, t.Stride = d.o, d.o.Patch, d.o.Stride
	t.Patches = len(d.zs) * len(starts(d.image[1], t.Patch[1], t.Stride[1])) *
		len(starts(d.image[0], t.Patch[0], t.Stride[0]))
	n := float64(t.Voxels)
	t.Rank /= n
	t.Multiple /= n
	t.SUREStdErr = math.Sqrt(d.sure2)
	d.watched.sum(&t, d.shape.Volumes, d.shape.course(), d.kept == nil)
	t.Removed /= float64(d.pairs)
	t.RemovedStdErr = 1 / math.Sqrt(float64(d.pairs)*float64(d.shape.course()))
	return t
}
