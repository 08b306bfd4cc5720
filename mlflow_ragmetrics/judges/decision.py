"""A judge that uses a decision model, which answers typed questions with probabilities and writes no text."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from itertools import count
from types import ModuleType, SimpleNamespace
from typing import Any, Final
from zlib import crc32

from langchain_core.runnables import Runnable
from pydantic import ValidationError
from typing_extensions import Unpack

from mlflow_ragmetrics.core.question import (
    AnswersQuestions,
    Claims,
    Finding,
    Grade,
    Judge,
    Nuggets,
    Outcome,
    PassageGrade,
    Question,
    Rating,
    Related,
    RelatedChunks,
    Relevance,
    Sufficiency,
    Tone,
    Verify,
    as_judge,
    decision_class_of,
)
from mlflow_ragmetrics.core.safe_text import keep_secret, redact
from mlflow_ragmetrics.core.score import passes
from mlflow_ragmetrics.errors import InvalidOptionError, JudgeError, JudgeReplyError, MissingExtraError
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge
from mlflow_ragmetrics.judges.chat.claim_tasks import decided
from mlflow_ragmetrics.judges.chat.judge_options import JudgeKeywords
from mlflow_ragmetrics.judges.chat.models import bare_model
from mlflow_ragmetrics.judges.chat.reply import ChatMessage
from mlflow_ragmetrics.judges.chat.tasks import Part, Room
from mlflow_ragmetrics.judges.lexical.lexical_judge import LexicalJudge
from mlflow_ragmetrics.text.messages import said

_NEEDS: Final = "decision models need langchain-core 1.8 or later: pip install -U langchain-core"
_KINDS: Final = ("verify", "related_chunks", "relevance", "sufficiency", "grade", "tone")
_ABOUT_TEXT: Final = {"calls", "max_tokens", "seed", "structured", "temperature"}
_LIKELY: Final = 0.5
_SUMS_WITHIN: Final = 0.01
_TONES: Final = {"cautious": 1.0, "neutral": 0.5, "misleading": 0.0}
_GRADES: Final = ("1", "2", "3", "4", "5")
_RELEVANCE: Final = ("0", "1", "2", "3")
_NUMBERED: Final = ("claims", "contexts", "history")


class DecisionJudge(ChatJudge):
    """Answers questions with a decision model of LangChain, which gives probabilities and writes no text.

    ``model``: a ``BaseDecisionModel`` (langchain-core 1.8 or later) or an ``OpenAIDecisions``. ``claims``: the judge
    that finds claims and nuggets.

    A claim is SUPPORTED if the probability that the texts support it is ``support_threshold`` or more, else
    CONTRADICTED if the probability that they contradict it is 0.5 or more. If both hold, the finding contradicts
    itself, and the claim is not supported. A grade is the expected value of its distribution. ``options``: those of
    ``ChatJudge`` for requests and prompts. ``InvalidOptionError`` names an argument that cannot be used;
    ``MissingExtraError`` if langchain-core is too old.
    """

    def __init__(
        self, model: Any, claims: Any = "lexical", *, language: str = "en", **options: Unpack[JudgeKeywords]
    ) -> None:
        for name in sorted(_ABOUT_TEXT & options.keys()):
            raise InvalidOptionError(f"DecisionJudge has no option {name!r}: its model writes no text", param=name)
        options |= {"calls": "compact", "structured": False}
        bare, _ = bare_model(model)
        keep_secret(bare)
        _forms_of(bare)
        super().__init__(_Sender(bare.model, bare), language=language, **options)
        self.knows_declines = False  # its model writes no text
        if isinstance(claims, str) and claims == "lexical":
            self.claims: Judge = LexicalJudge(language=language)
        else:
            is_judge = not isinstance(claims, str) and isinstance(claims, AnswersQuestions)
            self.claims = as_judge(claims) if is_judge else ChatJudge(claims, language=language)
        questions = crc32(repr(_texts()).encode())
        self._identity = f"{self.fingerprint};questions={questions:08x};claims={self.claims.fingerprint}"
        self.fingerprint = self._identity if self.fingerprint and self.claims.fingerprint else None

    def answer(self, questions: Sequence[Question[Any]]) -> list[Outcome]:
        """One outcome per question. Claims and nuggets come from ``claims``; the other kinds are asked."""
        handed = [question for question in questions if isinstance(question, (Claims, Nuggets))]
        unjudged = [replace(question, passages=()) if isinstance(question, Claims) else question for question in handed]
        decided = [question for question in questions if question.kind in _KINDS]
        outcomes: dict[Question[Any], Outcome] = dict(zip(decided, super().answer(decided), strict=True))
        outcomes.update(zip(handed, self.claims.answer(unjudged) if handed else (), strict=True))
        unknown = f"{self.name}: a decision model does not answer questions of the kind"
        return [outcomes.get(question, JudgeError(f"{unknown} {question.kind!r}")) for question in questions]

    def new_room(self) -> Room:
        """Replies have no limit; prompts are limited to the model's context window, if it is known."""
        return Room(self.form, sys.maxsize, self._client.model.window)

    def messages(self, request: Part) -> list[ChatMessage]:
        """The state and the questions of a request, as JSON."""
        return [self._form(request).message()]

    def _form(self, request: Part) -> _Form:
        evidence_first = sorted(request.questions, key=lambda question: not isinstance(question, RelatedChunks))
        form = _Form(self.name, evidence_first)
        for question in form.asked:
            getattr(self, f"_{question.kind}")(form, question)
        return form

    def _ask(self, request: Part, needed: int) -> dict[Question[Any], Outcome]:
        form = self._form(request)
        form.receive(self._client.reply([form.message()], {"properties": {"model": {}}}).data or {})
        if self.fingerprint and form.model != self.model.model:  # only the response names the model behind an alias
            self.fingerprint = f"{self._identity};answered by {form.model}"
        outcomes: dict[Question[Any], Outcome] = {}
        for question in form.asked:
            try:
                outcomes[question] = getattr(self, f"_{question.kind}")(form, question)
            except JudgeReplyError as error:
                outcomes[question] = error
        return outcomes

    def _verify(self, form: _Form, question: Verify) -> tuple[Finding, ...]:
        claims, texts = form.place("claims", question.claims), form.place(question.against, question.passages)
        if question.question is not None:
            form.place("question", (question.question,))
        related = form.related.get(texts, [])
        evidence = ((related.index(max(related)) + 1, ""),) if related else ()
        findings = []
        for n in range(1, len(question.claims) + 1):
            at = {"n": n, "claims": claims, "texts": texts}
            support = form.probability("supported", **at)
            against = form.probability("contradicted", **at)
            reason = self._say("claim", form, support=support, against=against)
            is_denied = passes(against, _LIKELY)
            at_odds = is_denied and passes(support, self.options.support_threshold)
            verdict = "CONTRADICTED" if is_denied and not at_odds else "NEUTRAL"
            finding = decided(Finding(verdict, reason, support, at_odds=at_odds), self.options.support_threshold)
            findings.append(finding if finding.verdict == "NEUTRAL" else replace(finding, quotes=evidence))
        return tuple(findings)

    def _related_chunks(self, form: _Form, question: RelatedChunks) -> tuple[Related, ...]:
        text, texts = form.place(question.role, (question.text,)), form.place("contexts", question.chunks)
        numbers = range(1, len(question.chunks) + 1)
        shares = form.related[texts] = [form.probability("related", n=n, texts=texts, text=text) for n in numbers]
        likely = [(n, share) for n, share in enumerate(shares, 1) if passes(share, _LIKELY)]
        return tuple([Related(n, reason=self._say("related", form, probability=share)) for n, share in likely])

    def _relevance(self, form: _Form, question: Relevance) -> tuple[PassageGrade, ...]:
        at = form.place_all(question)
        passages = []
        for n in range(1, len(question.passages) + 1):
            shares = form.shares("relevance", "Score", _RELEVANCE, n=n, question=at["question"], texts=at["contexts"])
            grade = sum(level * share for level, share in enumerate(shares)) / sum(shares)
            reason = self._say("relevance", form, grade=grade, probability=max(shares))
            passages.append(PassageGrade(grade, reason=reason))
        return tuple(passages)

    def _sufficiency(self, form: _Form, question: Sufficiency) -> Finding:
        support = form.probability("sufficient", **form.place_all(question))
        return Finding("", self._say("sufficiency", form, probability=support), support)

    def _grade(self, form: _Form, question: Grade) -> Rating:
        texts = ", ".join(form.place_all(question).values())
        rubric = (question.rubric or self.prompts.texts[question.aspect]).strip()
        shares = form.shares("grade", "Score", _GRADES, f"\n{rubric}", aspect=question.aspect, texts=texts)
        grade = sum(float(level) * share for level, share in zip(_GRADES, shares, strict=True)) / sum(shares)
        best = _GRADES[shares.index(max(shares))]
        return Rating(grade, self._say("grade", form, grade=grade, best=best, probability=max(shares)))

    def _tone(self, form: _Form, question: Tone) -> Rating:
        labels = {tone: _texts()[tone] for tone in _TONES}
        shares = form.shares("tone", "Choice", labels, **form.place_all(question))
        tone = list(_TONES)[shares.index(max(shares))]
        return Rating(_TONES[tone], self._say(f"tone.{tone}", form, probability=max(shares)))

    def _say(self, code: str, form: _Form, **values: Any) -> str:
        return said(f"decision.{code}", self.language, model=form.model, **values)


