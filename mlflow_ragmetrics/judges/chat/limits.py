"""How much a judge may ask: requests and tokens per minute, calls and money; and what it has cost."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass

from mlflow_ragmetrics.engine.questions import ChargesCaller, charge
from mlflow_ragmetrics.errors import BudgetExceededError
from mlflow_ragmetrics.judges.chat.options import Prices

_MINUTE = 60.0
_PATIENCE = 1.0


class TokenLimiter:
    """Limits the tokens that are sent over any 60 seconds to ``tokens_per_minute``.

    A request that is larger than the limit passes alone. ``hold`` stops all requests for a while, as ``Retry-After``
    asks.
    """

    def __init__(self, tokens_per_minute: float | None = None, *, now: Callable[[], float] = time.monotonic) -> None:
        self.tokens = tokens_per_minute
        self._now = now
        self._passed: deque[tuple[float, int]] = deque()
        self._spent = 0
        self._held_until = 0.0
        self._lock = threading.Lock()

    def enter(self, tokens: int) -> float:
        """Seconds to wait before a request of ``tokens`` tokens; 0.0 means it may be sent now, and counts it."""
        with self._lock:
            now = self._now()
            self._forget(now)
            wait = max(self._held_until - now, self._wait_for_room(tokens, now))
            if wait <= 0 and self.tokens is not None:
                self._passed.append((now, tokens))
                self._spent += tokens
            return max(0.0, wait)

    def hold(self, seconds: float) -> None:
        """Let nothing pass for so many seconds from now."""
        with self._lock:
            self._held_until = max(self._held_until, self._now() + seconds)

    def _wait_for_room(self, tokens: int, now: float) -> float:
        if self.tokens is None or not self._passed or self._spent + tokens <= self.tokens:
            return 0.0
        return self._passed[0][0] + _MINUTE - now

    def _forget(self, now: float) -> None:
        while self._passed and self._passed[0][0] <= now - _MINUTE:
            self._spent -= self._passed.popleft()[1]


def tokens_in(text: str) -> int:
    """The tokens of a text, estimated as a quarter of its characters, rounded up."""
    return -(-len(text) // 4)


@dataclass
class _Counts:
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    estimated_calls: int = 0
    retries: int = 0
    repairs: int = 0


@dataclass(eq=False)
class Request:
    """A request that was sent and is not answered: what it may cost at most, in tokens."""

    prompt: int
    completion: int


class Usage(ChargesCaller):
    """A meter that many threads read and advance at once.

    ``calls`` are requests that were sent, answered or not; ``estimated_calls`` those whose provider did not report
    tokens: these are counted as a quarter of the characters.
    """

    def __init__(self, prices: Prices | None = None) -> None:
        self.prices = prices
        self._counts = _Counts()
        self._open: dict[Request, None] = {}
        self._lost: dict[Request, None] = {}
        self._underestimated = 1.0
        self._changed = threading.Condition()

    def add(self, **counts: int) -> None:
        """Add to the counts of these names."""
        with self._changed:
            for name, count in counts.items():
                setattr(self._counts, name, getattr(self._counts, name) + count)
        charge(counts)

    @property
    def calls(self) -> int:
        """Requests sent so far."""
        return self._counts.calls

    @property
    def cost(self) -> float | None:
        """Dollars spent so far; ``None`` where the prices are not known."""
        with self._changed:
            return self._cost()

    def snapshot(self) -> dict[str, float]:
        """All counts by name, and ``cost`` where the prices are known."""
        with self._changed:
            counts: dict[str, float] = asdict(self._counts)
            cost = self._cost()
        return counts if cost is None else {**counts, "cost": cost}

    def begin_call(self, budget: Budget, prompt_tokens: int, most_tokens: int) -> Request:
        """Count a request before it is sent; ``BudgetExceededError`` where the budget does not cover it.

        Requests that are still open, or whose reply was lost, count with their prompts and as long a reply as they
        allow. One that only they keep out waits until they are answered.
        """
        request = Request(prompt_tokens, most_tokens)
        with self._changed:
            while True:
                budget.check_calls(self._counts.calls)
                if budget.covers(self._expected_cost([*self._open, *self._lost, request])):
                    break
                if not self._open or not budget.covers(self._expected_cost([*self._lost, request])):
                    raise budget.cost_exceeded()
                self._changed.wait(_PATIENCE)
            self._counts.calls += 1
            self._open[request] = None
        charge({"calls": 1})
        return request

    def end_call(self, request: Request, *, lost: bool = False) -> None:
        """Note that a request is over; one that was ``lost`` may have been paid for, though no reply came."""
        with self._changed:
            if self._open.pop(request, request) is None and lost:
                self._lost[request] = None
            self._changed.notify_all()

    def answered(self, request: Request, *, prompt: int, completion: int, cached: int, estimated: bool) -> None:
        """Count the tokens of a request in place of what it might have cost."""
        counts = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "cached_tokens": cached,
            "estimated_calls": int(estimated),
        }
        with self._changed:
            self._open.pop(request, None)
            self._underestimated = max(self._underestimated, prompt / max(1, request.prompt))
            for name, count in counts.items():
                setattr(self._counts, name, getattr(self._counts, name) + count)
            self._changed.notify_all()
        cost = {} if self.prices is None else {"cost": self.prices.cost(prompt, completion, cached)}
        charge({**counts, **cost})

    def _expected_cost(self, unanswered: list[Request]) -> float | None:
        spent = self._cost()
        if self.prices is None or spent is None:
            return None
        prompts = self._underestimated * sum(request.prompt for request in unanswered)
        return spent + self.prices.cost(prompts, sum(request.completion for request in unanswered))

    def _cost(self) -> float | None:
        counts = self._counts
        if self.prices is None:
            return None
        return self.prices.cost(counts.prompt_tokens, counts.completion_tokens, counts.cached_tokens)


@dataclass(frozen=True)
class Budget:
    """The most that a judge may cost over its life: requests and dollars."""

    judge: str
    max_calls: int | None = None
    max_cost: float | None = None

    def check_calls(self, calls: int) -> None:
        """``BudgetExceededError`` where one more request after ``calls`` is too much."""
        if self.max_calls is not None and calls >= self.max_calls:
            raise self._exceeded(f"max_calls={self.max_calls} is reached")

    def covers(self, cost: float | None) -> bool:
        """Whether so many dollars may be spent."""
        return self.max_cost is None or cost is None or cost <= self.max_cost

    def cost_exceeded(self) -> BudgetExceededError:
        """What a request is refused with that might cost more than is left."""
        return self._exceeded(f"max_cost={self.max_cost} is reached, or would be by one more call")

    def _exceeded(self, limit: str) -> BudgetExceededError:
        message = f"{self.judge}: {limit}; what was answered before is kept, raise the limit to go on"
        return BudgetExceededError(message, fatal=True, code="budget")
