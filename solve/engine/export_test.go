package engine

// The two ways to project on the columns of free coordinates.
var ProjectFree, ProjectByProducts = projectFree, projectByProducts
