// Package emulator controls the emulated CUDA driver in the folder driver: it reads its counters
// and sets its faults. It is empty without the build tag cuda. Present reports whether the driver
// in use is the emulated one.
package emulator