class _Form:
    """One request: texts by name and questions by id.

    The same code runs twice: first it fills the form and gets placeholders, then it reads the answers in ``received``.
    ``JudgeReplyError`` for an answer that is missing, extra or impossible.
    """

    def __init__(self, judge: str, asked: Sequence[Question[Any]]) -> None:
        self.judge, self.asked, self.model = judge, asked, ""
        self.state: dict[str, Any] = {}
        self.questions: dict[str, tuple[str, str, Any]] = {}
        self.related: dict[str, list[float]] = {}
        self._received: Mapping[str, Any] | None = None

    def place(self, name: str, texts: Sequence[str]) -> str:
        """Add the texts to the state, numbered if they are a list; return their name there, such as ``reference_2``."""
        value = {str(n): text for n, text in enumerate(texts, 1)} if name in _NUMBERED else texts[0]
        return _name_in(self.state, "passages" if name == "contexts" else name, value)

    def place_all(self, question: Question[Any]) -> dict[str, str]:
        """Add all texts of the question to the state; return their names there by their names in the question."""
        return {name: self.place(name, texts) for name, texts in question.named_texts().items() if texts}

    def message(self) -> ChatMessage:
        """The request as JSON, which is also used to count its tokens."""
        return "state", json.dumps({"state": self.state, "questions": self.questions}, ensure_ascii=False)

    def receive(self, data: Mapping[str, Any]) -> None:
        """Store the response; ``JudgeReplyError`` if it answers a question that was not asked."""
        self.model = redact(str(data.get("model")))
        self._received = data.get("answers") or {}
        self.related.clear()
        for name in sorted(self._received.keys() - self.questions.keys()):
            raise JudgeReplyError(f"{self.judge}: the response answers {name!r}, which was not asked")

    def probability(self, code: str, **at: Any) -> float:
        """The probability that the answer to the question ``code`` is yes; ``at`` names its texts in the state."""
        return self.shares(code, "Noul", ("yes",), **at)[0]

    def shares(self, code: str, kind: str, labels: Collection[str], rubric: str = "", **at: Any) -> list[float]:
        """The probability of each label, or of each level of a score."""
        form = (kind, f"{_texts()['rule']}\n{_texts()[code].format(**at)}{rubric}", labels)
        name = _name_in(self.questions, "_".join([code, *map(str, at.values())]).replace(", ", "_"), form)
        if self._received is None:
            return [1 / len(labels)] * len(labels)
        answer: Mapping[str, Any] = self._received.get(name) or {}
        if answer.get("type") == "refusal":
            raise JudgeReplyError(f"{self.judge}: the model refused to answer {name!r}", code="refused")
        given: Mapping[str, Any] = answer.get("probabilities") or {"yes": answer.get("noul", answer.get("probability"))}
        keys = [str(n) for n in range(len(labels))] if kind == "Score" else list(labels)
        shares: list[Any] = [given.get(key) for key in keys]
        if given.keys() != {*keys} or not all(type(share) in (int, float) and 0 <= share <= 1 for share in shares):
            raise JudgeReplyError(f"{self.judge}: {name!r} needs a probability for {', '.join(keys)}, not {answer}")
        if kind != "Noul" and abs(sum(shares) - 1) > _SUMS_WITHIN:
            raise JudgeReplyError(f"{self.judge}: the probabilities for {name!r} sum to {sum(shares):.4g}, not 1")
        return shares


