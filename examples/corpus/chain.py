"""The retriever, the model and the chain over these articles that several examples use."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnablePassthrough
from pydantic import PrivateAttr

CORPUS = Path(__file__).parent
PROMPT = ChatPromptTemplate.from_template(
    "Answer the question in one or two sentences, from these passages only.\n\n{context}\n\nQuestion: {question}"
)
SMALL_WORDS = frozenset(
    [
        *("a", "an", "and", "are", "as", "at", "be", "by", "did", "do", "does", "for", "from", "how", "in", "is", "it"),
        *("may", "of", "on", "or", "the", "to", "was", "what", "when", "which", "who", "why", "with", "were"),
    ]
)


def made_chain(uri: str | None, count: int) -> Runnable[str, str]:
    """A chain that retrieves ``count`` passages, puts them into a prompt and asks a model; ``None`` quotes."""
    retriever = WordRetriever(count=count)
    gather = {"context": retriever | numbered, "question": RunnablePassthrough()}
    return gather | PROMPT | model_of(uri) | StrOutputParser()


def model_of(uri: str | None) -> BaseChatModel:
    if uri is None:
        return QuotingModel()
    from langchain.chat_models import init_chat_model

    return init_chat_model(uri.replace(":/", ":", 1), temperature=0)


def numbered(documents: list[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


def read_questions() -> list[dict[str, Any]]:
    lines = (CORPUS / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def read_passages() -> list[Document]:
    """One document for each paragraph; its id names the article."""
    passages = []
    for path in sorted(CORPUS.glob("*.md")):
        title, *paragraphs = path.read_text(encoding="utf-8").split("\n\n")
        if path.stem != "README":
            for number, paragraph in enumerate(paragraphs, 1):
                text = " ".join(paragraph.split())
                metadata = {"title": title.lstrip("# ")}
                passages.append(Document(page_content=text, id=f"{path.stem}::chunk-{number}", metadata=metadata))
    return passages


def words_of(text: str) -> list[str]:
    """Lower-case words without stop words; a plural counts as its singular."""
    return [word.rstrip("s") for word in re.findall(r"\w+", text.lower()) if word not in SMALL_WORDS]


class WordRetriever(BaseRetriever):
    """Passages by BM25 (k1 = 1.5, b = 0.75), best first."""

    count: int = 2
    _passages: list[Document] = PrivateAttr(default_factory=read_passages)

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        counts = [Counter(words_of(f"{each.metadata['title']} {each.page_content}")) for each in self._passages]
        average = sum(each.total() for each in counts) / len(counts)
        scores = [0.0] * len(counts)
        for word in set(words_of(query)):
            holding = sum(word in each for each in counts)
            rarity = math.log(1 + (len(counts) - holding + 0.5) / (holding + 0.5))
            for place, each in enumerate(counts):
                length = 0.25 + 0.75 * each.total() / average
                scores[place] += rarity * each[word] * 2.5 / (each[word] + 1.5 * length)
        ranked = sorted(range(len(counts)), key=lambda place: -scores[place])
        return [self._passages[place] for place in ranked[: self.count] if scores[place] > 0]


class QuotingModel(BaseChatModel):
    """Replaces a language model: quotes the sentence of the passages that shares most words with the question."""

    @property
    def _llm_type(self) -> str:
        return "quoting"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        passages, _, question = str(messages[-1].content).rpartition("\n\nQuestion: ")
        sentences = re.split(r"(?<=[.!?])\s+", passages.partition("\n\n")[2])
        asked = set(words_of(question))
        best = max(sentences, key=lambda sentence: len(asked & set(words_of(sentence))))
        answer = best if len(asked & set(words_of(best))) > 1 else "I don't know."
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=answer))])
