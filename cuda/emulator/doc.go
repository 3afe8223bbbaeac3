// Package emulator talks to the emulated CUDA driver in folder driver: it reads its
// counters and arms its faults. It is empty without build tag cuda; with another driver
// there is nothing to talk to, which Present tells.
package emulator
