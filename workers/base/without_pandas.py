"""Keep pyarrow from importing pandas.

pyarrow imports pandas when it first converts Python values, to recognize its types. That takes longer than reading a
small file. If the import fails, pyarrow works without it.
"""

import sys


class PandasBlocker:
    """An import hook that hides pandas."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """As the import system asks for it."""
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not used here", name=name)


def block_pandas() -> None:
    """Hide pandas from this process for good."""
    sys.meta_path.insert(0, PandasBlocker())


def load_pyarrow() -> None:
    """Import pyarrow without pandas. This process can still import pandas itself, but pyarrow does not know its types:
    `Table.to_pandas` fails."""
    if "pandas" in sys.modules:
        return
    blocker = PandasBlocker()
    sys.meta_path.insert(0, blocker)
    try:
        import pyarrow as pa

        pa.array([0])
    finally:
        sys.meta_path.remove(blocker)
