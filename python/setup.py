"""Puts the program into the package, and the platform that it is for into the wheel's name.

    pip install ./python                  in a checkout: builds the program with go build
    python3 python/build_wheels.py        wheels for all platforms
"""

import os
import shutil
import subprocess
import sys
import sysconfig

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py
from wheel.bdist_wheel import bdist_wheel

HERE = os.path.dirname(os.path.abspath(__file__))

# The platform of a wheel -> GOOS, GOARCH, build tags. Of those with the C library of GNU the program finds a native
# BLAS at run time; the musl ones carry a static program of pure Go. Go 1.26 needs macOS 12.
PLATFORMS = {
    "manylinux_2_17_x86_64": ("linux", "amd64", ""),
    "manylinux_2_17_aarch64": ("linux", "arm64", ""),
    "musllinux_1_1_x86_64": ("linux", "amd64", "static"),
    "musllinux_1_1_aarch64": ("linux", "arm64", "static"),
    "macosx_12_0_x86_64": ("darwin", "amd64", ""),
    "macosx_12_0_arm64": ("darwin", "arm64", ""),
    "win_amd64": ("windows", "amd64", ""),
    "win_arm64": ("windows", "arm64", ""),
}


def here():
    """The platform of this machine."""
    os_, machine = sys.platform, sysconfig.get_platform().rsplit("-", 1)[-1].lower()
    arch = "arm64" if machine in ("arm64", "aarch64") else "amd64"
    if os_.startswith("linux"):
        libc = "musllinux" if "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or "") else "manylinux"
        return next(p for p, (o, a, _) in PLATFORMS.items() if p.startswith(libc) and a == arch)
    goos = {"darwin": "darwin", "win32": "windows"}[os_]
    return next(p for p, (o, a, _) in PLATFORMS.items() if (o, a) == (goos, arch))


def platform():
    return os.environ.get("SUREPIPE_PLATFORM") or here()


def program(to):
    """Puts the program for the platform there: that of SUREPIPE_BINARY, or what go build makes of the checkout."""
    goos, goarch, tags = PLATFORMS[platform()]
    given = os.environ.get("SUREPIPE_BINARY")
    if given:
        shutil.copy2(given, to)
        return
    source = os.environ.get("SUREPIPE_SOURCE") or os.path.dirname(HERE)
    if not os.path.isfile(os.path.join(source, "go.mod")) or shutil.which("go") is None:
        raise SystemExit("surepipe: the program must be built here, and that needs Go and a checkout around python/: "
                         "set SUREPIPE_SOURCE to a checkout, or SUREPIPE_BINARY to the program")
    subprocess.run(["go", "build", "-trimpath", "-ldflags=-s -w", *(["-tags", tags] if tags else []), "-o", to,
                    "./cmd/surepipe"], cwd=source, check=True,
                   env={**os.environ, "CGO_ENABLED": "0", "GOOS": goos, "GOARCH": goarch})


class BuildPy(build_py):
    def run(self):
        super().run()
        if self.editable_mode:  # finds the program by SUREPIPE_BINARY, or on the path
            return
        name = "surepipe.exe" if platform().startswith("win") else "surepipe"
        to = os.path.join(os.path.abspath(self.build_lib), "surepipe", "bin", name)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        program(to)
        os.chmod(to, 0o755)


class Platform(Distribution):
    def has_ext_modules(self):
        return True


class BdistWheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", platform()


setup(distclass=Platform, cmdclass={"build_py": BuildPy, "bdist_wheel": BdistWheel})
