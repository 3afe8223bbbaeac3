package vjp

import (
	"surepipe/array"
	"surepipe/linops"
	"surepipe/solve"
)

// reduce makes the system that of a solver in which a part of the coordinates is eliminated: conjugate
// gradients solve it for the images, and what the eliminated part contributes by itself is added to
// them.
func (l *implicit) reduce(r solve.Reduced) { l.reduced, l.pre = r, rest{r} }

// square applies A*A, where that is cheaper than A and A*, or a reduced system; else it is nil.
func (l *implicit) square() func(dst, b array.Batch) {
	if l.reduced != nil {
		return l.reduced.Square
	}
	known := linops.StructureOf(l.op)
	if c := known.Columns; known.Normal == nil && c.Known {
		return func(dst, b array.Batch) { dst.Device().Lin(dst, c.Value, b, 0, array.Batch{}) }
	}
	return known.Normal
}

// rest is the preconditioner of a reduced system as J. All of the system is in its square.
type rest struct{ r solve.Reduced }

func (rest) flat() bool { return true }

func (p rest) apply(jr, _, r array.Batch, project bool) { p.r.Precondition(jr, r, project) }
