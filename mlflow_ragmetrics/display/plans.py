"""What a suite may cost, as a table: calls, tokens and dollars of each language model."""

from __future__ import annotations

from mlflow_ragmetrics.display.document import Block, Heading, Line, Table, cell
from mlflow_ragmetrics.judges.chat.plan import Plan

_PRICES = "Dollars are unknown for some models: give the suite prices, per million tokens."


class Plans(dict[str, Plan]):
    """Plans by name of language model; empty if no language model is needed."""

    def _repr_html_(self) -> str:
        return cell(self.blocks())

    def blocks(self, between: str = "one to three claims per sentence") -> list[Block]:
        """Return the estimates as a table; ``between`` describes what the lowest and highest estimate assume."""
        if not self:
            return [Line("No language model is used: nothing is sent, and the evaluation is free.")]
        columns = ("model", "calls", "prompt tokens", "reply tokens", "dollars")
        rows = []
        for name, plan in self.items():
            most = plan.most or plan
            prompts = _range(plan.prompt_tokens, most.prompt_tokens + most.schema_tokens)
            cost = "unknown" if plan.cost is None or most.cost is None else f"{plan.cost:.4g} to {most.cost:.4g}"
            replies = _range(plan.completion_tokens, most.completion_tokens)
            rows.append((name, _range(plan.calls, most.calls), prompts, replies, cost))
        notes = [f"Nothing was sent. The estimate assumes {between}. Cached answers are free."]
        notes += [_PRICES] if any(plan.cost is None for plan in self.values()) else []
        table = Table(dict(zip(columns, zip(*rows, strict=True), strict=True)), left=["model"])
        return [Heading("Estimated cost"), table, *(Line(note, "faint") for note in notes)]


def _range(least: int, most: int) -> str:
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"
