package noise

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/lists"
)

// MethodAuto takes the method that suits the data, and MethodGCVResidual is the residual variance of a fit,
// RSS/(d - df) at the minimum of GCV: a method that takes fits, which are the caller's to compute.
const (
	MethodAuto        = "auto"
	MethodGCVResidual = "gcv-residual"
)

// ErrNeedsFits is the error of a method that takes fits.
var ErrNeedsFits = errors.New("sigma2 follows from fits at several weights, by " + MethodGCVResidual)

// Observed is y, and what is known of how it came about.
type Observed struct {
	Y     []float64
	Shape []int
	// Bare says that nothing else is known.
	Bare bool
	// Design is, of a regression, a matrix whose columns span the means of y, and y, both without an intercept's
	// part; nil where there is no matrix in memory. Rows and Columns are the numbers of those of the matrix and of
	// the column of an intercept, 0 where they are not known.
	Design        func() (x *mat.Dense, y []float64, err error)
	Rows, Columns int
	// Places are the entries of an array of the shape Whole that y has; nil where it is no selection.
	Places, Whole []int
	// Regression says that the rows of y are those of a matrix, Selection that y are some entries of a signal,
	// and Unordered why neighbours in y are not alike for another reason, "" where they are.
	Regression, Selection bool
	Unordered             string
	// LowRank says that the signal is a matrix of low rank, and Sparse that another one with few entries is added.
	LowRank, Sparse bool
	// Sequences says that the rows of y are sequences, and Image that y was read from a picture.
	Sequences, Image bool
	// Whitened says that y was transformed so that its noise is white.
	Whitened bool
}

func (o Observed) ordered() bool {
	return !o.Whitened && !o.Regression && !o.Selection && o.Unordered == ""
}

// Gapped reports whether y are some of the pixels of an image.
func (o Observed) Gapped() bool { return o.Selected() && len(o.Whole) > 1 }

// Selected reports whether y are some of the values of an image or a sequence.
func (o Observed) Selected() bool {
	return o.Selection && !o.LowRank && !o.Regression && !o.Whitened && o.Unordered == "" && len(o.Places) == len(o.Y)
}

// Sequence reports whether y is a single sequence, in its order.
func (o Observed) Sequence() bool { return o.ordered() && len(o.Shape) == 1 }

func (o Observed) matrix() bool { return o.ordered() && len(o.Shape) == 2 && !o.Sequences }

// Pixels reports whether y is an image, whose neighbours are alike.
func (o Observed) Pixels() bool { return o.matrix() && (o.Image || !o.LowRank) }

// Matrix reports whether y is a matrix of low rank with noise.
func (o Observed) Matrix() bool { return o.matrix() && !o.Image && o.LowRank }

// Method is a way to estimate sigma2: a row of the table that help, errors and [Choose] read. [Register] adds one.
type Method struct {
	// Name is that of --sigma2 and of [Estimate.Method], and Help says what the estimate is, and where it suits.
	Name, Help string
	// Suits reports whether auto takes the method; the first that suits is taken. Nil stands for never.
	Suits func(o Observed) bool
	// Structured says that y alone does not do.
	Structured bool
	// Estimate is the estimate, or a [Refusal]; Auto that of auto, nil for the same.
	Estimate, Auto func(o Observed) (Estimate, error)
}

// leastSide is the side of an image from which it has blocks enough for their method.
const leastSide = 24

// methods is the table, in the order in which auto tries.
var methods = []Method{
	{
		Name: MethodOLSResidual, Structured: true,
		Help: "the residual variance of the least-squares fit by all columns: a regression with more rows than columns",
		Suits: func(o Observed) bool {
			return !o.Whitened && o.Regression && o.Design != nil && (o.Rows == 0 || o.Rows > o.Columns)
		},
		Estimate: olsResidual,
	},
	{
		Name: MethodMedianSingularValue,
		Help: "from the median singular value: a matrix of low rank. Texture adds to it, so that auto takes the " +
			"least of this and of " + MethodSmoothBlocks,
		Suits: func(o Observed) bool {
			return o.Matrix() && !o.Sparse || !o.Whitened && o.Selection && o.LowRank && o.whole()
		},
		Estimate: medianSingularValue, Auto: leastVariance,
	},
	{
		Name:     MethodRobustLowRank,
		Help:     "from the entries that are left of a low rank and of outliers: a low-rank matrix plus a sparse one",
		Suits:    func(o Observed) bool { return o.Matrix() && o.Sparse },
		Estimate: robustLowRank,
	},
	{
		Name: MethodSmoothBlocks,
		Help: "from the smoothest blocks of 8 x 8 pixels: another image, with or without gaps, or the slices of a " +
			"volume",
		Suits: func(o Observed) bool {
			return o.Gapped() || o.matrix() && (o.Bare || min(o.Shape[0], o.Shape[1]) >= leastSide)
		},
		Estimate: smoothBlocks, Auto: blocksOrFits,
	},
	{
		Name:     MethodMAD,
		Help:     "the MAD of the finest wavelet details: a sequence, or a small image or volume",
		Suits:    Observed.ordered,
		Estimate: finestDetails,
	},
	{
		Name: MethodGCVResidual, Structured: true,
		Help:     "the residual variance of the fit of least GCV along a path: other data, such as entries of a matrix",
		Suits:    func(o Observed) bool { return !o.Bare },
		Estimate: func(Observed) (Estimate, error) { return Estimate{}, ErrNeedsFits },
	},
}

