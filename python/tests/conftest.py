import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
CHECKOUT = os.path.dirname(os.path.dirname(HERE))


@pytest.fixture(scope="session")
def program():
    """The program of the package under test."""
    from surepipe._binary import binary
    return binary()


@pytest.fixture
def python(tmp_path):
    """Runs a program of Python in a process of its own, and returns what it has printed."""
    def run(text, **more):
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, **more)
        assert done.returncode == 0, done.stderr
        return done.stdout
    return run


@pytest.fixture
def testdata():
    return os.path.join(CHECKOUT, "testdata")
