package arraytest

import (
	"fmt"

	"surepipe/array"
)

// AllocatesOn checks that whatever build allocates is on the device that it is given. It gives
// build a view of dev that has failed for want of memory: then nothing may be allocated on dev, and
// the fault must stay with the view. build returns what frees its result, or nil. On a device
// without faults, which has no views, and on one without a bound there is nothing to check.
func AllocatesOn(dev array.Device, build func(view array.Device) (release func())) error {
	view := dev.Request()
	if view == dev {
		return nil
	}
	view.Alloc(1<<20, 1<<30).Free()
	if view.Err() == nil {
		return nil
	}
	before, _ := dev.Available()
	release := build(view)
	after, _ := dev.Available()
	if release != nil {
		release()
	}
	if after != before {
		return fmt.Errorf("%d bytes are allocated elsewhere than on the device that is given", before-after)
	}
	if err := dev.Err(); err != nil {
		return fmt.Errorf("on a request that has failed the device fails: %w", err)
	}
	return nil
}
