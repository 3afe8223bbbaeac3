package study

import (
	"context"
	"slices"
	"sync"

	"surepipe/pipeline"
)

// Look is what a page shows of a fit besides its numbers, small enough for a line of a file.
type Look struct {
	// Fit is mu_hat, or the matrix of a completion; Signal is the signal where that is not mu_hat.
	Fit    *Picture `json:"fit,omitempty"`
	Signal *Picture `json:"signal,omitempty"`
	// Data is y, in the form of Fit. All points share it: the first of each chain of warm starts has it.
	Data *Picture `json:"data,omitempty"`
	// Correlation is the autocorrelation of the residual y - mu_hat.
	Correlation *Correlation `json:"correlation,omitempty"`
	// Coefficients are those that are not 0, without errors, and CoefficientsLeftOut the number of smaller ones that
	// are not among them.
	Coefficients        []Coefficient `json:"coefficients,omitempty"`
	CoefficientsLeftOut int           `json:"coefficients_left_out,omitempty"`
}

// Picture is an array in few numbers.
type Picture struct {
	// Kind is image, matrix, sequence or rows (of a table), and Shape (rows, columns), (rows, columns, 3) or (length).
	Kind  string `json:"kind"`
	Shape []int  `json:"shape"`
	// Means is the side of the blocks of which a value is the mean, and Every k says that of k rows and columns one is
	// there: 1 for all that there is.
	Means int `json:"means,omitempty"`
	Every int `json:"every,omitempty"`
	// Low and High are the values of the codes 0 and Codes - 1. What is beyond has the code of the end, and the code
	// Codes stands for a value that is missing.
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Codes int     `json:"codes"`
	// Pixels are the codes, row by row, compressed (zlib): bytes, or where Codes exceeds 255 first the low bytes of all
	// and then the high ones.
	Pixels []byte `json:"pixels"`
}

// Correlation is that of an array with itself, at the lags from -L to L in both directions, row by row, or of a sequence
// at the lags from 0 to L.
type Correlation struct {
	Shape  []int     `json:"shape"`
	Values []float64 `json:"values"`
	// Of is the number of values: the correlations of white noise have the standard deviation 1/sqrt(Of).
	Of int `json:"of"`
}

// looks are those of points that are computed, until their lines are written. Points end in any order.
type looks struct {
	mu   sync.Mutex
	made map[int]*Look
}

// follow makes a sweep keep what its Look makes of each new point.
func (l *looks) follow(s *Sweep) {
	if s.Look == nil {
		return
	}
	l.made = map[int]*Look{}
	s.Options.Observe = func(_ context.Context, e pipeline.Event) {
		if e.Risk == nil {
			return
		}
		look := s.Look(*e.Risk)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.made[e.Sample] = look
	}
}

// take is the look of a point, nil for none: with the data where it begins a chain.
func (l *looks) take(s *Sweep, point int) *Look {
	l.mu.Lock()
	defer l.mu.Unlock()
	look := l.made[point]
	delete(l.made, point)
	if look != nil && !slices.Contains(s.Header.Chains(), point) {
		look.Data = nil
	}
	return look
}