// Register adds a method, which --sigma2, specifications, help and errors then have too; auto tries it before the
// others. It is for init functions: nothing may read the table at the same time. It panics at a row without a
// name, help or Estimate, and at a name that is taken.
func Register(m Method) {
	if m.Name == "" || m.Help == "" || m.Estimate == nil || slices.Contains(Names(), m.Name) {
		panic(fmt.Sprintf("noise: method %q without a name, help or Estimate, or a second one of that name", m.Name))
	}
	methods = append([]Method{m}, methods...)
}

func Methods() []Method { return slices.Clone(methods) }

func Names() []string {
	return append([]string{MethodAuto}, lists.Map(methods, func(m Method) string { return m.Name })...)
}

// Choose estimates sigma2 by the method of that name, one of [Names]: where y has more than two axes, the mean of the
// estimates from the channels of its [Planes]. The error is a [Refusal] where the method does not apply, and
// [ErrNeedsFits] where it takes fits.
func Choose(name string, o Observed) (Estimate, error) {
	if len(o.Shape) < 3 {
		return chooseOne(name, o)
	}
	m := Planes(o.Y, o.Shape)
	return MeanOf(m.Channels, func(k int) (Estimate, error) {
		one := o
		one.Y, one.Shape = m.channel(k), []int{m.Rows, m.Columns}
		e, err := chooseOne(name, one)
		if r := (*Refusal)(nil); m.Channels > 1 && errors.As(err, &r) {
			err = &Refusal{r.Method, fmt.Sprintf("of channel %d, counted from 0, %s", k, r.Reason)}
		}
		return e, err
	})
}

// MeanOf is the mean of n estimates, of noise that is taken for equally strong and independent.
func MeanOf(n int, of func(k int) (Estimate, error)) (mean Estimate, err error) {
	variance := 0.0
	for k := range n {
		e, err := of(k)
		if err != nil {
			return Estimate{}, err
		}
		mean.Method = e.Method
		mean.Sigma2 += e.Sigma2 / float64(n)
		variance += e.Sigma2 * e.Sigma2 * e.RelStdErr * e.RelStdErr
	}
	mean.RelStdErr = math.Sqrt(variance) / float64(n) / mean.Sigma2
	return mean, nil
}

func chooseOne(name string, o Observed) (Estimate, error) {
	for _, m := range methods {
		switch {
		case name == MethodAuto && (m.Suits == nil || !m.Suits(o)), name != MethodAuto && name != m.Name:
			continue
		case o.Bare && m.Structured:
			return refuse(m.Name, "it is for --problem and --spec; for a command use %s of a signal, %s of an image",
				MethodMAD, MethodSmoothBlocks)
		case name == MethodAuto && m.Auto != nil:
			return m.Auto(o)
		}
		return m.Estimate(o)
	}
	if name == MethodAuto {
		return refuse(name, "y has shape %s, neither a signal nor an image", ndarray.ShapeString(o.Shape))
	}
	return Estimate{}, fmt.Errorf("sigma2 by %q, expected one of %s", name, strings.Join(Names(), ", "))
}

func (o Observed) whole() bool {
	return o.Places != nil && len(o.Whole) == 2 && len(o.Places) == o.Whole[0]*o.Whole[1]
}

