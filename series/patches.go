package series

// Extent is a size in voxels along x, y and z.
type Extent [3]int

func (e Extent) voxels() int { return e[0] * e[1] * e[2] }

// DefaultPatch is the smallest cube of an odd side with at least as many voxels as there are volumes, cut to the
// image.
func DefaultPatch(image Extent, volumes int) Extent {
	side := 3
	for side*side*side < volumes {
		side += 2
	}
	return Extent{min(side, image[0]), min(side, image[1]), min(side, image[2])}
}

// starts are the first voxels of patches along an axis of n voxels: every stride, and one at the end.
func starts(n, side, stride int) (at []int) {
	for i := 0; i < n-side; i += stride {
		at = append(at, i)
	}
	return append(at, n-side)
}

// apart divides places into classes in which any two are at least side apart, so that patches of one class do not
// overlap.
func apart(at []int, side int) (classes [][]int) {
next:
	for _, i := range at {
		for c, class := range classes {
			if class[len(class)-1]+side <= i {
				classes[c] = append(class, i)
				continue next
			}
		}
		classes = append(classes, []int{i})
	}
	return classes
}
