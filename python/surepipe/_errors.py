"""What the program says, as Python's exceptions."""


class SurepipeError(RuntimeError):
    """The program failed. `status` is the exit status that the command would have."""

    def __init__(self, text, status=1):
        super().__init__(text)
        self.status = status


class InputError(SurepipeError, ValueError):
    """Bad input: `field` is the option or array, `found` what was there, `expected` what should have been."""

    def __init__(self, text, field="", found="", expected="", status=2):
        super().__init__(text, status)
        self.field, self.found, self.expected = field, found, expected


class Cancelled(SurepipeError):
    """The request was cancelled."""


def error_of(e):
    """The exception of an error of JSON-RPC."""
    data, text = e.get("data") or {}, e.get("message", "the worker failed")
    if e.get("code") == -32097:
        return Cancelled(text, 130)
    if data.get("status") == 2 or e.get("code") == -32602:
        return InputError(text, *(data.get(k, "") for k in ("field", "found", "expected")))
    return SurepipeError(text, data.get("status", 1))
