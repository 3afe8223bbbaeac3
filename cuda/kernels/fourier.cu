#include "device.h"

// One pass of the discrete Fourier transform of complex arrays along an axis of the given length,
// with entries inner apart (Stockham; Cooley and Tukey 1965). Before it, place (k, b) of the axis has
// frequency k of done, of the entries b, b + length/done, ...; after it, of done radix frequencies.
// The sums of radix terms are in their order. roots are exp(-2 pi i j / length), and times is the
// sign of their imaginary part. The result is multiplied by alpha. n counts complex numbers.
KERNEL fourier(double *dst, i64 ds, const double *x, i64 xs, const double *roots, i64 length, i64 done, i64 radix, i64 inner, double times, double alpha, i64 k, i64 n) {
  EACH(i, k, j, n) {
    unsigned size = (unsigned)length, all = (unsigned)(done * radix), rest = size / all, stride = (unsigned)inner;
    unsigned u = (unsigned)j % stride, at = (unsigned)j / stride, place = at % size;
    unsigned b = place % rest, frequency = place / rest;
    const double *in = x + i * xs + 2 * ((i64)(at - place) * stride + u);
    unsigned from = frequency % (unsigned)done * rest * (unsigned)radix + b, turn = 0;
    double re = 0, im = 0;
    for (unsigned q = 0; q < (unsigned)radix; q++) {
      const double *v = in + 2 * (i64)from * stride, *w = roots + 2 * (i64)turn * rest;
      double c = w[0], s = times * w[1];
      re += v[0] * c - v[1] * s;
      im += v[0] * s + v[1] * c;
      from += rest;
      turn += frequency;
      if (turn >= all) turn -= all;
    }
    double *out = dst + i * ds + 2 * j;
    out[0] = alpha * re;
    out[1] = alpha * im;
  }
}
