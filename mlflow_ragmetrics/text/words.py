"""Function words and abbreviations, English and Russian."""

from __future__ import annotations


def word_set(text: str) -> frozenset[str]:
    """The words of a list that is written as one text."""
    return frozenset(text.split())


STOP_WORDS = word_set(
    """
    a about above according after again all also although always am an and another any anyone anything are around as at
    be because been before being below best between both but by can cannot could did do does doing done down due during
    each either else etc even ever every few for from further get gets given good had has have having he hence her here
    hers herself him himself his how however i if important in include includes including instead into is it its itself
    just know let like make makes making many may me might mine more most much must my myself need needs neither never
    no nor not now of off often on once one only onto or other others our ours ourselves out over own per please rather
    same several shall she should since so some someone something such take than that the their theirs them themselves
    then there therefore these they thing things this those though through thus to too under until up upon us use used
    using usually various very via want was way ways we well were what when where whether which while who whom whose why
    will with within without would yet you your yours yourself yourselves
    а без более больше будет будто бы был была были было быть в вам вас весь во вот все всё всего всех вы где да даже
    для до его ее её если есть еще ещё ею же за здесь и из или им ими их к как какая какой когда которая которого
    которое которой который которые которых кто ли либо между меня мне может можно мой моя мы на над надо наш не него
    нее неё нет ни них но ну о об однако он она они оно от очень по под после потому почти при про с сам свой свою
    себе себя со так такая также такие такой там те тем то тогда того тоже той только том тот тут ты у уже хотя чего
    чей чем через что чтобы эта эти это этого этой этом этот эту я является являются
    """
)

ABBREVIATIONS = word_set(
    """mr mrs ms dr prof gen col lt sgt capt rev hon sen rep gov pres vs e.g i.e cf ca approx fig figs vol pp ed eds ch
    mt т е ул им см напр рис стр акад проф д т.е п гл св"""
)

# They end a sentence only before a function word: "in Washington D.C. The city …", but "Washington D.C. Police".
CLOSING_ABBREVIATIONS = word_set(
    """etc inc ltd co corp jr sr u.s u.k u.s.a a.m p.m ph.d b.c a.d d.c al st ft jan feb mar apr jun jul aug sep sept
    oct nov dec г гг в вв др руб млн млрд тыс т.д т.п н.э км кг"""
)

# Abbreviations before a number only, words otherwise: "No. 5", but "No. It is."
NUMBER_ABBREVIATIONS = word_set("no nos art sec")
