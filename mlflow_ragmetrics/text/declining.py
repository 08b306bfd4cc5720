"""Texts in place of an answer: the errors of APIs and programs, and refusals in eight languages by short rules.

``non_answers`` has the longer lists of phrases for English and Russian.
"""

from __future__ import annotations

import re

from mlflow_ragmetrics.text.sentences import word_set

_SORRY = (
    r"\W*(?:(?:i['’]?m |i am |we(?:['’]re| are) )?(?:very |so )?(?:sorry|afraid)\W+(?:but )?|o+ps\W+|uh-oh\W+|"
    r"(?:it )?(?:looks|seems) like |(?:к сожалению|извините|простите|упс)\W+)*"
)
_ERROR = re.compile(
    _SORRY + r"(?:traceback \(most recent call last\)"
    r"|[\[{(]\s*[\"']?(?:error|detail|exception)[\"']?\s*:"
    r"|(?:[a-z_]\w*\.)*\w*error\s*:"
    r"|(?:[a-z_]\w*\.)*\w+(?:error|exception)\s*[:(]"
    r"|(?:error|код ошибки|ошибка)(?: code| код)?\W{0,3}[1-5]\d\d\b\s*(?:$|[-–—:.,({\[])"
    r"|(?:http|status)(?:/[\d.]+)?(?: error| status)?(?: code)?\W{0,3}[45]\d\d\b\s*[-–—:({\[]"
    r"|(?:(?:http|error)\W{0,2})?[45]\d\d\b\W{0,3}(?:(?:client|server) error\b|(?:internal server error|bad gateway|"
    r"service unavailable|gateway time-?out|too many requests|unauthorized|forbidden|not found)\W*(?:$|[\n:]))"
    r"|this model['’]s maximum context length is)",
    re.IGNORECASE,
)
_FAILURE = re.compile(
    _SORRY + r"(?:(?:an? )?internal server error|bad gateway|service (?:temporarily )?unavailable|gateway time-?out|"
    r"too many requests|(?:api )?(?:rate|request|token) limit (?:was |has been )?(?:reached|exceeded)|rate limited|"
    r"(?:you(?:['’]ve| have)? )?exceeded your (?:current )?quota|(?:insufficient[ _]quota|quota (?:was )?exceeded)|"
    r"(?:incorrect|invalid) api key(?: provided)?|(?:something|it) went wrong|"
    r"(?:an?|the following|some) (?:\w+ )?(?:error|exception|problem) (?:has |was )?(?:occurred|happened|encountered)|"
    r"there was an? (?:\w+ )?(?:error|problem|issue) (?:while |when |with )?(?:\w+ing|the|your|with)\b[^.!?]*|"
    r"(?:the |your |our |this )?(?:\w+ )?(?:request|connection|operation|call|model|server|service|api|system) "
    r"(?:has |was |is |could )?(?:currently |temporarily |not be )*(?:timed out|time-?out|refused|reset|aborted|"
    r"failed|overloaded|unavailable|not available|processed|completed|error)|"
    r"внутренняя ошибка сервера|превышен[оа]? (?:лимит|количество|число|время)[^.!?]*|слишком много запросов|"
    r"что-то пошло не так|произошла (?:\w+ )?ошибка|время ожидания[^.!?]* истекло|"
    r"(?:сервис|сервер|служба|модель) (?:\w+ )?(?:недоступ\w+|перегружен\w*|не отвечает)|"
    r"не удалось (?:обработать|выполнить) (?:ваш )?запрос)"
    r"(?=\s*(?:$|[.,:;!(\[{–—-])|\s+(?:for|while|during|please|after|processing|generating|on our|при|во время)\b)",
    re.IGNORECASE,
)
_MOST_WORDS = 60

