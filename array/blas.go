package array

// useNativeBLAS registers a native BLAS and LAPACK with gonum when one is
// found.
func useNativeBLAS() {}

// BLAS says which BLAS the host device uses: "gonum", or the path of the
// native library.
func BLAS() string { return "gonum" }
