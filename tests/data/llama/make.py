"""Makes the trace in this folder: builds tests/tracers/programs/decode.c with the tracer, and runs it. Needs gcc.

python tests/data/llama/make.py
"""

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
PROGRAM = HERE.parents[1] / "tracers/programs/decode.c"
HEADERS = HERE.parents[2] / "static/tracers"
TOKENS = "6"


def main() -> None:
    """Build and run."""
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder, "decode"))
        build = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-DPERFLOOM_TRACE", f"-I{HEADERS}", "-O2", "-pthread"]
        for command in ([*build, str(PROGRAM), "-o", program], [program, str(HERE / "trace.txt"), TOKENS]):
            print("+", " ".join(command), file=sys.stderr)
            subprocess.run(command, check=True, stdout=sys.stderr)


if __name__ == "__main__":
    main()