// checkOrdered refuses a method for which y must be a signal or an image, whose neighbours are alike.
func (o Observed) checkOrdered(method string) error {
	reason := ""
	switch {
	case o.Regression:
		reason = "the rows of a regression may be in any order, so that the " +
			"differences of neighbours hold signal as well as noise; expected a sequence or an image. Use auto: " +
			MethodOLSResidual + " where d > p, else " + MethodGCVResidual
	case o.Unordered != "":
		reason = o.Unordered + "; expected a sequence or an image. Use auto, or " + MethodGCVResidual
	case o.Selection:
		reason = "y is a selection of entries, and its neighbours need not " +
			"be neighbours there; expected a sequence or an image. Use auto, or " + MethodGCVResidual
	default:
		return nil
	}
	return &Refusal{method, reason}
}

func olsResidual(o Observed) (Estimate, error) {
	if o.Design == nil {
		return refuse(MethodOLSResidual, "there is no design matrix")
	}
	x, y, err := o.Design()
	if err != nil {
		return Estimate{}, err
	}
	return OLSResidual(x, y)
}

func medianSingularValue(o Observed) (Estimate, error) {
	if o.Places != nil && len(o.Whole) == 2 && len(o.Places) == len(o.Y) {
		return Completion(o.Y, o.Places, o.Whole[0], o.Whole[1])
	}
	if len(o.Shape) == 2 {
		return MedianSingularValue(o.Y, o.Shape[0], o.Shape[1])
	}
	return refuse(MethodMedianSingularValue, "y has shape %s and is not a matrix", ndarray.ShapeString(o.Shape))
}

// leastVariance is the median singular value's estimate, or that of smooth blocks if that is less by
// more than two standard errors of the former: a picture has no low rank, and the median singular
// value takes its texture for noise. Either errs upwards where its assumption fails, which is most
// of the error of smooth blocks. What the median singular value exceeds the other by counts as part
// of its error.
func leastVariance(o Observed) (Estimate, error) {
	rank, err := medianSingularValue(o)
	if err != nil || !o.matrix() {
		return rank, err
	}
	blocks, refused := SmoothBlocks(o.Y, o.Shape[0], o.Shape[1])
	if refused != nil {
		return rank, nil
	}
	if rank.Sigma2-blocks.Sigma2 > 2*rank.Sigma2*rank.RelStdErr {
		return blocks, nil
	}
	rank.RelStdErr = math.Hypot(rank.RelStdErr, max(rank.Sigma2-blocks.Sigma2, 0)/rank.Sigma2)
	return rank, nil
}

func robustLowRank(o Observed) (Estimate, error) {
	switch {
	case o.Regression || o.Selection:
		return refuse(MethodRobustLowRank, "y is not the matrix of low rank itself, with noise")
	case len(o.Shape) != 2:
		return refuse(MethodRobustLowRank, "y has shape %s and is not a matrix", ndarray.ShapeString(o.Shape))
	}
	return RobustLowRank(o.Y, o.Shape[0], o.Shape[1])
}

// blocksOrFits takes fits where more than half of most blocks is missing.
func blocksOrFits(o Observed) (Estimate, error) {
	e, err := smoothBlocks(o)
	if err != nil && o.Gapped() {
		err = ErrNeedsFits
	}
	return e, err
}

func smoothBlocks(o Observed) (Estimate, error) {
	if o.Gapped() {
		return SmoothBlocksOf(o.Y, o.Places, o.Whole)
	}
	if err := o.checkOrdered(MethodSmoothBlocks); err != nil {
		return Estimate{}, err
	}
	if len(o.Shape) != 2 {
		return refuse(MethodSmoothBlocks, "y has shape %s and is not an image", ndarray.ShapeString(o.Shape))
	}
	return SmoothBlocks(o.Y, o.Shape[0], o.Shape[1])
}

// finestDetails is the MAD estimate. Sequences that are the rows of a matrix are joined end to end, because they may
// be too short for estimates of their own. This affects the details across the joints, but these are few among the
// values of a row and hardly change a median.
func finestDetails(o Observed) (Estimate, error) {
	if err := o.checkOrdered(MethodMAD); err != nil {
		return Estimate{}, err
	}
	switch {
	case len(o.Shape) != 2:
		return MADSignal(o.Y)
	case o.Sequences && o.Shape[1] < 16:
		return refuse(MethodMAD, "the sequences have %d values each, expected at least 16", o.Shape[1])
	case o.Sequences:
		return MADSignal(o.Y)
	}
	return MADImage(o.Y, o.Shape[0], o.Shape[1])
}
