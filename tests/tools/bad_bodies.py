"""Bodies that no dialect can read."""

BAD_BODIES = (
    b"",
    b"null",
    b'{"model": "auto", "messages": [',
    b'{"model": "auto", "messages": ' + b"[" * 100_000,
    b'{"model": "auto", "messages": [{"role": "user", "content": "\\ud800"}]}',
    b'{"model": "a\\u0000b", "messages": [{"role": "user", "content": "x"}]}',
    b'{"model": "auto", "messages": [{"role": "user", "content": "x"}], "max_tokens": %b}' % (b"9" * 5_000),
    b'{"model": "auto", "messages": [{"role": "user", "content": "x"}], "temperature": NaN}',
)
