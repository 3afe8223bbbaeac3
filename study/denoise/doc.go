// Package denoise removes noise from files of series of images, and writes what is known of the result as images of the
// same kind. [Run] reads slice by slice what package series computes with, so that NIfTI files may be larger than
// memory.
package denoise
