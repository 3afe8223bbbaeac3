package system

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/solve"
)

// arrowed is D mu_hat of a completion by the factored second derivative in the factors of b. With the terms that A is
// free of it is D - Pi for the D of the whole fit. The arrow knows effects of rows and columns; a constant s, the
// roots of the weights or ones, is added to the D of the fit without it,
//
//	D + r r*/(s* r),   r = s - D s.
type arrowed struct {
	direct
	by    solve.Arrow
	terms linops.Picked
	rest  []float64 // r/(s* r)^{1/2}; nil where no constant is added
}

// Arrow is the system of a completion whose operator picks these entries.
func Arrow(ctx context.Context, dev array.Device, by solve.Arrow, picked linops.Picked) (System, error) {
	d := len(picked.Places)
	s := &arrowed{direct{Base{d: d}}, by, picked, nil}
	diagonal, err := by.Leverages(ctx)
	if err != nil {
		return nil, err
	}
	if picked.Remove != nil && !picked.RowEffects && !picked.ColEffects {
		if err := s.constant(ctx, diagonal); err != nil {
			return nil, err
		}
	}
	if picked.Remove != nil {
		floats.Sub(diagonal, picked.Diagonal)
	}
	trace := floats.Sum(diagonal)
	frobenius2, err := s.squares(ctx, dev)
	if err != nil {
		return nil, err
	}
	s.closed = Exactly(trace, frobenius2)
	s.closed.Diagonal = func() ([]float64, error) { return diagonal, nil }
	return s, nil
}

func (s *arrowed) constant(ctx context.Context, diagonal []float64) error {
	root, image := make([]float64, s.d), make([]float64, s.d)
	for i := range root {
		if root[i] = 1; s.terms.Weights != nil {
			root[i] = math.Sqrt(s.terms.Weights[i])
		}
	}
	if err := s.by.Images(ctx, image, root, 1); err != nil {
		return err
	}
	s.rest = floats.SubTo(image, root, image)
	if left := floats.Dot(root, s.rest); left > 0 {
		floats.Scale(1/math.Sqrt(left), s.rest)
	}
	for i, v := range s.rest {
		diagonal[i] += v * v
	}
	return nil
}

const (
	// squaresFlops is the number of operations, a few thousandths of a second's work, up to which ||D mu_hat||_F^2 is
	// computed. Beyond, it comes from images of random signs, of which fewSquares or more, up to mostSquares, have a
	// standard error of squaresShare of it. The number serves error bars alone.
	squaresFlops            = 2e7
	fewSquares, mostSquares = 4, 24
	squaresShare            = 0.02
	squaresSeed             = 0x6172726f77
	squaresBytes            = 1 << 27
)

// squares is ||D mu_hat||_F^2, or the mean of ||D w||^2 over random signs w, of which one has a variance of at most
// 2 tr D^4 <= 2 tr D^2.
func (s *arrowed) squares(ctx context.Context, dev array.Device) (float64, error) {
	if s.by.SquaresFlops() <= squaresFlops {
		return s.exactSquares(ctx)
	}
	rng := rand.New(rand.NewPCG(squaresSeed, uint64(s.d)))
	count, first := fewSquares, 0
	sum, most := 0.0, max(1, int(squaresBytes/s.ProbeBytes()))
	for first < count {
		some := min(most, count-first)
		host := lists.Make(some*s.d, func(int) float64 { return float64(1 - 2*int(rng.Uint64()&1)) })
		squares := make([]float64, some)
		w := dev.Put(host, some, s.d)
		err := s.Apply(ctx, w, w, Goal{}, nil)
		if err == nil {
			dev.Dot(squares, w, w)
		}
		if w.Free(); err != nil {
			return 0, err
		}
		sum += floats.Sum(squares)
		if first += some; sum > 0 {
			count = max(count, min(mostSquares, int(2/(squaresShare*squaresShare)/(sum/float64(first)))))
		}
	}
	return sum / float64(count), dev.Err()
}

// exactSquares is that of D + v v* - Pi: D is the identity on the range of Pi.
func (s *arrowed) exactSquares(ctx context.Context) (float64, error) {
	sum, err := s.by.Squares(ctx)
	if err == nil && s.rest != nil {
		image, square := make([]float64, s.d), floats.Dot(s.rest, s.rest)
		err = s.by.Images(ctx, image, s.rest, 1)
		sum += 2*floats.Dot(s.rest, image) + square*square
	}
	if s.terms.Remove != nil {
		sum -= floats.Sum(s.terms.Diagonal)
	}
	return max(sum, 0), err
}

func (s *arrowed) Apply(ctx context.Context, dst, w array.Batch, _ Goal, left []float64) error {
	clear(left)
	dev, host := w.Device(), w.ToHost()
	image := make([]float64, len(host))
	if err := s.by.Images(ctx, image, host, w.K()); err != nil {
		return err
	}
	if s.rest != nil {
		for i := range w.K() {
			from, to := i*s.d, (i+1)*s.d
			floats.AddScaled(image[from:to], floats.Dot(s.rest, host[from:to]), s.rest)
		}
	}
	if s.terms.Remove == nil {
		dev.Upload(dst, image)
		return dev.Err()
	}
	fit := dev.Alloc(w.K(), s.d) // w - Pi w
	defer fit.Free()
	dev.Copy(fit, w)
	s.terms.Remove(fit)
	floats.Sub(image, host)
	dev.Upload(dst, image)
	dev.Lin(dst, 1, dst, 1, fit)
	return dev.Err()
}

func (s *arrowed) Bytes() int64      { return s.by.Bytes() + 16*int64(s.d) }
func (s *arrowed) ProbeBytes() int64 { return s.by.ImageBytes() + 24*int64(s.d) }
