// Package series removes noise from series of images: diffusion and functional MRI, calcium imaging, hyperspectral
// cubes.
//
// A patch of M voxels of N volumes is a matrix X = 1 m* + S + sigma W, with S of low rank. The mean over its voxels is
// kept as it is, and the singular values of the rest are shrunk,
//
//	1 m_hat* + U diag(f(s)) V*,
//
// by a function f of [Shrinkages], and overlapping patches are averaged by weights. The noise is white, of a standard
// deviation that may vary over the image: it is given, or estimated from the spectra of patches ([EstimateNoise]).
//
// The estimate comes with its degrees of freedom at each voxel, which sum up to the divergence of the whole estimate,
// and with Stein's unbiased estimate of its squared error there,
//
//	SURE_v = -N sigma_v^2 + ||y_v - mu_hat_v||^2 + 2 sigma_v^2 df_v.
//
// Both take sigma, the weights of patches, their size and the multiple of the edge as constants. The weights of the
// default are; size and multiple are chosen by SURE, two numbers for a whole series.
package series
