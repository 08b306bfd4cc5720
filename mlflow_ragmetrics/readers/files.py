"""Files of rows: which reader takes which extension, and what can be wrong with a file as such."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, cast

from mlflow_ragmetrics.errors import InvalidDataError, MissingExtraError
from mlflow_ragmetrics.readers.text_files import read_delimited, read_json, read_json_lines

__all__ = ["read_parquet", "read_file"]

_BATCH_ROWS = 1024


def read_parquet(file: Path) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file; nulls are missing values.

    Raises:
        InvalidDataError: where the file is no Parquet.
        MissingExtraError: without pyarrow.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError(f"{file} needs pyarrow to be read: pip install pyarrow.") from error
    try:
        with pyarrow.parquet.ParquetFile(file) as table:
            for batch in table.iter_batches(batch_size=_BATCH_ROWS):
                yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:  # also texts that are not UTF-8
        raise InvalidDataError(f"{file} cannot be read as Parquet: {error}.") from error


Row = dict[str, Any]
_LONGEST_NAME = 200


def read_file(path: str | os.PathLike[str]) -> Iterator[Row]:
    """The rows of a ``.tsv``, ``.csv``, ``.jsonl``, ``.json`` (each also ``.gz``) or ``.parquet`` file, streaming.

    Text is UTF-8, with or without a byte order mark.

    Raises:
        InvalidDataError: one sentence that names the file, the line or row and what is accepted.
    """
    file = Path(path)
    extension = _extension(file)
    rows = 0
    for row in _READERS[extension](file):
        rows += 1
        yield row
    if not rows:
        raise InvalidDataError(f"{file} has no rows: it is empty or holds nothing but a header.")


def _extension(file: Path) -> str:
    suffixes = [suffix.lower() for suffix in file.suffixes]
    extension = suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else "".join(suffixes[-1:])
    try:
        directory, there = file.is_dir(), file.exists()
    except (OSError, ValueError) as error:  # a name too long, or with a NUL or half of a surrogate pair
        shown = str(file)[:_LONGEST_NAME]
        raise InvalidDataError(f"{shown!a} is no name of a file here: {error.__class__.__name__}.") from None
    if directory:
        raise InvalidDataError(f"{file} is a directory; name a file in it.")
    if not there:
        raise InvalidDataError(f"{file} does not exist; check the path (it is relative to {Path.cwd()}).")
    if extension not in _READERS or (extension == ".parquet" and suffixes[-1] == ".gz"):
        accepted = ", ".join(_READERS)
        raise InvalidDataError(f"{file} has an extension that is not accepted; accepted are {accepted}.")
    return extension


@contextmanager
def _opened(file: Path) -> Iterator[TextIO]:
    """The file as text; what goes wrong while it is read becomes one sentence."""
    try:
        with _open(file) as stream:
            yield stream
    except UnicodeDecodeError as error:
        raise InvalidDataError(f"{file} is not UTF-8 text ({error.reason}); save it as UTF-8.") from error
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidDataError(f"{file} cannot be read: {reason}.") from error


def _open(file: Path) -> TextIO:
    if file.suffix.lower() == ".gz":
        return cast(TextIO, gzip.open(file, "rt", encoding="utf-8-sig", newline=""))
    return open(file, encoding="utf-8-sig", newline="")


def _text_rows(read: Callable[[TextIO, Path], Iterator[Row]]) -> Callable[[Path], Iterator[Row]]:
    def rows(file: Path) -> Iterator[Row]:
        with _opened(file) as stream:
            yield from read(stream, file)

    return rows


def _tsv(stream: TextIO, file: Path) -> Iterator[Row]:
    return read_delimited(stream, file, "\t")


def _csv(stream: TextIO, file: Path) -> Iterator[Row]:
    return read_delimited(stream, file, ",")


_READERS: Mapping[str, Callable[[Path], Iterator[Row]]] = {
    ".tsv": _text_rows(_tsv),
    ".csv": _text_rows(_csv),
    ".jsonl": _text_rows(read_json_lines),
    ".json": _text_rows(read_json),
    ".parquet": read_parquet,
}
