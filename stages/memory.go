package stages

import "context"

// fewest is the size of the smallest sweep: with two probes the bits of each are those of
// any larger batch.
const fewest = 2

// sweeps cuts count probes of a job into sweeps that the device has memory for, in order,
// and calls sweep for each while that memory is set aside. A device without a bound takes all at
// once.
func (j *Job) sweeps(ctx context.Context, count int, sweep func(first, n int) error) error {
	dev := j.device()
	// A probe and its image beside what the sweep takes.
	each := j.Solution.Linearization.ProbeBytes() + 16*int64(j.Solution.MuHat.N())
	for first := 0; first < count; {
		left := count - first
		granted, release, err := dev.Reserve(ctx, each*int64(min(left, fewest)), each*int64(left))
		if err != nil {
			return err
		}
		n := min(left, max(fewest, int(granted/each)))
		err = sweep(first, n)
		release()
		if err != nil {
			return err
		}
		first += n
	}
	return nil
}
