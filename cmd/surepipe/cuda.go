//go:build cuda

package main

import _ "surepipe/cuda" // makes --device cuda known
