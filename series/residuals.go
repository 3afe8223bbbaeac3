package series

import (
	"math"
	"slices"

	"surepipe/internal/lists"
	"surepipe/internal/noise"
)

const (
	// spikeErrors is how many standard deviations a spike stands out, and mostAtVoxel and mostInVolume the shares of a
	// voxel's volumes, and of a volume's voxels, up to which what stands out are spikes.
	spikeErrors               = 6
	mostAtVoxel, mostInVolume = 0.05, 0.05
	// leastUneven is the ratio of variances from which the noise of volumes, or of places, is uneven. An estimate of
	// more than mostTaken of the degrees of freedom may take unequal parts of those of the volumes.
	leastUneven, mostTaken = 1.5, 1. / 3
)

// residuals are what says that noise is not white, not of the variance it is taken for, or has outliers: of what was
// removed, and of the data.
type residuals struct {
	serial    float64 // the sum of the voxels' correlations between volumes that follow each other
	courses   int
	places    [3][]int  // of the voxels, along the axes
	spreads   []float64 // their standard deviations over sigma
	volumes   []int     // of the standard deviations of a row of voxels
	byVolume  []float64
	spikes    []int // by volume
	energies  []float64
	perVolume []int // voxels that were looked at
}

// watch adds a slice: what was removed of its voxels, and its data.
func (r *residuals) watch(d *denoiser, s Slice, y []float64) {
	nx, n, parts, course := d.image[0], d.shape.Volumes, d.shape.Parts(), d.shape.course()
	sigma := d.sigma[s.Z*d.shape.area():]
	rows := make([]float64, n)
	known := 0
	for i := range d.shape.area() {
		if i%nx == 0 {
			known = 0
			clear(rows)
		}
		if !math.IsNaN(s.DF[i]) {
			known++
			squares, products := 0.0, 0.0
			e := func(t int) float64 { return y[i*course+t] - s.Clean[i*course+t] }
			for t := range course {
				v := e(t)
				squares += v * v
				rows[t/parts] += v * v / (sigma[i] * sigma[i])
				if t >= parts {
					products += v * e(t-parts)
				}
			}
			if left := float64(course) - s.DF[i]; squares > 0 && left > 0 {
				r.serial += products / squares
				r.courses++
				r.spreads = append(r.spreads, math.Sqrt(squares/left)/sigma[i])
				for axis, at := range [3]int{i % nx, i / nx, s.Z} {
					r.places[axis] = append(r.places[axis], at)
				}
			}
		}
		if (i+1)%nx == 0 && known > 0 {
			for t, v := range rows {
				r.volumes, r.byVolume = append(r.volumes, t), append(r.byVolume, math.Sqrt(v/float64(known*parts)))
			}
		}
	}
	r.watchSpikes(d, s, y)
}

// watchSpikes counts the values that stand out from those of the neighbouring voxels by far more than the voxel does at
// most volumes.
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
	if n := float64(r.courses); inTime && n > 0 {
		t.Serial, t.SerialStdErr = r.serial/n, 1/math.Sqrt(n*float64(course))
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
	if inTime && t.DF < mostTaken*float64(t.Values) {
		all = append(all, noise.UnevenSpreads(r.byVolume, 1,
			slices.Values([]noise.Grouping{noise.ByPlaces("volume", r.volumes, volumes)})))
	}
	for _, u := range all {
		if u.Sure() && u.Greatest > leastUneven*u.Least {
			t.UnevenBy, t.UnevenRatio, t.LeastAt, t.GreatestAt = u.By, u.Greatest/u.Least, u.LeastAt, u.GreatestAt
		}
	}
}
