package series

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/lists"
	"surepipe/internal/noise"
)

const (
	// spikeErrors is how many standard deviations a spike stands out, and mostAtVoxel and mostInVolume the shares of a
	// voxel's volumes, and of a volume's voxels, up to which what stands out are spikes.
	spikeErrors               = 6
	mostAtVoxel, mostInVolume = 0.05, 0.05
	// leastUneven is the ratio of variances from which the noise of volumes, or of places, is uneven.
	leastUneven = 1.5
	// mostCourses is about the number of voxels whose courses are kept, and sharedVoxels the factor by which
	// differences of voxels from their neighbours, which share voxels, widen errors.
	mostCourses, sharedVoxels = 1 << 12, 1.5
)

// residuals are what says that noise is not white, not of the variance it is taken for, or has outliers: of what was
// removed, and of the data.
type residuals struct {
	places    [3][]int    // of the voxels, along the axes
	spreads   []float64   // the standard deviations of what was removed, over sigma
	courses   [][]float64 // of some voxels, less those of their neighbours, over the deviation of white noise
	looked    int
	spikes    []int // by volume
	energies  []float64
	perVolume []int // voxels that were looked at
}

// watch adds a slice: what was removed of its voxels, and its data.
func (r *residuals) watch(d *denoiser, s Slice, y []float64) {
	nx, course := d.image[0], d.shape.course()
	sigma := d.sigma[s.Z*d.shape.area():]
	for i := range d.shape.area() {
		squares := 0.0
		for t := range course {
			v := y[i*course+t] - s.Clean[i*course+t]
			squares += v * v
		}
		if left := float64(course) - s.DF[i]; squares > 0 && left > 0 { // it is NaN outside of the mask
			r.spreads = append(r.spreads, math.Sqrt(squares/left)/sigma[i])
			for axis, at := range [3]int{i % nx, i / nx, s.Z} {
				r.places[axis] = append(r.places[axis], at)
			}
		}
	}
	r.watchSpikes(d, s, y)
}

// watchSpikes looks at what voxels differ by from the mean of their neighbours, which is noise where the signal is
// smooth over space, whatever the estimate took of it: its correlation between volumes that follow each other, and the
// values that are far greater than those of the voxel at most volumes.
func (r *residuals) watchSpikes(d *denoiser, s Slice, y []float64) {
	nx, n, parts, course, area := d.image[0], d.shape.Volumes, d.shape.Parts(), d.shape.course(), d.shape.area()
	if r.spikes == nil {
		r.spikes, r.energies, r.perVolume = make([]int, n), make([]float64, n), make([]int, n)
	}
	apart, scratch := make([]float64, course), make([]float64, course)
	for i := range area {
		if math.IsNaN(s.DF[i]) {
			continue
		}
		neighbours := slices.DeleteFunc([]int{i - 1, i + 1, i - nx, i + nx}, func(j int) bool {
			return j < 0 || j >= area || (j == i-1 || j == i+1) && j/nx != i/nx || math.IsNaN(s.DF[j])
		})
		if len(neighbours) == 0 {
			continue
		}
		k, mean, most := float64(len(neighbours)), 0.0, 0.0
		for t := range course {
			apart[t] = y[i*course+t]
			for _, j := range neighbours {
				apart[t] -= y[j*course+t] / k
			}
			mean += apart[t] / float64(course)
			r.perVolume[t/parts]++
		}
		for _, v := range apart {
			most = max(most, math.Abs(v-mean))
		}
		white := d.sigma[s.Z*area+i] * math.Sqrt(1+1/k)
		if r.looked++; r.looked%(1+area*d.image[2]/mostCourses) == 0 {
			r.courses = append(r.courses, lists.Map(apart, func(v float64) float64 { return (v - mean) / white }))
		}
		if most < spikeErrors/2*white*math.Sqrt2 {
			continue // the median is near the mean
		}
		copy(scratch, apart)
		middle := lists.Smallest(scratch, course/2)
		for t, v := range apart {
			apart[t] = math.Abs(v - middle)
		}
		copy(scratch, apart)
		scale := max(white, lists.Smallest(scratch, course/2)*1.4826)
		var at []int
		for t, v := range apart {
			if v > spikeErrors*scale {
				at = append(at, t)
			}
		}
		if float64(len(at)) > max(1, mostAtVoxel*float64(course)) {
			continue
		}
		for _, t := range at {
			r.spikes[t/parts]++
			r.energies[t/parts] += apart[t] * apart[t] / (scale * scale)
		}
	}
}

// sum sets what is known of them in the summary. inTime says that volumes are those of the data, and no combinations.
func (r *residuals) sum(t *Summary, volumes, course int, inTime bool) {
	quiet, parts := r.quiet(), course/volumes
	if inTime {
		t.Serial, t.SerialStdErr = serial(quiet, parts)
	}
	looked, energy := 0, 0.0
	for v, n := range r.spikes {
		if looked += r.perVolume[v]; inTime && float64(n) <= mostInVolume*float64(r.perVolume[v]) {
			t.Spikes += n
			energy += r.energies[v]
		}
	}
	if t.SpikeShare = energy / float64(max(looked, 1)); t.SpikeShare < noise.LeastBias(max(looked, 1)) {
		t.Spikes, t.SpikeShare = 0, 0
	}
	axes := [3]string{"x", "y", "z"}
	along := func(yield func(noise.Grouping) bool) {
		for axis, name := range axes {
			var g noise.Grouping
			g.Fifths(name, lists.Map(r.places[axis], func(at int) float64 { return float64(at) }))
			if !yield(g) {
				return
			}
		}
	}
	all := []noise.Uneven{noise.UnevenSpreads(r.spreads, len(axes), along)}
	if inTime {
		var at []int
		var sizes []float64
		for _, c := range quiet {
			for k, v := range c {
				at, sizes = append(at, k/parts), append(sizes, math.Abs(v))
			}
		}
		all = append(all, noise.UnevenSpreads(sizes, 1,
			slices.Values([]noise.Grouping{noise.ByPlaces("volume", at, volumes)})))
	}
	for _, u := range all {
		if u.Sure() && u.Greatest > leastUneven*u.Least {
			t.UnevenBy, t.UnevenRatio, t.LeastAt, t.GreatestAt = u.By, u.Greatest/u.Least, u.LeastAt, u.GreatestAt
		}
	}
}

// quiet are the courses of least energy, a quarter: edges that move are in others.
func (r *residuals) quiet() [][]float64 {
	energy := func(c []float64) float64 { return floats.Dot(c, c) }
	slices.SortFunc(r.courses, func(a, b []float64) int { return cmp.Compare(energy(a), energy(b)) })
	return r.courses[:(len(r.courses)+3)/4]
}

// serial is the mean correlation of courses about their means between volumes that follow each other, of which white
// noise has 0, and its standard error.
func serial(courses [][]float64, parts int) (mean, stdErr float64) {
	n := 0.0
	for _, c := range courses {
		if squares := floats.Dot(c, c); squares > 0 {
			mean += floats.Dot(c[parts:], c[:len(c)-parts]) / squares
			n++
		}
	}
	if n == 0 {
		return 0, 0
	}
	course := float64(len(courses[0]))
	return mean/n + float64(parts)/course, sharedVoxels / math.Sqrt(n*course)
}