_DECLINES = re.compile(
    # German
    r"\bwei(?:ß|ss) ich (?:es |das )?(?:leider |auch )*nicht\b|\bich wei(?:ß|ss) (?:es |das |die antwort )?(?:leider |"
    r"auch )*nicht\b|\bkeine ahnung\b|\bich bin (?:mir )?(?:\w+ )?(?:nicht sicher|unsicher)\b"
    r"|\b(?:kann ich|ich kann) (?:\w+ ){0,6}(?:nicht (?:beantworten|sagen|beurteilen)|keine (?:antwort|auskunft|"
    r"angaben))\b|\bkeine (?:\w+ ){0,2}(?:information(?:en)?|angaben?|daten|antwort|hinweise?) (?:\w+ ){0,4}(?:vor|"
    r"gefunden|verfügbar|vorhanden|enthalten)\b|\b(?:gibt es|habe ich|finde ich|enthält|enthalten) (?:\w+ ){0,4}keine "
    r"(?:\w+ ){0,2}(?:information(?:en)?|angaben?|daten|antwort|hinweise?)\b|\b(?:kontext|dokument|text|quellen?)\w* "
    r"(?:\w+ ){0,4}nicht (?:erwähnt|angegeben|genannt|enthalten)\b"
    r"|^\W*(?:nicht bekannt|unbekannt|keine angaben?|keine antwort)\W*$"
    # French
    r"|\bje (?:ne |n['’]en )(?:le )?sais (?:vraiment )?(?:pas|rien)\b|\bje ne suis pas (?:\w+ )?(?:sûre?|certaine?)\b"
    r"|\bje ne (?:peux|saurais|suis) (?:pas )?(?:en mesure de |capable de )?(?:\w+ )?(?:répondre|dire|déterminer)\b"
    r"|\bje n['’]ai (?:pas|aucune) (?:\w+ ){0,2}(?:d['’]|la |de )?(?:informations?|réponse|idée|trouvé|données)\b"
    r"|\b(?:aucune|pas d['’]) ?(?:idée|informations?|réponse|mention)\b"
    r"|\b(?:contexte|documents?|textes?|sources?|passages?) (?:\w+ )?n(?:e |['’])(?:contien|mentionn|précis|fourni|"
    r"donn|indiqu|permet)\w*\b|^\W*(?:inconnu|non (?:mentionné|précisé|spécifié))e?\W*$"
    # Spanish
    r"|\bno (?:lo )?s(?:é|e)\b(?= *(?:$|[^\w ]|la |qu[eé] |cu[aá]\w+ |si ))|\bno estoy segur[oa]\b|\bni idea\b"
    r"|\bno (?:tengo|dispongo de|hay|encuentro|encontré|se encontr\w+|he encontrado) (?:\w+ ){0,2}(?:información|idea|"
    r"datos|respuesta)\b|\bno (?:puedo|podría) (?:responder|contestar|decir|determinar)\w*\b"
    r"|\b(?:contexto|documentos?|textos?|fuentes?|pasajes?) (?:\w+ )?no (?:contien|mencion|especific|proporcion|"
    r"indic|incluye|dice)\w*\b|\bse desconoce\b|^\W*desconocid[oa]\W*$"
    # Italian
    r"|\bnon (?:lo |ne )?so\b|\bnon (?:sono|ne sono) (?:\w+ )?(?:sicur|cert)[oa]\b|\bnessuna idea\b"
    r"|\bnon (?:ne )?(?:ho|abbiamo|dispongo di|trovo|ho trovato|ci sono|c['’]è) (?:\w+ ){0,2}(?:informazion[ei]|idea|"
    r"dati|risposta)\b|\bnon (?:posso|sono in grado di|riesco a) (?:rispondere|dire|determinare|dirlo)\b"
    r"|\b(?:contesto|document[oi]|test[oi]|font[ei]|passagg[io]) (?:\w+ )?non (?:contien|conteng|menzion|specific|"
    r"fornisc|indic)\w*\b|^\W*sconosciut[oa]\W*$"
    # Portuguese
    r"|\bn[ãa]o (?:o )?sei\b|\bn[ãa]o (?:estou cert[oa]|tenho certeza|faço (?:a menor )?ideia)\b|\bdesconheço\b"
    r"|\bn[ãa]o (?:tenho|disponho de|há|encontrei|existem?|foi encontrada|foram encontradas) (?:\w+ ){0,2}(?:"
    r"informaç(?:ão|ões)|ideia|dados|resposta)\b|\bn[ãa]o (?:posso|consigo) (?:responder|dizer|determinar)\b"
    r"|\b(?:contexto|documentos?|textos?|fontes?|passagens?) (?:\w+ )?n[ãa]o (?:contém|contêm|mencion|especific|"
    r"fornec|indic)\w*\b|^\W*desconhecid[oa]\W*$"
    # Chinese
    r"|我(?:也|真的|并|还)?(?:不知道|不清楚|不确定|不太清楚)|^\W*(?:不知道|不清楚|不确定|未知)\W*$"
    r"|(?:无法|不能)(?:回答|确定|提供答案)|没有(?:任何|相关的?|足够的?)*(?:信息|资料|答案|数据)"
    r"|(?:文档|文件|上下文|资料|文中|文本|材料|内容)中?(?:并?没有|并?未|均未)(?:提到|提及|包含|说明|提供|找到)"
    # Japanese
    r"|(?:わか|分か|判)(?:りません|らない)|知りません|存じません|(?:お答え|回答)(?:できません|できない)|答えられません"
    r"|情報(?:が|は)(?:あり|見つかり|含まれてい)ません|(?:記載|言及)(?:が|は)?(?:あり|されてい)ません|不明です"
    # Arabic
    r"|لا (?:أعرف|أعلم|أدري)|لست متأكد|ليس لدي (?:أي )?(?:معلومات|فكرة|إجابة)"
    r"|لا (?:توجد|يوجد|تتوفر|أملك) (?:لدي )?(?:أي )?(?:معلومات|إجابة|بيانات|فكرة)"
    r"|لا (?:أستطيع|يمكنني) (?:الإجابة|تحديد|الرد)|(?:السياق|النص|المستند|الوثائق) لا (?:يحتوي|يذكر|تذكر|يتضمن|يوفر)",
    re.IGNORECASE,
)
_CONTRAST = re.compile(
    r"\b(?:aber|sondern|jedoch|allerdings|mais|cependant|toutefois|pero|sino|aunque|ma|però|tuttavia|mas|porém)\b|"
    r"但|不过|然而|しかし|ただし|لكن",
    re.IGNORECASE,
)
# Every pattern has one of these words or letters; to look for them first is ten times as fast.
_NEGATIVE = word_set(
    """
    nicht keine unbekannt ne sais pas aucune inconnu inconnue non no ni não nao nessuna desconoce desconocido
    desconocida desconheço desconhecido desconhecida sconosciuto sconosciuta
    """
)
_LETTERS = re.compile(r"[^\W\d_]+")
_OTHER = re.compile("[\u0600-\u06ff\u3040-\u30ff\u4e00-\u9fff]")
_LONGEST = 200
_MOST_BEFORE, _MOST_AFTER = 6, 20
_WORD = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]{2}|[^\W_]+")  # two Chinese or Japanese characters are one word


def is_error_text(text: str) -> bool:
    """Whether ``text`` is the error message of an API or a program, in English or Russian, and not an answer about one.

    >>> [is_error_text(each) for each in ("Error code: 429 - Rate limit reached", "Error code 429 means: slow down.")]
    [True, False]
    """
    if _ERROR.match(text) is not None:
        return True
    return _FAILURE.match(text) is not None and len(text.split()) <= _MOST_WORDS


def declines(sentence: str) -> bool:
    """Whether a short German, French, Spanish, Italian, Portuguese, Chinese, Japanese or Arabic sentence only declines.

    >>> [declines(each) for each in ("Das weiß ich leider nicht.", "我不知道", "No lo sé, pero creo que es Madrid.")]
    [True, True, False]
    """
    if len(sentence) > _LONGEST:
        return False
    if _NEGATIVE.isdisjoint(_LETTERS.findall(sentence.casefold())) and not _OTHER.search(sentence):
        return False
    found = _DECLINES.search(sentence)
    if found is None or _CONTRAST.search(sentence, found.end()):
        return False
    before, after = sentence[: found.start()], sentence[found.end() :]
    return len(_WORD.findall(before)) <= _MOST_BEFORE and len(_WORD.findall(after)) <= _MOST_AFTER
