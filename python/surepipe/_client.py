"""The worker: one process of the program that answers requests, until Python ends.

Messages are JSON-RPC 2.0 behind a Content-Length, arrays of 4 kB and more are .npy files in a folder that the
worker removes when it ends (docs/worker.md)."""

import atexit
import base64
import csv
import itertools
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
import warnings

import numpy as np

from ._binary import binary
from ._errors import SurepipeError, error_of

PROTOCOL = 1
INLINE = 1 << 12  # bytes of the largest array that a message holds: JSON is read several times on its way
TURNED = 1 << 24  # bytes up to which an array in Fortran's order is turned, which numpy does faster than the program
MAPPED = 1 << 29  # bytes from which on X of a LASSO stays in its file, which the program then does not copy
SHORTEST = 1.0  # seconds before progress is shown
_written = json.JSONEncoder(allow_nan=False).encode


class Worker:
    """A process that answers. Calls may come from any thread."""

    def __init__(self):
        memory = "/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir()
        own = {"creationflags": 0x200} if os.name == "nt" else {"start_new_session": True}  # Ctrl-C is for Python
        self.process = subprocess.Popen([binary(), "worker", "--directory", memory], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, **own)
        self.lock, self.ids, self.names = threading.Lock(), itertools.count(1), itertools.count(1)
        self.waiting, self.named, self.said, self.dead = {}, {}, b"", False
        self.readers = [threading.Thread(target=read, daemon=True, name="surepipe")
                        for read in (self._read, self._read_errors)]
        for reader in self.readers:
            reader.start()
        self.info = self.call("info")
        self.folder = self.info.get("folder")
        if self.info["protocol"] != PROTOCOL or not self.folder:
            self.close()
            raise SurepipeError(f"{binary()} is of the version {self.info['version']} with the protocol "
                                f"{self.info['protocol']}, which is not that of this package")

    # The pipes

    def send(self, **message):
        text = _written({"jsonrpc": "2.0", **message}).encode()
        view = memoryview(b"Content-Length: %d\r\n\r\n%b" % (len(text), text))
        try:
            with self.lock:
                while view:
                    view = view[self.process.stdin.write(view):]
        except (OSError, ValueError):
            self._end()

    def _read(self):
        with open(self.process.stdout.fileno(), "rb", closefd=False) as stream:
            try:
                while True:
                    length = 0
                    while True:
                        line = stream.readline()
                        if line in (b"\r\n", b""):
                            break
                        name, _, value = line.partition(b":")
                        if name.lower() == b"content-length":
                            length = int(value)
                    text = stream.read(length)
                    if not line or len(text) < length:
                        break
                    self._take(_message(text))
            except (OSError, ValueError):
                pass
        self._end()

    def _take(self, m):
        """Hands a message to the thread that waits for it."""
        if "method" in m:
            to = self.named.get((m.get("params") or {}).get("name"))
            if to is not None:
                to.put(m)
            elif "id" in m:
                self.send(id=m["id"], error={"code": -32000, "message": "nobody waits for this call"})
        else:  # an error without an id is of a message that was none: of one of those under way
            for id in [m["id"]] if m.get("id") is not None else list(self.waiting):
                to = self.waiting.pop(id, None)
                if to is not None:
                    to.put(m)

    def _read_errors(self):
        with open(self.process.stderr.fileno(), "rb", closefd=False, buffering=0) as stream:
            try:
                while True:
                    text = stream.read(1 << 16)
                    if not text:
                        return
                    self.said = (self.said + text)[-4096:]
            except (OSError, ValueError):
                pass

    def _end(self):
        self.dead = True
        for id in list(self.waiting):
            to = self.waiting.pop(id, None)
            if to is not None:
                to.put(None)

    def close(self):
        """Ends the worker, and with it its folder."""
        self.dead = True
        try:
            self.process.stdin.close()
        except OSError:
            pass
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
        for reader, pipe in zip(self.readers, (self.process.stdout, self.process.stderr)):
            reader.join(1)  # the end of the process is the end of what it reads
            if not reader.is_alive():
                pipe.close()

    def forget(self):
        """In a forked child: closes its ends of the pipes, and leaves the process to the parent."""
        self.dead = True
        self.process.returncode = 0  # no child of this process
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                os.close(pipe.fileno())
            except (OSError, ValueError):
                pass

    # Requests

    def name(self):
        """A name for the messages that an estimator sends by itself."""
        return f"{os.getpid()}-{next(self.names)}"

    def call(self, method, params=None, name=None, estimate=None, progress=None):
        """The result of a request. estimate answers calls for mu_hat(y), progress takes notifications; both run in
        this thread. Ctrl-C, and any exception of estimate, cancel the request."""
        id, inbox = next(self.ids), queue.SimpleQueue()
        self.waiting[id] = inbox
        if name is not None:
            self.named[name] = inbox
        try:
            if self.dead:
                self._end()
            self.send(id=id, method=method, params=params or {})
            while True:
                m = _get(inbox)
                if m is None:
                    said = self.said.decode(errors="replace").strip()
                    raise SurepipeError("the program ended" + (f": {said[-2000:]}" if said else ""))
                if m.get("method") == "estimate":
                    y, weights = self.numpy(m["params"]["y"]), m["params"]["weights"]
                    self.send(id=m["id"], result=self.array(estimate(y, weights)))
                elif m.get("method") == "progress" and progress is not None:
                    progress(m["params"])
                elif "error" in m:
                    raise error_of(m["error"])
                elif "result" in m:
                    return m["result"]
        except BaseException:
            if self.waiting.pop(id, None) is not None:
                self.send(method="$/cancelRequest", params={"id": id})
            raise
        finally:
            self.named.pop(name, None)

    # Arrays

    def array(self, a, files=None):
        """A numpy array as the protocol has it. Larger ones are files, whose paths join files; a memory map of a
        whole .npy file is its file, without a copy."""
        a = np.asanyarray(a)
        mapped = _mapped(a)
        if mapped:
            return {"npy": mapped}
        if a.dtype.kind not in "fc":  # files of small integers would be photographs, scaled to 1
            a = a.astype(float)
        if a.nbytes < INLINE and a.dtype.kind != "c":
            a = np.asarray(a, dtype="<f8")
            return {"shape": a.shape, "base64": base64.b64encode(a.tobytes()).decode()}
        return {"npy": self.file(a, files)}

    def file(self, a, files=None):
        """The path of a new .npy file with an array."""
        a, path = np.asarray(a), os.path.join(self.folder, self.name() + ".npy")
        if a.nbytes < TURNED:
            a = np.ascontiguousarray(a)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600), "wb") as f:
            if a.flags.c_contiguous and a.ndim:
                f.write(_header(a))
                f.write(a.data)
            else:
                np.save(f, a)
        if files is not None:
            files.append(path)
        return path

    def numpy(self, a):
        """An array of the protocol as numpy has it; that of a file is mapped, and stays when the file is removed."""
        if "npy" not in a:
            return np.frombuffer(base64.b64decode(a["base64"]), "<f8").reshape(a["shape"])
        return np.load(a["npy"], mmap_mode="r")

    def take(self, a):
        """An array of a result, which is the caller's own."""
        found = self.numpy(a)
        if "npy" in a:
            found = np.load(a["npy"], mmap_mode="c")
            remove([a["npy"]])
        else:
            found = found.copy()
        return found.view(complex)[..., 0] if a.get("complex") and found.dtype.kind == "f" else found


