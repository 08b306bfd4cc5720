"""Traces of an experiment as data: ``traces:/EXPERIMENT?since=24h``, in order of time, while others arrive."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, Union
from urllib.parse import parse_qsl, unquote

from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.rows.traces import is_answered

if TYPE_CHECKING:
    from mlflow.entities import Trace, TraceInfo

__all__ = [
    "SCHEME",
    "TraceSearch",
    "experiment_named",
    "milliseconds",
    "moment",
    "read_traces",
    "whole_trace",
]

SCHEME = "traces:/"
"""With which an address of traces begins."""
_PARTS = ("since", "until", "filter", "sample", "limit")
_PAGE = 100
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(?P<number>\d{1,9})(?P<unit>[smhdw])")


def milliseconds(text: str, param: str) -> int:
    """A duration such as ``90s``, ``30m``, ``24h``, ``7d`` or ``2w``; ``InvalidOptionError`` for anything else.

    >>> milliseconds("24h", "since")
    86400000
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise InvalidOptionError(f"{param}={shown(text)} is not a duration such as 30m, 24h or 7d", param=param)
    return int(found["number"]) * _UNITS[found["unit"]] * 1000


def moment(text: str, param: str) -> int:
    """A point of time in milliseconds since 1970: so long ago (``24h``), or a date with or without a time (UTC)."""
    if _DURATION.fullmatch(text.strip()):
        return int(time.time() * 1000) - milliseconds(text, param)
    try:
        given = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        message = (
            f"{param}={shown(text)} is neither a duration (24h, 7d) nor a date such as 2026-07-01 or 2026-07-01T12:00"
        )
        raise InvalidOptionError(message, param=param) from None
    if given.tzinfo is None:
        given = given.replace(tzinfo=timezone.utc)
    return (given - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1)


@dataclass(frozen=True)
class TraceSearch:
    """Which traces of an experiment: begun from ``since`` to before ``until`` (milliseconds), by MLflow's ``filter``.

    ``sample`` is the share of them that is taken, by their ids: the same traces each time, and with a larger share
    these and others.
    """

    experiment_id: str
    filter: str = ""
    since: int = 0
    until: int = field(default_factory=lambda: int(time.time() * 1000))
    sample: float = 1.0

    def infos(self) -> Iterator[TraceInfo]:
        """What MLflow knows of each trace without its spans, in order of time, each once.

        A page begins at the time at which the last one ended, not at a number of traces: none is left out or given
        twice where traces arrive, change or are deleted meanwhile.
        """
        start, given = self.since, frozenset[str]()
        while True:
            infos, token = self._page(f"timestamp_ms >= {start}")
            yield from (info for info in infos if info.trace_id not in given and self._takes(info.trace_id))
            if token is None or not infos:
                return
            last = infos[-1].request_time
            at_last = given if last == start else frozenset[str]()
            given = at_last | {info.trace_id for info in infos if info.request_time == last}
            if infos[0].request_time == last:  # a page of traces that began in one millisecond
                more: Union[str, None] = None
                while infos:
                    infos, more = self._page(f"timestamp_ms = {last}", more)
                    yield from (info for info in infos if info.trace_id not in given and self._takes(info.trace_id))
                    given |= {info.trace_id for info in infos}
                    if more is None:
                        break
                last, given = last + 1, frozenset()
            start = last

    def _page(self, since: str, token: Union[str, None] = None) -> tuple[list[TraceInfo], Union[str, None]]:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException

        conditions = [since, f"timestamp_ms < {self.until}", *([self.filter] if self.filter else [])]
        try:
            page = MlflowClient().search_traces(
                experiment_ids=[self.experiment_id],
                filter_string=" AND ".join(conditions),
                max_results=_PAGE,
                order_by=["timestamp_ms ASC"],
                page_token=token,
                include_spans=False,
            )
        except MlflowException as error:
            if self.filter and error.error_code == "INVALID_PARAMETER_VALUE":
                message = f"filter={shown(self.filter)} is not one of MLflow's for traces: {error.message}"
                raise InvalidOptionError(message, param="filter") from error
            raise
        return [trace.info for trace in page], page.token or None

    def _takes(self, trace_id: str) -> bool:
        number = int.from_bytes(blake2b(trace_id.encode(), digest_size=8).digest(), "big")
        return number < self.sample * 2**64


def experiment_named(name: str) -> str:
    """The id of the experiment with this name, or this id; ``InvalidDataError`` where there is none."""
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    client = MlflowClient()
    found = client.get_experiment_by_name(name)
    if found is None:
        with suppress(MlflowException):
            found = client.get_experiment(name)
    if found is None or found.lifecycle_stage == "deleted":
        there = ", ".join(each.name for each in client.search_experiments(max_results=5))
        raise InvalidDataError(f"there is no experiment {shown(name)} in MLflow; there are {there}")
    return str(found.experiment_id)


def whole_trace(info: TraceInfo) -> Union[Trace, None]:
    """The trace with its spans; ``None`` where it was deleted meanwhile, or its spans are not there, or not yet."""
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    try:
        trace: Union[Trace, None] = MlflowClient().get_trace(info.trace_id)
    except MlflowException as error:
        status: int = error.get_http_status_code()  # type: ignore[no-untyped-call]
        if 400 <= status < 500 and status not in (401, 403, 408, 429):
            return None
        raise
    return trace


def read_traces(address: str) -> Iterator[Trace]:
    """The traces at ``traces:/EXPERIMENT?since=…&until=…&filter=…&sample=…&limit=…``, with their spans.

    The experiment is a name or an id of the store that MLflow is set to. ``since`` and ``until``: so long ago (``24h``,
    ``7d``) or a date; ``filter`` as MLflow's search takes it; ``sample`` the share that is taken; ``limit`` how many at
    most. Calls that failed or are under way, and traces that an evaluation wrote for its rows, are left out.
    ``InvalidOptionError`` names a part that cannot be read, ``InvalidDataError`` an experiment that is not there.
    """
    search, limit = _parsed(address)
    read = unread = 0
    for info in islice((info for info in search.infos() if is_answered(info)), limit):
        trace = whole_trace(info)
        read, unread = read + (trace is not None), unread + (trace is None)
        if trace is not None:
            yield trace
    if not read:
        raise InvalidDataError(f"{address} holds no trace that was answered; give another since= or filter=")
    if unread:
        warnings.warn(f"{unread} traces are left out: their spans are not in the store", stacklevel=2)


def _parsed(address: str) -> tuple[TraceSearch, Union[int, None]]:
    name, _, query = address.removeprefix(SCHEME).partition("?")
    parts = dict(parse_qsl(query, keep_blank_values=True))
    for part in parts:
        if part not in _PARTS:
            raise InvalidOptionError(f"{address}: {part} is not one of {', '.join(_PARTS)}", param=part)
    options: dict[str, Any] = {name: moment(parts[name], name) for name in ("since", "until") if name in parts}
    sample = _number(parts.get("sample", "1"), "sample")
    if not 0 < sample <= 1:
        raise InvalidOptionError(f"sample={sample:g} must lie above 0 and not above 1", param="sample")
    limit = _number(parts["limit"], "limit") if "limit" in parts else None
    if limit is not None and (limit < 1 or limit != int(limit)):
        raise InvalidOptionError(f"limit={limit:g} must be a whole number from 1", param="limit")
    search = TraceSearch(experiment_named(unquote(name)), parts.get("filter", ""), sample=sample, **options)
    return search, None if limit is None else int(limit)


def _number(text: str, param: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidOptionError(f"{param}={shown(text)} is not a number", param=param) from None
