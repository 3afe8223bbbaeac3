// Package imaging has the operators of signal and image processing, which are formulas (an image is a
// row-major vector of rows x cols pixels):
//
//	NewDifference1D     b_{i+1} - b_i
//	NewDifference2D     both differences of neighbouring pixels, stacked
//	NewGradient         the differences along axes of an array of any number of axes
//	NewConvolution1D,   sum_t h_t b_{i-(t-m)}, m = ⌊k/2⌋ of k taps, the size of b,
//	NewConvolution2D    circular or zero-padded
//	NewDCT, NewDCT2D    s_k sum_j b_j cos(pi k (2 j + 1) / (2 n)), orthonormal
//	NewWavelet1D,       a_i = sum_t h_t b_{2i+t}, d_i = sum_t g_t b_{2i+t}, over levels,
//	NewWavelet2D        periodic and orthonormal; sides that 2^levels does not divide are padded
//	NewUndecimated1D,   all shifts of a wavelet transform, with reflected boundaries: F*F = I
//	NewUndecimated2D
//	NewParallelBeam,    line integrals along the rays of a scanner
//	NewFanBeam
//	NewFourier          samples of the two-dimensional Fourier transform
//	NewCoils            s_c ∘ b for the complex sensitivities s_c of coils
//	NewChannels         sum_j M_ij b_j of channels b_j
//	NewInterleaved      A of each of k interleaved vectors, such as channels
//
// DCT and Wavelet analyze: the Adjoint of one is its inverse, which maps coefficients to signals.
// Complex numbers are pairs of real ones, side by side: a complex vector of length n is one of R^{2n}.
//
// Undecimated computes on the host, on all of its processors, and copies the vectors of another device
// there and back. So do Convolution, DCT, Wavelet, Projection, Fourier, Coils, Channels and the closed
// forms of Gradient, unless their Load has put what they need on that device:
// then they compute there, until Release. The others compute where the vectors are.
//
// All know their norms, and most a closed form of their normal equations or a fast transform in which
// these are diagonal; [linops.StructureOf] says so.
package imaging
