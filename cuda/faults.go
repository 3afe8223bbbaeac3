//go:build cuda

package cuda

import (
	"errors"

	"gorgonia.org/cu"
)

// cardErrors are the driver's errors after which a card's context computes nothing more.
var cardErrors = map[int]bool{
	int(cu.NotInitialized):       true,
	int(cu.Deinitialized):        true,
	int(cu.InvalidContext):       true,
	int(cu.EccUncorrectable):     true,
	int(cu.IllegalAddress):       true,
	int(cu.LaunchOutOfResources): true,
	int(cu.LaunchTimeout):        true,
	int(cu.LaunchFailed):         true,
	int(cu.ContextIsDestroyed):   true,
	int(cu.Assert):               true,
	int(cu.HardwareStackError):   true,
	int(cu.IllegalInstruction):   true,
	int(cu.MisalignedAddress):    true,
	int(cu.InvalidAddressSpace):  true,
	int(cu.InvalidPc):            true,
	int(cu.SystemNotReady):       true,
	int(cu.SystemDriverMismatch): true,
	int(cu.NvlinkUncorrectable):  true,
}

// ofCard reports whether an error is a fault of the card, which concerns all its views: one that
// leaves its context unusable, or a product of cuBLAS that did not run. Any other error, above all
// a lack of memory, concerns only the call that returned it. An error of the card that is not
// listed does no harm, because every later call returns it again.
func ofCard(err error) bool {
	if result := cu.Success; errors.As(err, &result) {
		return cardErrors[int(result)]
	}
	var result driverError
	if errors.As(err, &result) {
		return cardErrors[int(result)]
	}
	var blas blasError
	return errors.As(err, &blas) && blas != blasAllocFailed && blas != blasInvalidValue
}
