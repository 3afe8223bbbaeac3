#!/usr/bin/python3
"""Makes the files of this folder: Debian's python3-scipy, python3-h5py and python3-nibabel.

Entry (i, j, k) of x is 100 i + 10 j + k, and z = x + (x + 0.5) 1j.
"""
import sys

import h5py
import nibabel
import numpy as np
import scipy.io
import scipy.sparse

i, j, k = np.meshgrid(range(2), range(3), range(4), indexing="ij")
x = 100.0 * i + 10 * j + k
z = x + (x + 0.5) * 1j
m = x[0]
ints = x.astype(np.int16)
sparse = scipy.sparse.csc_matrix(np.array([[0, 1.5, 0], [2, 0, -3]]))
arrays = dict(x=x, z=z, m=m, ints=ints, v=m[1], one=np.array(7.0))

scipy.io.savemat("v5.mat", dict(arrays, sparse=sparse, text="hello", cell=np.array([1, "a"], dtype=object), struct={"a": 1}))
scipy.io.savemat("v5z.mat", dict(arrays, sparse=sparse), do_compression=True)
scipy.io.savemat("v4.mat", dict(m=m), format="4")


def put(f, name, value, **more):
    f.create_dataset(name, data=value, **more)


with h5py.File("plain.h5", "w") as f:
    for name, value in arrays.items():
        put(f, name, value)
    put(f, "big", x.astype(">f4"))
    put(f, "unsigned", m.astype("u1"))
    put(f, "bool", m > 5)
    g = f.create_group("a/b")
    put(g, "deep", m)
    f["alias"] = h5py.SoftLink("/m")
    put(f, "text", "hello")
    f.create_dataset("never", (3, 4), "f8", fillvalue=2.5, chunks=(2, 2))

with h5py.File("chunks.h5", "w") as f:
    put(f, "gzip", x, chunks=(2, 2, 3), compression="gzip", shuffle=True, fletcher32=True)
    put(f, "z", z, chunks=(1, 3, 2), compression="gzip")
    put(f, "many", np.arange(250.0), chunks=(3,))
    put(f, "lzf", m, chunks=(2, 2), compression="lzf")

with h5py.File("latest.h5", "w", libver="latest") as f:
    for name, value in arrays.items():
        put(f, name, value)
    put(f, "gzip", x, chunks=x.shape, compression="gzip")
    put(f, "indexed", np.arange(250.0), chunks=(3,))

# As MATLAB does with save -v7.3: the axes in reverse, and a block of 512 bytes of its own.
with h5py.File("v73.mat", "w", userblock_size=512) as f:
    for name, value in arrays.items():
        value = np.atleast_2d(value)
        if np.iscomplexobj(value):
            pair = np.zeros(value.shape, dtype=[("real", "f8"), ("imag", "f8")])
            pair["real"], pair["imag"] = value.real, value.imag
            value = pair
        put(f, name, value.T)
    put(f, "#refs#/a", m)
with open("v73.mat", "r+b") as f:
    f.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64, Created on: now HDF5 schema 1.00 .".ljust(124) + b"\0\2IM")

affine = np.eye(4)
nibabel.save(nibabel.Nifti1Image(x.astype(np.float32), affine), "f4.nii.gz")
scaled = nibabel.Nifti1Image(ints, affine)
scaled.header.set_slope_inter(0.5, 3)
nibabel.save(scaled, "scaled.nii")
nibabel.save(nibabel.Nifti1Image(z.astype(np.complex64), affine), "c8.nii")
nibabel.save(nibabel.Nifti2Image(x, affine), "two.nii")
nibabel.save(nibabel.Nifti1Pair(ints, affine), "pair.img")

with open("bart.hdr", "w") as f:
    f.write("# Dimensions\n2 3 1 4 1 1 \n# Command\nphantom\n")
z.astype(np.complex64).flatten(order="F").tofile("bart.cfl")
print("made by", sys.version)
