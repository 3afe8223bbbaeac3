//go:build cuda

package arraytest

import _ "surepipe/cuda" // registers the cards
