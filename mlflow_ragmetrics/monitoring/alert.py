"""Who is told when quality falls: a command, or a webhook. Neither the address nor the command is ever logged."""

from __future__ import annotations

import os
import shlex
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from functools import partial
from http.client import HTTPException
from typing import Any, Union

from mlflow_ragmetrics.core.json_text import as_json
from mlflow_ragmetrics.core.secrets import keep_secret
from mlflow_ragmetrics.engine.threads import run_in_thread
from mlflow_ragmetrics.errors import InvalidOptionError

__all__ = ["check_alert", "send"]

_SECONDS = 30


def check_alert(target: str) -> None:
    """``InvalidOptionError`` for what is neither an http(s) address nor a command line; it is secret from now on."""
    keep_secret(target)
    if not target.strip():
        raise InvalidOptionError("alert is empty; give a command, or the http(s) address of a webhook", param="alert")
    if not _is_address(target):
        try:
            shlex.split(target)
        except ValueError as error:
            raise InvalidOptionError(f"alert: the command cannot be read: {error}", param="alert") from None


def send(target: str, text: str, about: Mapping[str, Any]) -> Union[str, None]:
    """Tell ``target``, and return why that failed, without the target; ``None`` where it was told.

    A webhook is posted JSON with ``text`` (which Slack and Mattermost show) and what is ``about``. A command gets the
    same on its standard input, and the text in the variable ``RAGMETRICS_ALERT_TEXT``; it has 30 seconds.
    """
    content = as_json({"text": text, **about})
    return _post(target, content) if _is_address(target) else _run(target, content, text)


def _is_address(target: str) -> bool:
    return target.lower().startswith(("http://", "https://"))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Urllib makes a GET without content of a POST that is redirected: nobody would be told, and none would notice."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _post(address: str, content: str) -> Union[str, None]:
    headers = {"Content-Type": "application/json", "User-Agent": "mlflow_ragmetrics"}
    try:
        request = urllib.request.Request(address, content.encode(), headers)
        run_in_thread(partial(_opened, request), _SECONDS)  # its own limit is one on each byte
    except urllib.error.HTTPError as error:
        return f"the webhook answered {error.code}"
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", None)
        return f"the webhook was not reached ({type(reason if isinstance(reason, Exception) else error).__name__})"
    return None


def _opened(request: urllib.request.Request) -> None:
    with urllib.request.build_opener(_NoRedirect).open(request, timeout=_SECONDS):
        pass


def _run(command: str, content: str, text: str) -> Union[str, None]:
    try:
        done = subprocess.run(
            shlex.split(command),
            input=content.encode(),
            env={**os.environ, "RAGMETRICS_ALERT_TEXT": text},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the alert's command did not end within {_SECONDS} seconds"
    except (OSError, ValueError) as error:
        return f"the alert's command could not be started ({type(error).__name__})"
    return None if done.returncode == 0 else f"the alert's command ended with {done.returncode}"