def _message(text):
    """A message. The points of a sweep, most of its answer, stay the text that they are: a `Path` reads it where they
    are asked for. A quote within a text of JSON is escaped, so that what is looked for is a key."""
    begin, end = text.find(b'"points":['), text.find(b'],"summary":{')
    if begin < 0 or end < begin or text.find(b'"points":[', end) >= 0:
        return json.loads(text)
    begin += len(b'"points":[')
    m = json.loads(text[:begin] + text[end:])
    m["result"]["points"] = text[begin - 1:end + 1]
    return m


def _header(a):
    """What stands in a .npy file before an array in C's order: np.save takes longer to say it than to write a table."""
    text = f"{{'descr': {a.dtype.str!r}, 'fortran_order': False, 'shape': {a.shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def _mapped(a):
    """The path of the .npy file that an array is a memory map of, all of it and in its order."""
    if not isinstance(a, np.memmap) or not a.filename or not str(a.filename).endswith(".npy"):
        return None
    try:
        whole = np.load(a.filename, mmap_mode="r")
    except (OSError, ValueError):
        return None
    same = (whole.shape, whole.dtype, whole.strides, whole.offset) == (a.shape, a.dtype, a.strides, a.offset)
    return str(a.filename) if same and a.dtype.kind in "fc" and a.mode == "r" else None


