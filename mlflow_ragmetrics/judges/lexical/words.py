"""Small closed word lists, English and Russian: function words, negators, opposites, abbreviations, units, numbers."""

from __future__ import annotations

from importlib import resources

__all__ = [
    "ABBREVIATIONS",
    "ABOUT_PASSAGES",
    "CLOSING_ABBREVIATIONS",
    "CURRENCY_SIGNS",
    "IMPLICIT_NEGATIONS",
    "MONTHS",
    "NEGATORS",
    "NUMBERED",
    "OPPOSITES",
    "ORDINALS",
    "SCALES",
    "SPELLED",
    "SPELLED_NUMBERS",
    "STOP_WORDS",
    "SUBJECTS",
    "SYNONYMS",
    "UNITS",
    "UNITS_BEHIND_NUMBERS",
]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


STOP_WORDS = _words(
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

ABOUT_PASSAGES = _words(
    """passag provid mention base accord inform text context state given specif howev overal addit summari summar
    conclus note answer question step follow отрывок отрывк текст контекст согласн упомянут указа ответ
    вопрос"""
)

# Stems that a number behind them only names: "passage 2", "step 6".
NUMBERED = _words(
    """passag step document sourc excerpt chunk paragraph section figur tabl отрывок отрывк шаг документ источник
    раздел"""
)

NEGATORS = _words(
    """not no never neither nor cannot without none nobody nothing nowhere hardly не нет ни никогда нельзя без
    никто ничто ничего нигде никакой никакая никакие"""
)

IMPLICIT_NEGATIONS = _words(
    """avoid prevent fail refus lack unabl stop prohibit forbid deni reject избега избежа предотвра запрет отказа
    отсутств"""
)

_OPPOSITES = """
    increase decrease|increased decreased|rise fall|rose fell|rising falling|grow shrink|grew shrank|gain loss
    gained lost|up down|high low|higher lower|highest lowest|more less|most least|major minor|large small|larger smaller
    largest smallest|big small|bigger smaller|biggest smallest|long short|longer shorter|longest shortest
    before after|earlier later|early late|first last|earliest latest|old new|older younger|oldest youngest|old young
    hot cold|hotter colder|warm cool|wet dry|hard soft|strong weak|fast slow|faster slower|rich poor|heavy light
    north south|northern southern|east west|eastern western|left right|top bottom|upper lower|inside outside
    true false|always never|all none|possible impossible|legal illegal|safe unsafe|safe dangerous|able unable
    allow forbid|allowed forbidden|permit prohibit|permitted prohibited|accept reject|accepted rejected|win lose
    won lost|victory defeat|begin end|began ended|start finish|started finished|open close|opened closed|open closed
    male female|man woman|men women|boy girl|son daughter|brother sister|father mother|husband wife|king queen
    positive negative|active inactive|public private|buy sell|bought sold|import export|imported exported
    maximum minimum|majority minority|present absent|present past|include exclude|included excluded|success failure
    succeeded failed|same different|alive dead|born died|birth death|day night|good bad|better worse|best worst
    visible invisible|regular irregular|complete incomplete|correct incorrect|common rare|expensive cheap
    improve worsen|improved worsened|with without|full empty|above below|over under|cause prevent|causes prevents
    acquired sold|raised lowered|raise lower|enable disable|enabled disabled|asymptomatic symptomatic
    увеличить уменьшить|увеличился уменьшился|увеличение уменьшение|рост падение|вырос упал|выросли упали|расти падать
    повысить понизить|повысил понизил|повышение понижение|больше меньше|большой маленький|высокий низкий|выше ниже
    до после|раньше позже|ранний поздний|первый последний|старый новый|молодой старый|старший младший
    горячий холодный|тёплый холодный|сильный слабый|быстрый медленный|длинный короткий|богатый бедный
    северный южный|север юг|восток запад|восточный западный|левый правый|верхний нижний|внутри снаружи
    всегда никогда|возможно невозможно|разрешить запретить|разрешено запрещено|принять отклонить
    победа поражение|победил проиграл|выиграл проиграл|начало конец|начался закончился|открыть закрыть|открыт закрыт
    мужчина женщина|мальчик девочка|сын дочь|брат сестра|отец мать|муж жена|родился умер|рождение смерть
    положительный отрицательный|купить продать|купил продал|максимум минимум|дорогой дешёвый|лучший худший
    """

OPPOSITES: tuple[tuple[str, str], ...] = tuple(
    (left, right)
    for line in _OPPOSITES.split("\n")
    for pair in line.split("|")
    if pair.strip()
    for left, right in [pair.split()]
)

SYNONYMS: tuple[tuple[str, ...], ...] = tuple(
    tuple(line.split())
    for line in resources.files(__package__).joinpath("synonyms.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
)

# Units that a number may have, written in full, by what they measure; other spellings are synonyms.
UNITS: dict[str, frozenset[str]] = {
    "share": _words("percent point процент"),
    "money": _words("dollar euro rouble pound cent доллар евро рубль"),
    "temperature": _words("celsius fahrenheit градус"),
    "length": _words("kilometer meter centimeter millimeter mile foot inch yard километр метр сантиметр"),
    "mass": _words("kilogram gram milligram microgram pound ounce ton килограмм грамм миллиграмм тонна"),
    "volume": _words("liter milliliter tablespoon teaspoon cup pint quart gallon литр"),
    "time": _words(
        "second minute hour day week month year decade century секунда минута час день неделя месяц год век"
    ),
    "speed": _words("kph mph"),
    "power": _words("watt kilowatt megawatt"),
    "area": _words("acre hectare гектар"),
}

# Abbreviations that are units only behind a number.
UNITS_BEHIND_NUMBERS = {"m": "meter", "mi": "mile", "g": "gram", "l": "liter", "h": "hour", "м": "метр", "г": "год"}

CURRENCY_SIGNS = frozenset("$€£₽")

ABBREVIATIONS = _words(
    """mr mrs ms dr prof st gen col lt sgt capt rev hon sen rep gov pres vs e.g i.e cf no nos fig figs vol pp ed eds ch
    approx ca al jan feb mar apr jun jul aug sep sept oct nov dec mt ft т г ул им см напр рис стр др акад проф д т.е
    п гл"""
)

CLOSING_ABBREVIATIONS = _words(
    """etc inc ltd co corp jr sr u.s u.k u.s.a a.m p.m ph.d b.c a.d d.c гг в вв руб млн млрд тыс т.д т.п н.э
    км кг"""
)

SUBJECTS = _words(
    """he she it they we you i this that these those there the his her its their он она оно они это этот эта эти мы вы
    его её их"""
)


_ENGLISH_UNITS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen"""
SPELLED_NUMBERS = {word: value for value, word in enumerate(_ENGLISH_UNITS.split())}
_RUSSIAN_UNITS = """ноль|один одна одно одного одной одним|два две двух двум двумя|три трёх трех трём трем тремя
    |четыре четырёх четырех четырем четырьмя|пять пяти пятью|шесть шести шестью|семь семи семью
    |восемь восьми восьмью|девять девяти девятью|десять десяти десятью|одиннадцать одиннадцати
    |двенадцать двенадцати|тринадцать тринадцати|четырнадцать четырнадцати|пятнадцать пятнадцати
    |шестнадцать шестнадцати|семнадцать семнадцати|восемнадцать восемнадцати|девятнадцать девятнадцати"""
SPELLED_NUMBERS.update({word: value for value, words in enumerate(_RUSSIAN_UNITS.split("|")) for word in words.split()})
_TENS = """twenty двадцать двадцати|thirty тридцать тридцати|forty сорок сорока|fifty пятьдесят пятидесяти
    |sixty шестьдесят шестидесяти|seventy семьдесят семидесяти|eighty восемьдесят восьмидесяти|ninety девяносто"""
SPELLED_NUMBERS.update(
    {word: 10 * (2 + place) for place, words in enumerate(_TENS.split("|")) for word in words.split()}
)
_HUNDREDS = """сто ста|двести двухсот|триста трёхсот трехсот|четыреста четырёхсот четырехсот|пятьсот пятисот
    |шестьсот шестисот|семьсот семисот|восемьсот восьмисот|девятьсот девятисот"""
SPELLED_NUMBERS.update(
    {word: 100 * (1 + place) for place, words in enumerate(_HUNDREDS.split("|")) for word in words.split()}
)

SCALES = {"hundred": 100}
for _value, _spelled in (
    (1_000, "thousand thousands k тысяча тысячи тысяч тысячу тыс"),
    (1_000_000, "million millions mn mln миллион миллиона миллионов млн"),
    (1_000_000_000, "billion billions bn миллиард миллиарда миллиардов млрд"),
    (1_000_000_000_000, "trillion trillions триллион триллиона триллионов трлн"),
):
    SCALES.update(dict.fromkeys(_spelled.split(), _value))

SPELLED = frozenset(SPELLED_NUMBERS) | {word for word in SCALES if len(word) > 3 and word != "hundred"}

ORDINALS = {
    "1st": "first", "2nd": "second", "3rd": "third", "4th": "fourth", "5th": "fifth",
    "6th": "sixth", "7th": "seventh", "8th": "eighth", "9th": "ninth", "10th": "tenth",
}  # fmt: skip

_MONTH_NAMES = """january jan январь января январе янв|february feb февраль февраля феврале фев
    |march mar март марта марте|april apr апрель апреля апреле апр|may май мая мае|june jun июнь июня июне
    |july jul июль июля июле|august aug август августа августе авг
    |september sep sept сентябрь сентября сентябре сен|october oct октябрь октября октябре окт
    |november nov ноябрь ноября ноябре ноя|december dec декабрь декабря декабре дек"""
MONTHS = {word: place for place, words in enumerate(_MONTH_NAMES.split("|"), start=1) for word in words.split()}
