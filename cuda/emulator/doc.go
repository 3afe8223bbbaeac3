//go:build !cuda

package emulator
