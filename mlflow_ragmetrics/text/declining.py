"""Texts returned instead of an answer: errors of APIs and programs, and refusals in eight languages.

``non_answers`` has the longer phrase lists for English and Russian, and the rules that apply all lists.
"""

from __future__ import annotations

import re

from mlflow_ragmetrics.text.sentences import word_set
from mlflow_ragmetrics.text.word_lists import pattern_of

_SORRY = (
    r"\W*(?:(?:i['’]?m |i am |we(?:['’]re| are) )?(?:very |so )?(?:sorry|afraid)\W+(?:but )?|o+ps\W+|uh-oh\W+|"
    r"(?:it )?(?:looks|seems) like |(?:к сожалению|извините|простите|упс)\W+)*"
)
ERROR = pattern_of("errors", before=_SORRY)
FAILURE = pattern_of(
    "failures",
    before=_SORRY,
    after=r"(?=\s*(?:$|[.,:;!(\[{–—-])"
    r"|\s+(?:for|while|during|please|after|processing|generating|on our|при|во время)\b)",
)
DECLINES = pattern_of("declines")
CONTRAST = re.compile(
    r"\b(?:aber|sondern|jedoch|allerdings|mais|cependant|toutefois|pero|sino|aunque|ma|però|tuttavia|mas|porém)\b|"
    r"但|不过|然而|しかし|ただし|لكن",
    re.IGNORECASE,
)
# Every pattern contains one of these words or letters; searching for them first is ten times as fast.
NEGATIVE = word_set(
    """nicht keine unbekannt ne sais pas aucune inconnu inconnue non no ni não nao nessuna desconoce desconocido
    desconocida desconheço desconhecido desconhecida sconosciuto sconosciuta"""
)
