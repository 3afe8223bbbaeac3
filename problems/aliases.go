package problems

import (
	"surepipe/internal/noise"
	"surepipe/problems/spec"
)

// Types of package spec that stand here under the same names, and those of specifications with Spec before them.
type (
	// Data is the data of a problem, from a file or from memory.
	Data   = spec.Data
	Shared = spec.Shared
	Common = spec.Common
	// Variant is a variant of the penalty of some named problems, and Origin what is known of the files.
	Variant = spec.Variant
	Origin  = spec.Origin
	// Matrix is a matrix where it is stored: dense or sparse in memory, or in its file.
	Matrix = spec.Matrix
	// Weight is a number, or a multiple of a maximum, and WeightError the error for an invalid one.
	Weight      = spec.Weight
	WeightError = spec.WeightError
	// Loss names a loss, Effects unpenalized effects of rows and columns, and Noise noise that is not white.
	Loss    = spec.Loss
	Effects = spec.Effects
	Noise   = spec.Noise
	// EffectsChoice says how effects were chosen, and EffectsTried are those that were compared.
	EffectsChoice = spec.EffectsChoice
	EffectsTried  = spec.EffectsTried
	// Layout describes the arrays of a named problem besides y, and Orders are a range of orders of differences.
	Layout = spec.Layout
	Orders = spec.Orders
	// Estimate is an estimate of sigma2.
	Estimate = noise.Estimate
	// NoiseImage is an image whose blocks tell how its noise is.
	NoiseImage = noise.Image
	// NoiseMatrix is a matrix of low rank, which is told from its noise by its singular values.
	NoiseMatrix = noise.Matrix
	// UnevenNoise is noise whose variance differs between parts.
	UnevenNoise = noise.Uneven
	// NoiseRange is what data say of the variance of their noise, and NoiseLeft what a smoother leaves of it.
	NoiseRange = noise.Range
	NoiseLeft  = noise.Left
	// Spec is a specification, SpecFiles are the files that replace its own, and SpecError is an error with a line.
	Spec      = spec.Spec
	SpecFiles = spec.Files
	SpecError = spec.Error
)

// Disk has the files of the operating system by their paths.
var Disk = spec.Disk

// Functions of package spec that stand here under the same names; those of specifications have Spec in them.
var (
	ParseWeight  = spec.ParseWeight
	ParseEffects = spec.ParseEffects
	EffectNames  = spec.EffectNames
	ReadSpec     = spec.Read
	ParseSpec    = spec.Parse

	WrongCoordinate = spec.WrongCoordinate
	SpecExample     = spec.Example
	SpecSummary     = spec.Summary
	SpecHelp        = spec.Help
)

// Absolute is the weight w.
func Absolute(w float64) Weight { return Weight{Value: w, Given: true} }

// OfMax is w times the maximum of the weight at the data's y.
func OfMax(w float64) Weight { return Weight{Value: w, OfMax: true, Given: true} }
