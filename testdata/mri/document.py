#!/usr/bin/python3
"""Makes the tables and pictures of docs/mri.md, from the root of the repository.

    /usr/bin/python3 testdata/mri/document.py SUREPIPE [PART...]

SUREPIPE is the program, PART some of phantom, real, magnitudes, speed, fmri, stacks, sure, picture (default: all). A table stands between
<!-- table PART: ... --> and <!-- end -->.
"""
import os, re, shutil, subprocess, sys

page, here = "docs/mri.md", "testdata/mri/"


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def sure():
    text = output("go", "test", "-count=1", "./series", "-run", "SUREIsUnbiased", "-v", "-draws", "200")
    rows = {}
    for name, error, off, bar in re.findall(r": (\S.*?) +region \d: squared error +([\d.]+), SURE less that +([-\d.]+) ± ([\d.]+)", text):
        rows.setdefault(name, []).append(f"{float(error):.0f}: {float(off):+.1f} ± {float(bar):.1f}")
    lines = ["| squared error: SURE less that | 1 | 2 | 3 | 4 |", "| --- | --- | --- | --- | --- |"]
    return "\n".join(lines + [f"| {name} | " + " | ".join(cells) + " |" for name, cells in rows.items()])


def main():
    program, python = shutil.which(sys.argv[1]) or os.path.abspath(sys.argv[1]), sys.executable
    parts = {name: lambda name=name: output(python, here + "compare.py", program, name)
             for name in ("phantom", "real", "magnitudes", "speed")}
    parts["picture"] = lambda: output(python, here + "compare.py", program, "picture", here + "phantom.png")
    parts["fmri"] = lambda: output(python, here + "fmri.py", program)
    parts["stacks"] = lambda: output(python, here + "stacks.py", program, here + "stacks.png")
    parts["sure"] = sure
    for name in sys.argv[2:] or parts:
        table = parts[name]().strip()
        text = open(page).read()
        mark = f"<!-- table {name}: testdata/mri/document.py -->\n"
        if table and mark not in text:
            sys.exit(f"{page} has no line {mark!r}")
        if table:
            before, after = text.split(mark)
            open(page, "w").write(before + mark + table + "\n" + after[after.index("<!-- end -->"):])
        print(name, "is done", flush=True)


if __name__ == "__main__":
    main()
