package study

import (
	"fmt"
	"math"

	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/problems/spec"
)

// Sigma2Result is the part of the JSON about the variance of the noise.
type Sigma2Result struct {
	// Sigma2 is absent where it is not known, and so are SURE and its error.
	Sigma2 float64 `json:"sigma2,omitempty"`
	// Sigma2Method is how sigma2 was estimated, and Sigma2RelStdErr its standard error
	// over its value; absent where it was given.
	Sigma2Method    string   `json:"sigma2_method,omitempty"`
	Sigma2RelStdErr *float64 `json:"sigma2_rel_stderr,omitempty"`
	// NoiseRho is the correlation of the noise of neighbours, and NoiseRhoStdErr its error; absent for white noise.
	NoiseRho       *float64 `json:"noise_rho,omitempty"`
	NoiseRhoStdErr *float64 `json:"noise_rho_stderr,omitempty"`
}

// WeightsResult are the weights of the regularizer, absent where the problem does not have them.
type WeightsResult struct {
	Lambda  *Number `json:"lambda,omitempty"`
	Lambda2 *Number `json:"lambda2,omitempty"`
	Gamma   *Number `json:"gamma,omitempty"`
}

// Named is the weight of that name.
func (w *WeightsResult) Named(name string) **Number {
	return spec.ByWeight(&w.Lambda, &w.Lambda2, &w.Gamma)[name]
}

// Swept are the weights on the axes, NaN where there is none.
func (w WeightsResult) Swept(axes []Axis) []float64 {
	return lists.Map(axes, func(axis Axis) float64 {
		if at := *w.Named(axis.Name); at != nil {
			return float64(*at)
		}
		return math.NaN()
	})
}

// Each yields the weights that the problem has, in order.
func (w *WeightsResult) Each(yield func(name string, value float64) bool) {
	for _, name := range spec.WeightNames() {
		if v := *w.Named(name); v != nil && !yield(name, float64(*v)) {
			return
		}
	}
}

func weightsOf(p *problems.Problem) WeightsResult {
	return WeightsResult{Weight(p.Lambda), Weight(p.Lambda2), Weight(p.Gamma)}
}

// CenterResult is the axis of rotation of a scanner, counted in detectors from 0, where it was found from y.
type CenterResult struct {
	Center       *float64 `json:"center,omitempty"`
	CenterStdErr *float64 `json:"center_stderr,omitempty"`
}

// EffectsResult is the part of the JSON that exists only with effects of rows and columns.
type EffectsResult struct {
	// Effects are rows, cols or mean, and EffectsDF their degrees of freedom.
	Effects     []string `json:"effects,omitempty"`
	EffectsDF   int      `json:"effects_df,omitempty"`
	EffectsMean *float64 `json:"effects_mean,omitempty"`
	// EffectsChoice says how they were chosen, where nothing was said of them.
	EffectsChoice *problems.EffectsChoice `json:"effects_choice,omitempty"`
}

// ExecResult is the part of the JSON that only commands have.
type ExecResult struct {
	// Exec is the command line. Eps is the step of the differences of monte-carlo, in units of y, and
	// Alpha the share of noise that the other methods add.
	Exec  string  `json:"exec,omitempty"`
	Eps   float64 `json:"eps,omitempty"`
	Alpha float64 `json:"alpha,omitempty"`
}

// linearPredictor is what mu_hat is where the loss is not squared.
const linearPredictor = "the linear predictor A b"

// LossResult is the part of the JSON of one sample that exists only where the loss is not squared.
type LossResult struct {
	// LossName is the loss. (The key loss is ||mu_hat - mu||^2.)
	LossName  string   `json:"loss_name,omitempty"`
	LossValue *float64 `json:"loss_value,omitempty"`
	Deviance  *float64 `json:"deviance,omitempty"`
	// Dispersion is the variance of y about the fit over that of the likelihood, which is 1 for counts that follow it.
	Dispersion *float64 `json:"dispersion,omitempty"`
	// MuHatIs says what mu_hat is.
	MuHatIs string `json:"mu_hat_is,omitempty"`
}

// ProjectedResult is the part of --image-risk, absent without it, and where the operator is too
// ill-conditioned.
type ProjectedResult struct {
	// ProjectedSURE estimates ||A^+ (mu_hat - mu)||^2, the risk of the image in what the operator sees.
	ProjectedSURE *float64 `json:"projected_sure,omitempty"`
	// ProjectedSUREProbeStdErr is the part of its standard error that the choice of probes causes.
	ProjectedSUREProbeStdErr *float64 `json:"projected_sure_probe_stderr,omitempty"`
	// ProjectedLoss is ||A^+ (mu_hat - mu)||^2 where mu is known.
	ProjectedLoss *float64 `json:"projected_loss,omitempty"`
}

// StorageResult is the part of the JSON about an X that is not in memory as float64.
type StorageResult struct {
	Storage *StorageNumbers `json:"storage,omitempty"`
}

// StorageNumbers are what reading X has cost so far, with the first pass, which finds the means and
// the norms of the columns.
type StorageNumbers struct {
	// Bytes is the size of X where it is stored.
	Bytes int64 `json:"bytes"`
	// Passes is the number of times that all of X has been read, and BytesRead all that has been
	// read, with parts of passes.
	Passes    int64 `json:"passes"`
	BytesRead int64 `json:"bytes_read"`
	// Missing is the number of values of X that count as the mean of their column.
	Missing int64 `json:"missing,omitempty"`
}

func CenterOf(p *problems.Problem) CenterResult {
	if p.Center == nil {
		return CenterResult{}
	}
	return CenterResult{&p.Center.Value, &p.Center.StdErr}
}

func EffectsOf(p *problems.Problem) EffectsResult {
	return EffectsResult{Effects: p.Effects.Names(), EffectsDF: p.EffectsDF(), EffectsChoice: p.EffectsChoice}
}

func (r *EffectsResult) fitEffects(p *problems.Problem, risk pipeline.Risk) {
	if r.Effects != nil && risk.HasB() && risk.MuHat != nil {
		r.EffectsMean = &p.FitEffectsAt(risk.MuHat, risk.BAt(p.Observed())).Mean
	}
}

func lossOf(r pipeline.Risk) LossResult {
	l := r.LossTerms
	if l == nil {
		return LossResult{}
	}
	of := LossResult{LossName: l.Name, LossValue: Defined(l.Value), Deviance: Defined(l.Deviance),
		MuHatIs: linearPredictor}
	if ratio, _ := r.Dispersion(); ratio > 0 {
		of.Dispersion = &ratio
	}
	return of
}

// AboutLoss is the part that is the same for all samples.
func AboutLoss(p *problems.Problem) LossResult {
	if p.Loss.Squared() {
		return LossResult{}
	}
	return LossResult{LossName: p.Loss.Name, MuHatIs: linearPredictor}
}

// StorageOf are those of a problem; nil where X is in memory.
func StorageOf(p *problems.Problem) StorageResult {
	a := linops.StructureOf(p.Operator).Passes
	if a.Bytes == 0 {
		return StorageResult{}
	}
	passes, bytes := a.Count()
	return StorageResult{&StorageNumbers{Bytes: a.Bytes, Passes: passes, BytesRead: bytes, Missing: p.Missing}}
}

// String is what reading X has cost, in words.
func (s *StorageNumbers) String() string {
	return fmt.Sprintf("%d passes, %.3g GB of %.3g GB read", s.Passes, float64(s.BytesRead)/1e9, float64(s.Bytes)/1e9)
}
