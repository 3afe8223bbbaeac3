"""The worker: starts once, serves threads, survives forks and pickles, ends with Python, and on Ctrl-C stops."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import surepipe
from surepipe._client import Request

rng = np.random.default_rng(1)
X = rng.normal(size=(60, 8))
y = X[:, :2].sum(axis=1) + rng.normal(size=60)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pid, seconds=5):
    end = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not alive(pid)


def test_starts_once_and_again_after_it_has_ended():
    first = surepipe.worker()
    assert surepipe.worker() is first
    first.process.kill()
    first.process.wait()
    with pytest.raises(surepipe.SurepipeError, match="the program ended"):
        for _ in range(100):  # until the end of the pipe is seen
            first.call("info")
    assert surepipe.run("ridge", X, y, lam=1.0)["d"] == 60
    assert surepipe.worker() is not first
    assert all(p.closed for p in (first.process.stdin, first.process.stdout, first.process.stderr))


def test_threads_get_their_own_answers():
    found = {}

    def ask(k):
        found[k] = [surepipe.run("ridge", X, k * y, lam=1.0)["residual"] for _ in range(5)]
    threads = [threading.Thread(target=ask, args=(k,)) for k in range(1, 9)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in found:
        np.testing.assert_allclose(found[k], k * k * found[1][0], rtol=1e-9)


def test_threads_with_functions_are_called_in_their_own_thread():
    found = {}

    def ask(k):
        def f(v):
            assert threading.current_thread() is threads[k]
            return v / (1 + k)
        found[k] = surepipe.risk(f, y, sigma2=1.0)["df"]
    threads = {k: threading.Thread(target=ask, args=(k,)) for k in range(1, 5)}
    for t in threads.values():
        t.start()
    for t in threads.values():
        t.join()
    for k in threads:
        assert found[k] == pytest.approx(60 / (1 + k), rel=1e-3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_starts_its_own():
    mine = surepipe.worker()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            other = surepipe.worker()
            fine = other.process.pid != mine.process.pid and surepipe.run("ridge", X, y, lam=1.0)["d"] == 60
            surepipe.shutdown()
            status = 0 if fine and mine.dead else 1
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert surepipe.worker() is mine and mine.call("info")["protocol"] == 1


def test_results_and_estimators_are_pickled():
    path = surepipe.sweep("lasso", X, y, lam="0.1max:max:5", intercept=True)
    again = pickle.loads(pickle.dumps(path))
    assert again.chosen == path.chosen and (again.fit.b == path.fit.b).all()


def test_ends_with_python_also_where_that_is_killed(python):
    begin = "import surepipe, os, sys; w = surepipe.worker(); print(w.process.pid, w.folder, flush=True)"
    pid, folder = python(begin).split()
    assert gone(int(pid)) and not os.path.exists(folder)
    killed = subprocess.Popen([sys.executable, "-c", begin + "; sys.stdin.read()"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    pid, folder = killed.stdout.readline().split()
    killed.kill()
    killed.wait()
    assert gone(int(pid)) and not os.path.exists(folder)


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_ends_a_sweep_within_a_second_and_the_worker_lives():
    worker, took = surepipe.worker(), []

    def interrupt():
        time.sleep(0.5)
        took.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        surepipe.sweep("lasso", X, y, lam="1e-3:100:100000", refine=0, chain=1, intercept=True)
    assert time.monotonic() - took[0] < 1
    assert surepipe.worker() is worker and worker.call("info")["protocol"] == 1
    time.sleep(1)
    before = cpu(worker.process.pid)
    time.sleep(0.5)
    assert cpu(worker.process.pid) - before < 0.1, "the sweep goes on in the worker"


def cpu(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_function_that_fails_ends_its_request_with_its_own_error():
    with pytest.raises(ZeroDivisionError):
        surepipe.risk(lambda v: 1 / 0, y, sigma2=1.0)
    with pytest.raises(ValueError, match=r"shape \(59,\), expected that of y"):
        surepipe.risk(lambda v: v[1:], y, sigma2=1.0)
    assert surepipe.worker().call("info")["protocol"] == 1


def test_large_arrays_are_files_that_go_with_their_request():
    big = rng.normal(size=(500, 400))
    with Request({"problem": "ridge", "lambda": 1}, {"X": big, "y": big[:, 0]}) as r:
        assert len(r.files) == 1 and os.path.getsize(r.files[0]) < big.nbytes + 1000
        assert r.ask("fit")["result"]["p"] == 400
    assert not os.path.exists(r.files[0])


def test_a_memory_map_is_not_copied(tmp_path):
    np.save(tmp_path / "x.npy", rng.normal(size=(500, 400)))
    big = np.load(tmp_path / "x.npy", mmap_mode="r")
    with Request({"problem": "ridge", "lambda": 1}, {"X": big, "y": np.ones(500)}) as r:
        assert r.files == [] and r.question["arrays"]["X"] == {"npy": str(tmp_path / "x.npy")}
    with Request({"problem": "ridge", "lambda": 1}, {"X": big[:450], "y": np.ones(450)}) as r:
        assert len(r.files) == 1


@pytest.mark.parametrize("a", [X.astype(np.float32), np.asfortranarray(X), X[::-1], X[:, ::2], (10 * X).astype(int),
                               X > 0, X.astype(">f8"), np.tile(X, (300, 30)).T.copy().T, np.tile(X, (300, 30))[::2]])
def test_arrays_of_every_kind_are_what_they_are(a):
    v = np.linspace(1, 2, len(a))
    wanted = surepipe.run("ridge", np.array(a, float), v, lam=1.0)
    assert surepipe.run("ridge", a, v, lam=1.0)["residual"] == pytest.approx(wanted["residual"], rel=1e-5)


def test_errors_and_warnings_have_the_programs_text():
    with pytest.raises(surepipe.InputError, match="expected a positive number") as e:
        surepipe.run("lasso", X, y, lam=-1)
    assert e.value.field == "lambda" and e.value.status == 2 and isinstance(e.value, ValueError)
    with pytest.raises(surepipe.InputError, match='did you mean "lambda"'):
        surepipe.run("lasso", X, y, lamda=1)
    with pytest.warns(surepipe.SurepipeWarning, match="y has mean") as found:
        surepipe.run("lasso", X, y + 100, lam=1.0)
    assert "no-intercept" in [w.message.code for w in found]


def test_an_option_that_is_infinite_or_missing_is_an_input_error():
    for bad in (np.nan, "no number", [1, 2]):
        with pytest.raises(surepipe.InputError):
            surepipe.run("lasso", X, y, lam=bad)


def test_a_missing_value_of_a_frame_is_named_by_its_row():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1.0, 2, np.nan, 4], "y": [1.0, 2, 4, 3]}, index=list("uvwx"))
    for index, row in (list("uvwx"), "'w'"), (range(4), "2"):
        with pytest.raises(ValueError, match=f'row {row}, column "a"'):
            surepipe.run("ridge", data=frame.set_axis(index), response="y", lam=1.0)
    with pytest.raises(ValueError, match='row .w., column "a"'):  # names of two lines
        surepipe.run("ridge", data=frame.assign(b=["p\nq", "r", "p\nq", "r"]), response="y", lam=1.0)


def test_progress_is_told(monkeypatch):
    told = []
    monkeypatch.setattr(surepipe._client.Progress, "__call__", lambda self, p: told.append(p))
    r = np.random.default_rng(1)
    surepipe.sweep("lasso", r.normal(size=(400, 1000)), r.normal(size=400), lam="0.01max:max:60", criterion="cv")
    assert told and all(p["stage"] for p in told)


def test_infinity_is_a_weight():
    assert surepipe.run("lasso", X, y, lam=np.inf)["df"] == 0


def test_a_large_x_of_a_lasso_stays_in_its_file(monkeypatch):
    wanted = surepipe.run("lasso", X, y, lam=5.0)
    monkeypatch.setattr(surepipe._client, "MAPPED", 1)
    monkeypatch.setattr(surepipe._client, "INLINE", 1)
    found = surepipe.run("lasso", X, y, lam=5.0)
    assert found["storage"]["bytes"] > 0 and found["residual"] == pytest.approx(wanted["residual"], rel=1e-9)
