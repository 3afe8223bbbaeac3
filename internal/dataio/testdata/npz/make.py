"""Writes the fixtures of the tests of dataio and cmd/surepipe. Run in this directory: python3 make.py (numpy)."""

import io
import zipfile

import numpy as np

# The values of every lasso fixture, exact in each dtype.
X = np.array([[1, 2, 3], [4, 5, 6]])
y = np.array([7, 8])

for dtype in ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", ">f8", ">f4", ">f2", ">i8", ">u2"]:
    name = dtype.replace(">", "big_")
    np.savez(name + ".npz", X=X.astype(dtype), y=y.astype(dtype), sigma2=np.array(2).astype(dtype))
np.savez("b1.npz", X=X > 3, y=y > 7)
np.savez("negative.npz", X=-X.astype("i2"), y=-y.astype("i1"))
np.savez("fortran.npz", X=np.asfortranarray(X.astype("f8")), y=y)
np.savez("fortran_f4.npz", X=np.asfortranarray(X.astype("f4")), y=y)
np.savez_compressed("compressed.npz", X=np.asfortranarray(X.astype(">f8")), y=y.astype("f8"))
np.savez("scalars.npz", X=X, y=y, sigma2=2.0, lambda2=np.array([3.0]), gamma=np.array([[4]]), **{"lambda": np.float32(0.5)})

# Long enough that the decompressor returns an element in two pieces.
t = np.arange(10000)
np.savez_compressed("long.npz", y=(np.sin(0.7 * t) * (t % 97)).astype("f4").reshape(100, 100))

i = np.array([0, 2, 5])
np.savez("completion.npz", y=[1.0, 2.0, 3.0], indices=i, shape=np.array([2, 3]))
np.savez("completion_float.npz", y=[1.0, 2.0, 3.0], indices=i.astype("f4"), shape=np.array([2.0, 3.0]))
np.savez("completion_u1.npz", y=[1.0, 2.0, 3.0], indices=i.astype("u1"), shape=np.array([2, 3], ">i4"))

s = np.arange(12.0)
np.savez("stack.npz", y=s.reshape(6, 2), X=X, mu=y)
np.savez("stack_matrix.npz", y=np.asfortranarray(s.reshape(2, 3, 2)))
np.savez("mu_alone.npz", mu=s.reshape(4, 3))

# What is refused.
np.savez("string.npz", X=X, y=np.array(["seven", "eight"]))
np.savez("complex.npz", X=X, y=y.astype("c16"))
np.savez("object.npz", X=X, y=np.array([7, None], dtype=object))
np.savez("structured.npz", X=X, y=np.zeros(2, [("a", "f8"), ("b", "i4")]))
np.savez("date.npz", X=X, y=y.astype("M8[D]"))
np.savez("longdouble.npz", X=X, y=y.astype(np.longdouble))
np.savez("flat_X.npz", X=X.ravel(), y=y)
np.savez("column_y.npz", X=X, y=y[:, None])
np.savez("scalar_y.npz", X=X, y=7.0)
np.savez("empty_y.npz", X=X, y=np.zeros(0))
np.savez("empty_X.npz", X=np.zeros((2, 0)), y=y)
np.savez("vector_sigma2.npz", X=X, y=y, sigma2=[1.0, 2.0])
np.savez("misspelled.npz", x=X, Y=y)
np.savez("nothing.npz")
np.savez("mask.npz", y=[1.0, 2.0], indices=np.array([True, False]), shape=np.array([1, 2]))
np.savez("pairs.npz", y=[1.0, 2.0], indices=np.array([[0, 1], [1, 0]]), shape=np.array([2, 2]))
np.savez("half_index.npz", y=[1.0, 2.0], indices=np.array([0, 1.5]), shape=np.array([2, 2]))
np.savez("shape3.npz", y=[1.0, 2.0], indices=np.array([0, 1]), shape=np.array([2, 2, 2]))
np.savez("mu_turned.npz", y=s.reshape(4, 3), mu=s.reshape(3, 4))
np.savez("stack_nan.npz", y=np.where(s == 7, np.nan, s).reshape(6, 2), X=X)
np.save("single.npy", y)


def crafted(name, header, values):
    """One array y with any header, in a zip archive whose checksum is right."""
    f = io.BytesIO()
    f.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + values)
    with zipfile.ZipFile(name, "w") as z:
        z.writestr(zipfile.ZipInfo("y.npy"), f.getvalue())


head = b"{'descr': '<f8', 'fortran_order': False, 'shape': %s, }\n"
crafted("huge_shape.npz", head % b"(1000000000000, 1000000000)", bytes(16))
crafted("negative_shape.npz", head % b"(-2, -1)", bytes(16))
crafted("short_values.npz", head % b"(2, 2)", bytes(31))
crafted("no_newline.npz", b"{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2), }", bytes(16))
crafted("order_of_keys.npz", b"{'shape': (1, 2), 'fortran_order': False, 'descr': '<f8', }\n", bytes(16))
crafted("garbage.npz", b"garbage\n", bytes(16))

whole = open("compressed.npz", "rb").read()
open("truncated.npz", "wb").write(whole[: len(whole) // 2])
stored = bytearray(open("f8.npz", "rb").read())
stored[stored.index(b"NUMPY", stored.index(b"y.npy")) + 125] ^= 1
open("checksum.npz", "wb").write(stored)
open("zero_length.npz", "wb").close()
open("text.npz", "w").write("x,y\n1,2\n")
