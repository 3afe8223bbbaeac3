package vjp

import (
	"context"
	"math"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/linops"
	"surepipe/solve"
	"surepipe/vjp/system"
)

// The solve of a problem with r(K b) may end before its solution is certified ([Effort]). With the error e
// of mu_hat by the duality gap, and the divergence D, the divergence is estimated to change yet by
//
//	m + spread sqrt(m),    m = c (e/sigma) sqrt(D) sqrt(e/(sigma sqrt(d))),    c = unsettledShare,
//
// and SURE by 2 sigma2 times that. sigma2 times a change of the divergence is the mean of <noise, change of mu_hat>,
// where the noise has about the length sigma sqrt(D) in the directions in which mu_hat moves; and the smaller the gap,
// the smaller a part of it is an error of mu_hat. The constants are those seen on images, where directions settle one
// by one: TestEstimatedChangeHolds of package pipeline. The directions are those of K b. Where b is known through A
// alone it is less accurate than mu_hat, and what is said of such a solve is the change with c = unsettledThrough.
const (
	unsettledShare   = 4
	unsettledThrough = 32
	spread           = 3
)

// enough is the rule of such a solve. SURE may still change by a share of its own error ([enough.own]), or of
// the difference to the solve's start with its error, 2 sigma sqrt(||A (b - b_0)||^2 + sigma2 ||D - D_0||_F^2),
// whichever is less.
type enough struct {
	share, sigma, d float64
	p               Problem
	start           array.Batch // b_0; zero for none
	before          solve.Compared
	path            *Path
	rounds          int
	told            bool // the path has been told of this solve
}

// The divergence of a first solve is guessed to be d/firstGuess, and to grow by growth from one solve to the next, in
// which what is allowed may fall by fallsBy, as from one attempt to the next; mostRounds bounds the attempts until a
// solution is certified.
const (
	firstGuess = 4
	growth     = 1.5
	fallsBy    = 0.8
	mostRounds = 4
)

// newEnough is the rule of a solve, nil where its solution is to be certified. It sets the error to which it goes.
func (s *solver) newEnough(y array.Batch, from *From) *enough {
	sigma, d := math.Sqrt(s.o.Sigma2), float64(y.N())
	if !(from.Effort.Share > 0) || s.p.K == nil || s.p.Loss != nil || !(sigma > 0) || s.o.Derivative == None {
		return nil
	}
	e := &enough{share: from.Effort.Share, sigma: sigma, d: d, p: s.p, start: from.B, path: from.Path}
	if from.Path != nil {
		e.before, from.Path.Before = from.Path.Before, solve.Compared{}
	}
	allowed, degrees := e.own(e.before.RSS), d/firstGuess
	if b := e.before; b.Allowed > 0 {
		allowed, degrees = fallsBy*math.Min(allowed, b.Allowed), math.Min(growth*b.Degrees, d)
	}
	from.Effort.Error = e.errorFor(allowed, degrees)
	return e
}

// own is the change that SURE's own error allows, with its part of the misfit: E (SURE - loss)^2 is about
// 4 sigma2 ||A b - y||^2 - 2 sigma2^2 d, and no less than 2 sigma2^2 d near the truth.
func (e *enough) own(rss float64) float64 {
	sigma2 := e.sigma * e.sigma
	return e.share * math.Sqrt(math.Max(2*sigma2*sigma2*e.d, 4*sigma2*rss-2*sigma2*sigma2*e.d))
}

// left is the estimate of the change to come with the constant c.
func (e *enough) left(c, bound, degrees float64) float64 {
	m := c * e.unit(degrees) * math.Pow(bound, 1.5)
	return 2 * e.sigma * e.sigma * (m + spread*math.Sqrt(m))
}

// errorFor is the bound at which left is so small with unsettledShare.
func (e *enough) errorFor(left, degrees float64) float64 {
	root := (math.Sqrt(spread*spread+2*left/(e.sigma*e.sigma)) - spread) / 2
	return math.Pow(root*root/(unsettledShare*e.unit(degrees)), 2.0/3)
}

func (e *enough) unit(degrees float64) float64 {
	return math.Sqrt(math.Max(degrees, 1)/(e.sigma*math.Sqrt(e.d))) / e.sigma
}

