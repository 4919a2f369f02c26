"""Which losses affect figures."""

import ast

import pytest

from perfloom.analysis.core.loss_impact import loss_impact_of
from perfloom.domain import losses
from perfloom.domain.builder import ProfileBuilder
from perfloom.domain.losses import HARMLESS_REASONS, affects_values
from tests.support import paths

APP = paths.ROOT / "app"
DATA = paths.DATA


def test_reasons_exist_in_readers() -> None:
    named = {value: name for name, value in vars(losses).items() if isinstance(value, str)}
    used = {
        node.id
        for folder in ("ingest", "readers")
        for path in (APP / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Name)
    }
    assert {named[reason] for reason in (*HARMLESS_REASONS, losses.EVENT_WITHOUT_VALUE)} <= used


def test_reasons_are_not_prefixes_of_others() -> None:
    sorts = (*HARMLESS_REASONS, losses.EVENT_WITHOUT_VALUE)
    assert not [(one, other) for one in sorts for other in sorts if one != other and one.startswith(other)]


@pytest.mark.parametrize(
    ("reason", "affects"),
    [
        (losses.SAMPLE_LABELS, False),
        ("label of a sample, which has no place here", False),  # as stored by an earlier version
        (f"{losses.PACKET}heap_graph", False),
        (f"{losses.EVENT_WITHOUT_VALUE}not counted", False),
        ("samples lost while recording", True),
        ("flow with only one end", True),
    ],
)
def test_losses_that_affect_figures(reason: str, affects: bool) -> None:
    builder = ProfileBuilder("pprof")
    builder.add_sample(0, builder.intern_thread(), builder.intern_event("cpu", "ns"), 0, 5)
    builder.add_loss(reason, "an example", 3)
    state = loss_impact_of(builder.finish())
    assert affects_values(reason) is affects
    assert (bool(state), bool(state.note)) == (affects, affects)
