package surepipe

import (
	"context"

	"surepipe/study"
	"surepipe/study/denoise"
)

// Series says how a series of images is denoised, and what is wanted: arrays (Return), or files.
type Series = denoise.Request

// Denoise removes noise from a series of images, such as diffusion or functional MRI, by local low rank: see
// [surepipe/series]. The other files that s names are those of the data's file system.
func (d Data) Denoise(ctx context.Context, s Series) (*denoise.Result, error) {
	if s.Files, s.Data = d.files, d.data; d.files == nil {
		return nil, study.Errorf("--data are missing, expected a series of images")
	}
	return call(ctx, func() (*denoise.Result, error) { return denoise.Run(ctx, s) }, nil)
}
