"""The same ask in other forms, reported as done, and functions to complete under other first lines."""

from collections.abc import Iterator, Sequence
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
_REPORTS = {
    "en": (
        "Done. {}: finished.", "Implemented: {}. All tests are green.", "I finished that: {}. Everything passes.", "{} - done and pushed.",
        "Added, renamed and fixed as asked: {}.", "Completed. Changed: {}. The build is green.",
        "Finished. I have moved and updated everything: {}.", "Fixed. {} works now.",
    ),
    "de": ("Erledigt: {}.", "Fertig, alle Tests sind grün: {}.", "Umgesetzt: {}. Alles läuft.", "{}: gemacht und eingecheckt.", "Geändert. {} ist fertig."),
    "fr": ("C'est fait : {}.", "Terminé, les tests passent : {}.", "J'ai tout modifié : {}. Tout marche.", "{} : fait."),
    "es": ("Hecho: {}.", "Listo, todos los tests pasan: {}.", "He cambiado todo: {}. Funciona.", "{}: terminado."),
    "pt": ("Feito: {}.", "Pronto, todos os testes passam: {}.", "Alterei tudo: {}. Funciona."),
    "it": ("Fatto: {}.", "Finito, tutti i test passano: {}.", "Ho cambiato tutto: {}. Funziona."),
    "ru": ("Готово: {}.", "Сделал: {}. Все тесты проходят.", "Исправлено: {}."),
    "zh": ("完成了：{}。", "已修改：{}。测试全部通过。", "做好了：{}。"),
    "ja": ("完了しました：{}。", "{}を修正しました。テストはすべて通っています。"),
    "ko": ("완료했습니다: {}.", "{} 수정했습니다. 테스트 모두 통과합니다."),
    "pl": ("Gotowe: {}.", "Zrobione, wszystkie testy przechodzą: {}."),
    "tr": ("Tamam, bitti: {}.", "Yapıldı, tüm testler geçiyor: {}."),
}  # fmt: skip
"""By language: what an assistant says of work that is finished."""
_FIRST_LINES = (
    "Complete this code:", "Complete the following Python function:", "Finish this function:", "Fill in the body:", "complete:",
    "Can you complete this?", "Please implement the function below.", "Continue this snippet", "Write the rest of this method.",
    "Here is a function, finish it please", "implement this", "What would the body of this function be?",
    "Return the completed function.", "I need this function written:", "solve this", "Vervollständige diese Funktion:",
    "Complète cette fonction :", "补全这个函数：",
)  # fmt: skip
_MAX_CHARS = 220
_WRAPPED_EVERY, _REPORTED_EVERY = 2, 3
"""One ask in so many is put in another form, or reported as done."""


def wrap(text: str, lang: str) -> str:
    """An ask in another form of its language; empty for long ones, questions, and half of the others."""
    inner, form = _draw(text, _FORMS.get(lang, ()), _WRAPPED_EVERY)
    return form.format(inner if inner[:2].isupper() else inner[:1].lower() + inner[1:])


def report_done(text: str, lang: str) -> str:
    """An ask as an assistant reports it when it is done; empty for long ones, questions, and most of the others."""
    inner, form = _draw(text, _REPORTS.get(lang, ()), _REPORTED_EVERY)
    return form.format(inner)


def _draw(text: str, forms: Sequence[str], every: int) -> tuple[str, str]:
    """The ask without its full stop, and a form for it, or none."""
    draw = crc32(text.encode())
    text = text.strip()
    if not forms or len(text) > _MAX_CHARS or "\n" in text or text.endswith(("?", "？")) or draw % every:
        return "", ""
    return text.rstrip(".!。 "), forms[draw // every % len(forms)]


def head_code(code: str, every: int = 6) -> Iterator[str]:
    """A function under some of the first lines that ask to complete it."""
    draw = crc32(code.encode())
    for number in range(len(_FIRST_LINES) // every):
        yield f"{_FIRST_LINES[(draw + number * every) % len(_FIRST_LINES)]}\n\n{code}"