def _name_in(taken: dict[str, Any], name: str, value: Any) -> str:
    """Add the value to ``taken`` and return its name: ``name``, or ``name_2`` and so on if that name is taken."""
    names = (name if n == 1 else f"{name}_{n}" for n in count(1))
    return next(candidate for candidate in names if taken.setdefault(candidate, value) == value)


@lru_cache(maxsize=1)
def _texts() -> dict[str, str]:
    """The texts of all questions by name."""
    lines = (files("mlflow_ragmetrics.judges") / "decision_questions.txt").read_text(encoding="utf-8").splitlines()
    return {name: text for name, _, text in (line.partition(": ") for line in lines)}


@dataclass(frozen=True, eq=False)
class _Sender(Runnable[Any, Any]):
    """Calls a decision model like a chat model: request and reply are JSON messages.

    ``model``: the name of the decision model ``decides``.
    """

    model: str
    decides: Any

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        """The response as JSON, with its usage; ``JudgeReplyError`` if it does not have the form of a response."""
        request, forms = json.loads(input[0][1]), _forms_of(self.decides)
        root, yes, labelled = "state", "Noul", {"Choice": "criteria", "Score": "criteria"}
        if not hasattr(forms, yes):  # langchain-openai uses other names
            root, yes, labelled = "input", "Predicate", {"Choice": "choices", "Score": "levels"}
        questions = {}
        for name, (kind, text, labels) in request["questions"].items():
            typed = {labelled[kind]: labels} if kind in labelled else {}
            questions[name] = getattr(forms, kind if typed else yes)(instructions=text, **typed)
        try:
            response = self.decides.invoke({root: request["state"], "questions": questions}, config)
        except Exception as error:
            for fault in (error, error.__cause__):
                if isinstance(fault, ValidationError):
                    said_of = f"{'.'.join(map(str, fault.errors()[0]['loc']))}: {fault.errors()[0]['msg']}"
                    raise JudgeReplyError(f"{self.model}: the response is not valid: {said_of}") from None
            raise
        if not isinstance(getattr(response, "answers", None), Mapping):
            raise JudgeReplyError(f"{self.model}: {type(response).__name__} is from an incompatible langchain-core")
        usage = {name: number for name, number in dict(response.usage or {}).items() if number}
        return SimpleNamespace(content=response.model_dump_json(), usage_metadata=usage)


def _forms_of(model: Any) -> ModuleType:
    """The module that defines the kinds of questions for this model."""
    kind = decision_class_of(model)
    if kind is not None:
        return import_module(".".join(kind.__module__.split(".")[:2]))
    if find_spec("langchain_core.decisions") is None:
        raise MissingExtraError(_NEEDS)
    message = f"model={type(model).__name__} is not a decision model; give one without fallbacks"
    raise InvalidOptionError(message, param="model")
