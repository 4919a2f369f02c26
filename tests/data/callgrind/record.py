"""Makes what lies here, with valgrind, gcc and callgrind_annotate: python record.py. It takes a few seconds.

Each *.out is a recording; *.json what callgrind_annotate says of it: by event, its total, what each function spent
itself, and what with all that it called. Names are without the file, and functions of one name are taken together.
"""

import json
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECORDINGS = {
    "calls": ("calls", []),
    "everything": ("calls", ["--cache-sim=yes", "--branch-sim=yes", "--dump-instr=yes", "--collect-jumps=yes"]),
    "long": ("calls", ["--compress-strings=no", "--compress-pos=no"]),
    "threads": ("threads", ["--separate-threads=yes", "--combine-dumps=yes"]),
}


def run(*words: str, at: Path) -> str:
    return subprocess.run(words, cwd=at, check=True, capture_output=True, text=True).stdout


def said(path: Path, event: str, inclusive: bool) -> tuple[int, dict[str, int]]:
    """The total and each function's number, as callgrind_annotate prints them."""
    words = [f"--inclusive={'yes' if inclusive else 'no'}", f"--show={event}", f"--sort={event}"]
    # Away from the sources it takes no folder off their names.
    text = run("callgrind_annotate", "--threshold=100", "--show-percs=no", "--auto=no", *words, str(path), at=Path("/"))
    total = int(re.search(r"^\s*([\d,]+)\s+PROGRAM TOTALS", text, re.MULTILINE)[1].replace(",", ""))
    found: Counter[str] = Counter()
    for line in text.split("file:function")[1].splitlines()[2:]:
        if match := re.fullmatch(r"\s*([\d,]+)\s+\S*?:(\S.*?)(?: \[.*\])?", line):
            value = int(match[1].replace(",", ""))
            name = match[2]
            found[name] = max(found[name], value) if inclusive else found[name] + value
    return total, dict(found)


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="callgrind-"))
    flags = ["-g", "-O1", "-pthread", "-fno-optimize-sibling-calls"]
    for program in ("calls", "threads"):
        shutil.copy(HERE / f"{program}.c", folder)
        run("gcc", *flags, "-o", program, f"{program}.c", at=folder)
    for name, (program, options) in RECORDINGS.items():
        out = folder / f"{name}.out"
        options = [f"--callgrind-out-file={out}", *options]
        # Not what the loader does.
        options += ["--toggle-collect=main", "--toggle-collect=run"]
        run("valgrind", "-q", "--tool=callgrind", *options, f"./{program}", at=folder)
        shutil.copy(out, HERE)
        if name == "threads":
            continue
        events = re.search(r"^events: (.*)$", out.read_text(), re.MULTILINE)[1].split()
        told = {}
        for event in events:
            total, own = said(out, event, inclusive=False)
            told[event] = {"total": total, "self": own, "inclusive": said(out, event, inclusive=True)[1]}
        (HERE / f"{name}.json").write_text(json.dumps(told, indent=1) + "\n")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