def _get(inbox):
    """The next message, in a way that Ctrl-C ends: on Windows a wait without an end cannot be."""
    if os.name != "nt":
        return inbox.get()
    while True:
        try:
            return inbox.get(timeout=0.1)
        except queue.Empty:
            pass


def rename(error, files, frame=()):
    """An error of files that nobody knows is one of the data, and a line of the file of a frame's rows is a row."""
    text, lines = error.args[0], {}
    if frame and "line " in text:
        with open(frame[0], encoding="utf-8", newline="") as f:
            reader = csv.reader(f)
            next(reader)
            for row in frame[1].tolist():
                lines[reader.line_num + 1] = row
                next(reader, None)
    for path in files:
        text = text.replace(path, "the data")
    text = re.sub(r"\bline (\d+)\b", lambda m: f"row {lines[int(m[1])]!r}" if int(m[1]) in lines else m[0], text)
    error.args = (text, *error.args[1:])


def remove(files):
    for path in files:
        try:
            os.remove(path)
        except OSError:
            pass  # Windows keeps what is mapped; it goes with the worker's folder


_worker, _start = None, threading.Lock()


def worker():
    """The worker of this process, which is started where there is none."""
    global _worker
    with _start:
        if _worker is not None and _worker.dead:
            _worker.close()
            _worker = None
        if _worker is None:
            _worker = Worker()
        return _worker


def shutdown():
    """Ends the worker. The next request starts another one."""
    global _worker
    with _start:
        if _worker is not None:
            _worker.close()
        _worker = None


def _after_fork():
    global _worker, _start
    _start = threading.Lock()
    if _worker is not None:
        _worker.forget()
    _worker = None


atexit.register(shutdown)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Progress:
    """Shows how far a request has come, with tqdm where that is installed, in a notebook or on a terminal."""

    shown = None  # True and False decide for all; None shows it where somebody looks

    def __init__(self):
        self.begin, self.bar, self.done = time.monotonic(), None, 0
        watched = "ipykernel" in sys.modules or sys.stderr is not None and sys.stderr.isatty()
        self.off = self.shown is False or self.shown is None and not watched

    def __call__(self, p):
        if self.off or time.monotonic() - self.begin < SHORTEST:
            return
        if self.bar is None:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of widgets that are not installed
                    from tqdm.auto import tqdm
            except ImportError:
                self.off = True
                return
            self.bar = tqdm(leave=False, unit="")
        self.bar.set_description_str(p["stage"], refresh=False)
        total, done = (p.get("total"), p.get("done", 0)) if p.get("total") else (p.get("steps"), p.get("step", 0))
        self.bar.total, self.bar.n = total, done
        self.bar.refresh()

    def close(self):
        if self.bar is not None:
            self.bar.close()


class Request:
    """A question about an estimator, and the files of its arrays."""

    def __init__(self, options, arrays=None, black_box=None, **more):
        self.worker, self.files, self.frame, self.estimate, self.several = worker(), [], (), black_box, False
        self.name, self.progress = self.worker.name(), Progress()
        try:
            options = dict(options)
            sent = {k: self._array(k, a, options) for k, a in (arrays or {}).items() if a is not None}
            self.question = {"options": options, "arrays": {k: a for k, a in sent.items() if a}, "name": self.name,
                             **more}
            if black_box is not None:
                self.question["black_box"] = True
        except BaseException:
            self.close()
            raise

    def _array(self, key, a, options):
        if hasattr(a, "tocsc") and hasattr(a, "nnz"):  # scipy's sparse matrices
            from scipy.sparse import save_npz
            path = os.path.join(self.worker.folder, f"{self.name}-{key}.npz")
            self.files.append(path)
            save_npz(path, a.tocsc(), compressed=False)
            options[key] = path
            return None
        sent = self.worker.array(a, self.files)
        stays = options.get("problem") in ("lasso", "elastic-net") and options.get("loss", "squared") == "squared"
        if key == "X" and stays and "npy" in sent and a.nbytes >= MAPPED:
            options.setdefault("storage", "mapped")
        return sent

    def ask(self, method, **params):
        """Asks a question, which opens and closes its estimator itself."""
        try:
            return self.worker.call(method, {**self.question, **params}, self.name, self.estimate, self.progress)
        except SurepipeError as e:
            rename(e, self.files, self.frame)
            raise

    def close(self):
        self.progress.close()
        remove(self.files)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
