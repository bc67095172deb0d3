"""The same ask in other forms, and functions to complete under other first lines: how a thing is asked is not how much it is."""

from collections.abc import Iterator
from zlib import crc32

_FORMS = {
    "en": (
        "can you {}?", "could you please {}?", "could we {}?", "please {}", "I'd like you to {}", "hey, quick one: {}",
        "hi! would you mind if we {}?", "I want to {}", "so um can you like {} please", "we need to {}", "is it possible to {}?",
        "let's {}", "would it be ok to {}?", "quick question, can we {}?", "{} please, thanks", "ok so next thing, {}",
    ),
    "de": ("kannst du {}?", "könntest du bitte Folgendes machen: {}", "kurze Sache: {}", "bitte {}", "ich hätte gern: {}", "können wir {}?"),
    "fr": ("tu peux {} ?", "pourrais-tu {} s'il te plaît ?", "petite question : {}", "j'aimerais {}", "on peut {} ?"),
    "es": ("¿puedes {}?", "¿podrías {} por favor?", "una cosita: {}", "me gustaría {}", "¿podemos {}?"),
    "pt": ("pode {}?", "você poderia {} por favor?", "rapidinho: {}", "eu queria {}", "dá pra {}?"),
    "it": ("puoi {}?", "potresti {} per favore?", "una cosa veloce: {}", "vorrei {}", "possiamo {}?"),
    "ru": ("можешь {}?", "пожалуйста, {}", "быстрый вопрос: {}", "хотелось бы {}", "давай {}"),
    "zh": ("能不能{}？", "请{}", "小问题：{}", "我想{}", "可以{}吗？"),
    "ja": ("{}、できますか？", "ちょっとお願い：{}", "{}をお願いします", "{}してもらえますか？"),
    "ko": ("{} 해줄 수 있어?", "간단한 거: {}", "{} 부탁해", "혹시 {} 가능할까요?"),
    "pl": ("możesz {}?", "proszę, {}", "szybka sprawa: {}", "chciałbym {}"),
    "tr": ("{} yapabilir misin?", "lütfen {}", "hızlı bir şey: {}", "{} istiyorum"),
}  # fmt: skip
"""By language."""
_FIRST_LINES = (
    "Complete this code:", "Complete the following Python function:", "Finish this function:", "Fill in the body:", "complete:",
    "Can you complete this?", "Please implement the function below.", "Continue this snippet", "Write the rest of this method.",
    "Here is a function, finish it please", "implement this", "What would the body of this function be?",
    "Return the completed function.", "I need this function written:", "solve this", "Vervollständige diese Funktion:",
    "Complète cette fonction :", "补全这个函数：",
)  # fmt: skip
_MAX_CHARS = 220
_EVERY = 2
"""One ask in so many is wrapped."""


def wrap(text: str, lang: str) -> str:
    """An ask in another form of its language; empty for long ones, questions, and half of the others."""
    draw = crc32(text.encode())
    text = text.strip()
    if len(text) > _MAX_CHARS or "\n" in text or text.endswith(("?", "？")) or draw % _EVERY:
        return ""
    forms = _FORMS.get(lang, ())
    if not forms:
        return ""
    inner = text.rstrip(".!。 ")
    inner = inner if inner[:2].isupper() else inner[:1].lower() + inner[1:]
    return forms[draw // _EVERY % len(forms)].format(inner)


def head_code(code: str, every: int = 6) -> Iterator[str]:
    """A function under some of the first lines that ask to complete it."""
    draw = crc32(code.encode())
    for number in range(len(_FIRST_LINES) // every):
        yield f"{_FIRST_LINES[(draw + number * every) % len(_FIRST_LINES)]}\n\n{code}"
