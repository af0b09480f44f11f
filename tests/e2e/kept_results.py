"""What docs/results keeps of our runs: frn report makes the tables that stand there from the logs that stand there, and says nothing
of the machine they ran on but what it is. Usage: kept_results.py path/to/frn path/to/docs/results"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FRN = str(Path(sys.argv[1]).resolve())
RESULTS = Path(sys.argv[2])


def check(folder, work):
    copy = work / folder.name
    shutil.copytree(folder, copy)
    for name in ("table.md", "table.csv"):
        (copy / name).unlink()
    done = subprocess.run([FRN, "report", str(copy)], capture_output=True, text=True)
    assert done.returncode == 0, f"{folder.name}: {done.stdout}{done.stderr}"
    for name in ("table.md", "table.csv"):
        assert (copy / name).read_text() == (folder / name).read_text(), f"{folder.name}/{name} is not what its logs say"
    for file in folder.rglob("*"):
        where = file.is_file() and re.search(r"""['"]([a-z0-9]+:)?/.*""", file.read_text())
        assert not where, f"{file} names a path of the machine it was made on: {where[0]}"


def main():
    folders = [folder for folder in sorted(RESULTS.iterdir()) if folder.is_dir()]
    assert folders, f"{RESULTS} keeps no results"
    with tempfile.TemporaryDirectory() as work:
        for folder in folders:
            check(folder, Path(work))
    print(f"{len(folders)} studies are what their logs say")


if __name__ == "__main__":
    main()
