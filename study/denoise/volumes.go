package denoise

import (
	"fmt"
	"strconv"
	"strings"

	"surepipe/series"
	"surepipe/study"
)

// chosen are some volumes of a series.
type chosen struct {
	input
	volumes []int
	all     []float64
}

func (c *chosen) Shape() series.Shape {
	s := c.input.Shape()
	s.Volumes = len(c.volumes)
	return s
}

func (c *chosen) Slice(dst []float64, z int) error {
	s := c.input.Shape()
	parts := s.Parts()
	if c.all == nil {
		c.all = make([]float64, s.Image[0]*s.Image[1]*s.Volumes*parts)
	}
	if err := c.input.Slice(c.all, z); err != nil {
		return err
	}
	for i := range s.Image[0] * s.Image[1] {
		for k, t := range c.volumes {
			copy(dst[(i*len(c.volumes)+k)*parts:][:parts], c.all[(i*s.Volumes+t)*parts:])
		}
	}
	return nil
}

// separate takes the volumes of noise alone from the series.
func (j *job) separate() error {
	if j.NoiseVolumes == "" {
		return nil
	}
	n := j.from.Shape().Volumes
	bad := func(found string) error {
		return study.Errorf("--noise-volumes has %.40q, expected volumes as 60-63,70, of 0 to %d", found, n-1)
	}
	noise := make([]bool, n)
	for part := range strings.SplitSeq(j.NoiseVolumes, ",") {
		first, last, found := strings.Cut(part, "-")
		if !found {
			last = first
		}
		a, err := strconv.Atoi(first)
		b, other := strconv.Atoi(last)
		if err != nil || other != nil || a < 0 || b < a || b >= n {
			return bad(part)
		}
		for t := a; t <= b; t++ {
			noise[t] = true
		}
	}
	var of [2][]int
	for t, silent := range noise {
		if silent {
			of[1] = append(of[1], t)
		} else {
			of[0] = append(of[0], t)
		}
	}
	if len(of[0]) < 2 {
		return bad(fmt.Sprintf("%d of %d volumes", len(of[1]), n))
	}
	j.silent = &chosen{input: j.from, volumes: of[1]}
	j.from = &chosen{input: j.from, volumes: of[0]}
	return nil
}
