// Package denoise has regularizers that are given by a denoiser: a map P that is the gradient of a convex function
// and nonexpansive, and therefore the proximal operator of a convex function r (Moreau 1965), which often has no
// formula.
//
//	NewLocalLowRank   P thresholds the singular values of the patches of a series of images
//	NewShrinkage      P = F* soft_c F thresholds coefficients in a Parseval frame F
//
// At the step t = 1 the proximal operator is P; at other steps
//
//	prox_{t r}(v) = P(u)   where   t u + (1 - t) P(u) = v.
package denoise
