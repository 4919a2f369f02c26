"""/results/<id>/advice: what could be better, why, and what to do; every threshold can be set in the address."""

from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
from flask import Blueprint, request
from werkzeug.wrappers import Response

from ....analysis.advice.findings import INSTEAD, advice, advices, thresholds_of, withheld
from ....analysis.advice.model import Advice, Rule
from ....analysis.advice.rules import RULES
from ....domain.profile import Profile
from ...pages import RESULT_PAGES
from ...rendering import Page, render
from ..results.frame import Frame, open_frame
from ..results.tables import FILE, table_file

blueprint = Blueprint("advice", __name__)


@dataclass(frozen=True)
class Told:
    """A piece of advice. severity: high, medium or low. ranks: which it is about, in words; empty for all. where: the
    name of the page to look at, and its address."""

    severity: str
    title: str
    ranks: str
    evidence: str
    advice: str
    limit: str
    where: str
    url: str


@dataclass(frozen=True)
class Setting:
    """The threshold of a rule. given: what the address says, else empty. told: how often the rule spoke."""

    key: str
    title: str
    meaning: str
    unit: str
    standard: str
    given: str
    told: int


@dataclass(frozen=True)
class AdvicePage(Page):
    """`/results/<id>/advice`. changed: how many thresholds are not the rules' own. hidden: what the form carries on.
    withheld: why nothing is advised, empty where something may be; instead: what to do then."""

    template: ClassVar[str] = "results/advice.html"
    frame: Frame
    advice: tuple[Told, ...]
    settings: tuple[Setting, ...]
    changed: int
    hidden: tuple[tuple[str, str], ...]
    csv: str
    withheld: str
    instead: str


@blueprint.get("/results/<id>/advice")
def show(id: str) -> Response:
    """The findings, most serious first, and the rules with their thresholds."""
    frame, profile = open_frame(id, "advice")
    thresholds = thresholds_of(request.args)
    found = advices(profile, frame.selection, thresholds)
    keys = {rule.key for rule in RULES}
    return render(
        AdvicePage(
            frame=frame,
            advice=tuple(_told(frame, profile, one) for one in found),
            settings=tuple(
                Setting(
                    rule.key,
                    rule.title,
                    rule.meaning,
                    rule.unit,
                    f"{rule.threshold:g}",
                    f"{thresholds[rule.key]:g}" if rule.key in thresholds else "",
                    sum(one.rule is rule for one in found),
                )
                for rule in RULES
            ),
            changed=len(thresholds),
            hidden=tuple((k, v) for k, v in request.args.items(multi=True) if k not in keys),
            csv=frame.url("advice.csv", None, *((k, v) for k, v in request.args.items() if k in keys and v)),
            withheld=withheld(profile),
            instead=INSTEAD,
        )
    )


@blueprint.get(f"/results/<id>/advice.{FILE}")
def as_file(id: str, form: str) -> Response:
    """All findings; columns as `perfloom report` names them."""
    frame, profile = open_frame(id, "advice")
    rows: pd.DataFrame = advice(profile, frame.selection, thresholds_of(request.args))
    return table_file(f"{frame.name} advice", form, rows)


def _told(frame: Frame, profile: Profile, one: Advice) -> Told:
    rank = one.finding.rank
    page = next(
        (page for page in RESULT_PAGES if page.key == one.rule.page and page.has_data(profile)), RESULT_PAGES[0]
    )
    selection = frame.selection if rank is None else frame.selection.only(ranks=((rank, rank),))
    return Told(
        severity=one.severity,
        title=one.rule.title,
        ranks=f"ranks {one.ranks}, worst {rank}" if one.others else "" if rank is None else f"rank {rank}",
        evidence=one.evidence,
        advice=one.finding.advice or one.rule.advice,
        limit=_limit(one.rule, one),
        where=page.title,
        url=frame.url(page.key, selection),
    )


def _limit(rule: Rule, one: Advice) -> str:
    """What was measured beside the threshold."""
    measured, threshold = (rule.amount(value) for value in (one.finding.measured, one.threshold))
    passed = "below" if rule.below else "at least"
    return f"{rule.meaning[:1].upper()}{rule.meaning[1:]}: {measured}, {passed} {threshold}."
