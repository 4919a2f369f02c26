"""/results/<id>/advice: findings with evidence and advice; every threshold can be set in the URL."""

from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
from flask import Blueprint, request
from werkzeug.wrappers import Response

from ....analysis.advice.cpu_rules import WAITING_RULES
from ....analysis.advice.findings import (
    WITHHELD_ADVICE,
    compute_advice,
    find_advice,
    list_rules,
    parse_thresholds,
    withheld_reason,
)
from ....analysis.advice.model import Advice, Rule
from ....domain.profile import Profile
from ...pages import RESULT_PAGES
from ...rendering import Page, render
from ..off_cpu import OffCpuLink, link_off_cpu
from ..results.result_frame import ResultFrame, open_result_frame
from ..results.tables import FILE_RULE, table_file_response

blueprint = Blueprint("advice", __name__)


@dataclass(frozen=True)
class AdviceItem:
    """A piece of advice. severity: high, medium or low. ranks: affected ranks as text; empty for all. where: title
    and URL of the page with details. off_cpu: where the time off the CPU is, or is recorded."""

    severity: str
    title: str
    ranks: str
    evidence: str
    advice: str
    limit: str
    where: str
    url: str
    off_cpu: OffCpuLink | None


@dataclass(frozen=True)
class ThresholdSetting:
    """The threshold of a rule. given: from the URL, else empty. findings_count: number of findings of the rule."""

    key: str
    title: str
    meaning: str
    unit: str
    default: str
    given: str
    findings_count: int


@dataclass(frozen=True)
class AdvicePage(Page):
    """`/results/<id>/advice`. changed_count: number of changed thresholds. hidden: preserved parameters.
    withheld_reason: why advice is withheld, else empty; withheld_advice: what to do then."""

    template: ClassVar[str] = "results/advice.html"
    frame: ResultFrame
    advice: tuple[AdviceItem, ...]
    settings: tuple[ThresholdSetting, ...]
    changed_count: int
    hidden: tuple[tuple[str, str], ...]
    csv: str
    withheld_reason: str
    withheld_advice: str
    applies: bool


@blueprint.get("/results/<id>/advice")
def show(id: str) -> Response:
    """The findings, most serious first, and the rules with their thresholds."""
    frame, profile = open_result_frame(id, "advice")
    thresholds = parse_thresholds(request.args)
    advice = find_advice(profile, frame.selection, thresholds)
    rules = list_rules(profile)
    keys = {rule.key for rule in rules}
    return render(
        AdvicePage(
            frame=frame,
            advice=tuple(build_advice_item(frame, profile, one) for one in advice),
            settings=tuple(
                ThresholdSetting(
                    rule.key,
                    rule.title,
                    rule.threshold_meaning,
                    rule.unit,
                    f"{rule.threshold:g}",
                    f"{thresholds[rule.key]:g}" if rule.key in thresholds else "",
                    sum(one.rule is rule for one in advice),
                )
                for rule in rules
            ),
            changed_count=len(thresholds),
            hidden=tuple((k, v) for k, v in request.args.items(multi=True) if k not in keys),
            csv=frame.url("advice.csv", None, *((k, v) for k, v in request.args.items() if k in keys and v)),
            withheld_reason=withheld_reason(profile),
            withheld_advice=WITHHELD_ADVICE,
            applies=any(page.key == "advice" and page.has_data(profile) for page in RESULT_PAGES),
        )
    )


@blueprint.get(f"/results/<id>/advice.{FILE_RULE}")
def download_table(id: str, file_format: str) -> Response:
    """All findings; columns as `perfloom report` names them."""
    frame, profile = open_result_frame(id, "advice")
    rows: pd.DataFrame = compute_advice(profile, frame.selection, parse_thresholds(request.args))
    return table_file_response(f"{frame.name} advice", file_format, rows)


def build_advice_item(frame: ResultFrame, profile: Profile, advice: Advice) -> AdviceItem:
    """A piece of advice as pages show it."""
    rank = advice.finding.rank
    page = next(
        (page for page in RESULT_PAGES if page.key == advice.rule.page and page.has_data(profile)), RESULT_PAGES[0]
    )
    selection = frame.selection if rank is None else frame.selection.replace(ranks=((rank, rank),))
    return AdviceItem(
        severity=advice.severity,
        title=advice.rule.title,
        ranks=f"ranks {advice.ranks}, worst {rank}" if advice.others else "" if rank is None else f"rank {rank}",
        evidence=advice.evidence,
        advice=advice.finding.advice or advice.rule.advice,
        limit=_limit(advice.rule, advice),
        where=page.title,
        url=frame.url(page.key, selection),
        off_cpu=link_off_cpu(frame, profile) if advice.rule.key in WAITING_RULES else None,
    )


def _limit(rule: Rule, advice: Advice) -> str:
    """The measured value and the threshold."""
    measured, threshold = (rule.format_amount(value) for value in (advice.finding.measured, advice.threshold))
    passed = "below" if rule.triggers_below else "at least"
    return f"{rule.threshold_meaning[:1].upper()}{rule.threshold_meaning[1:]}: {measured}, {passed} {threshold}."
