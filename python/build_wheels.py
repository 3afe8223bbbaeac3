#!/usr/bin/env python3
"""Wheels with the program inside, cross-compiled on this machine:

    python3 python/build_wheels.py [--out DIR] [PLATFORM ...]

Without a platform for all: Linux (GNU and musl), macOS and Windows, on amd64 and arm64. Needs Go, setuptools and wheel.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def platforms():
    """The names of the platforms, from setup.py."""
    text = open(os.path.join(HERE, "setup.py"), encoding="utf-8").read()
    space = {}
    exec(text[text.index("PLATFORMS = {"):text.index("}\n", text.index("PLATFORMS = {")) + 2], space)
    return list(space["PLATFORMS"])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", default=os.path.join(HERE, "dist"))
    p.add_argument("platforms", nargs="*", metavar="PLATFORM", help=", ".join(platforms()))
    options = p.parse_args()
    unknown = set(options.platforms) - set(platforms())
    if unknown:
        p.error(f"unknown platform {', '.join(sorted(unknown))}, expected some of {', '.join(platforms())}")
    for name in options.platforms or platforms():
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "python")
            shutil.copytree(HERE, source, ignore=shutil.ignore_patterns("dist", "build", "*.egg-info", "tests", "bin"))
            subprocess.run([sys.executable, "setup.py", "--quiet", "bdist_wheel", "--dist-dir",
                            os.path.abspath(options.out)], cwd=source, check=True,
                           env={**os.environ, "SUREPIPE_PLATFORM": name, "SUREPIPE_SOURCE": os.path.dirname(HERE)})
        print(name, flush=True)


if __name__ == "__main__":
    main()
