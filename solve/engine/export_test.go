package engine

import (
	"context"

	"surepipe/array"
)

// ProjectByProducts and ProjectFree are the two ways to project on the columns of free coordinates.
var ProjectByProducts = projectByProducts

func ProjectFree(ctx context.Context, p Problem, free []int, minus, misfit array.Batch) (float64, bool) {
	return projectFree(ctx, p, free, minus, misfit, nil)
}
