"""Everything on the page for notebook users can be pasted, in its order."""

import os
import re
import warnings

import pytest

for needed in ("sklearn", "pandas", "matplotlib", "skimage"):
    pytest.importorskip(needed)

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "python.md")


def test_the_page_can_be_pasted(capsys, monkeypatch):
    monkeypatch.chdir(os.path.join(os.path.dirname(PAGE), ".."))
    import matplotlib
    matplotlib.use("Agg")
    with open(PAGE, encoding="utf-8") as f:
        blocks = re.findall(r"```python\n(.*?)```", f.read(), re.S)
    assert len(blocks) > 8
    space = {}
    for text in blocks:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(text, "docs/python.md", "exec"), space)
    assert space["fit"].df_ > 3 and space["image"].shape == (256, 256) and 0.02 < space["path"].fit["lambda"] < 0.5
    assert capsys.readouterr().out.count("surepipe fit") == 4
