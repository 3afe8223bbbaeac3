"""What the program says of its numbers, as Python's warnings."""

import os
import sys
import warnings

from ._client import worker


class SurepipeWarning(UserWarning):
    """What to doubt in a result: `code` names it, as in the JSON of the command."""

    def __init__(self, text, code=""):
        super().__init__(f"{text} [{code}]" if code else text)
        self.code = code


class SurepipeNote(SurepipeWarning):
    """Something to know of data or of a choice: the numbers stand."""


class SurepipeDoubt(SurepipeWarning):
    """The numbers are not to be trusted: the command would end with the status 3."""


KINDS = {"note": SurepipeNote, "caution": SurepipeWarning, "doubt": SurepipeDoubt}
HERE = os.path.dirname(os.path.abspath(__file__))


def kind(w):
    """What the program says of a warning's code."""
    return worker().info.get("warnings", {}).get(w["code"], {})


def heard(found):
    """The warnings that are told: others stand in the lists of warnings alone."""
    return [w for w in found or [] if not kind(w).get("quiet")]


def tell(found, but=()):
    """Gives warnings to Python's; but are codes to leave out."""
    for w in heard(found):
        if w["code"] not in but:
            warn(KINDS[kind(w).get("severity", "doubt")](w["text"], w["code"]))


def warn(warning):
    """Gives Python's a warning, at the line outside this package that has asked."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and os.path.dirname(frame.f_code.co_filename) == HERE:
        level, frame = level + 1, frame.f_back
    warnings.warn(warning, stacklevel=level)