// tooRough reports that a solution is not accurate enough to be compared, and sets the effort of the next attempt. Else
// it sets the change that is estimated to come, and what the path says to the next solve.
func (e *enough) tooRough(ctx context.Context, sol *solve.Solution, l *linearization, from *From) (bool, error) {
	now := solve.Compared{}
	var err error
	var images array.Batch
	if now.Degrees, images, err = l.degrees(ctx, sol.At.Y); err != nil {
		return false, err
	}
	rest := residual(sol.At.Y, sol)
	now.RSS, now.Allowed = rest*rest, e.own(rest*rest)
	if !e.start.IsZero() && e.before.Allowed > 0 {
		dev := sol.At.Y.Device()
		step := dev.Alloc(1, sol.At.Y.N())
		defer step.Free()
		e.p.A.Forward(step, e.start)
		dev.Lin(step, 1, sol.MuHat, -1, step)
		difference := now.RSS - e.before.RSS + 2*e.sigma*e.sigma*(now.Degrees-e.before.Degrees)
		moved := math.Hypot(solve.Norm(step), e.sigma*apart(images, e.before.Images))
		now.Allowed = math.Min(now.Allowed, e.share*math.Hypot(2*e.sigma*moved, difference))
	}
	if sol.Change > 0 {
		change, said := e.left(unsettledShare, sol.Change, now.Degrees), float64(unsettledThrough)
		if linops.StructureOf(e.p.A).Identity {
			said = unsettledShare
		}
		sol.Change = e.left(said, sol.Change, now.Degrees)
		if e.rounds++; change > now.Allowed {
			from.Effort.Error = e.errorFor(fallsBy*now.Allowed, now.Degrees)
			if e.rounds == mostRounds {
				from.Effort = Effort{}
			}
			return true, nil
		}
	}
	if e.path != nil {
		if !images.IsZero() {
			now.Images = images.Device().Alloc(images.K(), images.N())
			images.Device().Copy(now.Images, images)
		}
		e.path.Before, e.told = now, true
	}
	return false, nil
}

// apart is about the Frobenius norm of the difference of two Jacobians, by their images of the same random signs; 0
// where they are not known.
func apart(a, b array.Batch) float64 {
	if a.IsZero() || b.IsZero() || a.K() != b.K() || a.N() != b.N() {
		return 0
	}
	t := a.Device().Alloc(a.K(), a.N())
	defer t.Free()
	a.Device().Lin(t, 1, a, -1, b)
	squares, sum := make([]float64, t.K()), 0.0
	t.Device().Dot(squares, t, t)
	for _, v := range squares {
		sum += v / float64(len(squares))
	}
	return math.Sqrt(sum)
}

// release leaves the path what it had, where it has not been told of this solve.
func (e *enough) release() {
	switch {
	case e == nil:
	case e.path == nil || e.told:
		e.before.Images.Free()
	default:
		e.path.Before = e.before
	}
}

// degreesSeed is the seed of the probe that tells about how large a divergence is: any constant.
const degreesSeed = 0x646567

// degrees is about the divergence, and the images of the probes that tell it, where these live as long as l.
func (l *linearization) degrees(ctx context.Context, y array.Batch) (float64, array.Batch, error) {
	if l.known.Known {
		return l.known.Trace, array.Batch{}, nil
	}
	if rough, images, err := l.Rough(ctx); err != nil || !math.IsNaN(rough) {
		return rough, images, err
	}
	dev := y.Device()
	w, image := dev.Alloc(2, y.N()), dev.Alloc(2, y.N())
	defer array.Free(w, image)
	hutch.RademacherPart(w, degreesSeed, 0, 0, 0)
	left, forms := make([]float64, 2), make([]float64, 2)
	goal := system.Goal{Residual: math.Inf(1), Form: system.FormShare}
	if err := l.solve(ctx, image, w, goal, left); err != nil {
		return 0, array.Batch{}, err
	}
	dev.Dot(forms, w, image)
	return math.Max((forms[0]+forms[1])/2, 0), array.Batch{}, dev.Err()
}
