"""Where the program is."""

import os
import shutil
import sys

NAME = "surepipe.exe" if sys.platform == "win32" else "surepipe"
OWN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", NAME)


def binary():
    """The path of the program: that of SUREPIPE_BINARY, the one in this package, or one on the path."""
    given = os.environ.get("SUREPIPE_BINARY")
    if given:
        path = shutil.which(given)
        if path is None:
            raise FileNotFoundError(f"SUREPIPE_BINARY is {given!r}, expected a program")
        return path
    if os.path.isfile(OWN):
        return OWN
    path = shutil.which("surepipe")
    if path is None or os.path.realpath(path).startswith(os.path.realpath(sys.prefix)) and _is_script(path):
        raise FileNotFoundError(
            "the program surepipe was not found: this package has none. Install a wheel, or set SUREPIPE_BINARY to "
            "the program, which `go build ./cmd/surepipe` makes in a checkout")
    return path


def _is_script(path):
    with open(path, "rb") as f:
        return f.read(2) == b"#!"
