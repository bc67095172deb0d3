"""The live page's files, and what `/` answers to whom."""

import gzip
import re
from dataclasses import replace
from hashlib import sha256

import pytest

from router.page.site import MEDIA_TYPES, STATIC
from tests.tools.edge import FakeRoad, running_edge
from tests.tools.http import call

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
VENDOR = STATIC / "vendor"
OWN = [path for path in sorted(STATIC.rglob("*")) if path.suffix in MEDIA_TYPES and VENDOR not in path.parents]


@pytest.fixture
async def road():
    return FakeRoad()


@pytest.fixture
async def port(road):
    async with running_edge(road) as (port, _):
        yield port


async def test_a_browser_gets_the_page_and_everybody_else_a_line_of_text(port):
    page, line = await call(port, "/", headers=BROWSER), await call(port, "/", headers={"accept": "*/*"})

    assert page.body == (STATIC / "index.html").read_bytes()
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert line.body.startswith(b"Tandem is running.")
    assert line.headers["content-type"].startswith("text/plain")
    assert page.headers["vary"] == line.headers["vary"] == "accept, accept-encoding"


async def test_without_the_page_a_browser_gets_the_line_too_and_no_file(port, road):
    road.plan = replace(road.plan, shows_page=False)

    line, asset = await call(port, "/", headers=BROWSER), await call(port, "/page/app.js")

    assert line.body.startswith(b"Tandem is running.")
    assert asset.status == 404


@pytest.mark.parametrize("path", ["/", *(f"/page/{path.relative_to(STATIC).as_posix()}" for path in OWN)])
async def test_every_file_is_served_with_the_guards_of_the_page(port, path):
    answer = await call(port, path, headers=BROWSER)

    assert answer.status == 200
    assert answer.headers["content-security-policy"].startswith("default-src 'self';")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-cache"


async def test_a_browser_that_has_a_file_is_not_sent_it_again(port):
    first = await call(port, "/page/app.js")
    again = await call(port, "/page/app.js", headers={"if-none-match": first.headers["etag"]})
    other = await call(port, "/page/style.css", headers={"if-none-match": first.headers["etag"]})

    assert (again.status, again.body) == (304, b"")
    assert (other.status, bool(other.body)) == (200, True)


@pytest.mark.parametrize(
    "name",
    [
        *("nothing.js", "", "vendor", "vendor/", "../site.py", "..%2fsite.py", "vendor/../../site.py", "%2e%2e/site.py"),
        *("/etc/passwd", "vendor/README.md", "vendor/LICENSE-htm.txt", "app.js%00", "APP.JS", "./app.js"),
    ],
)
async def test_a_file_that_the_page_does_not_have_is_a_404_and_an_event(port, name, capsys):
    answer = await call(port, f"/page/{name}")

    assert answer.status == 404
    assert answer.json["error"]["code"] == "not_found"
    assert '"event":"page.file_missing"' in capsys.readouterr().err


async def test_a_packed_file_is_the_same_file(port):
    plain, packed = await call(port, "/page/app.js"), await call(port, "/page/app.js", headers={"accept-encoding": "gzip, br"})

    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body == (STATIC / "app.js").read_bytes()
    assert packed.headers["etag"] != plain.headers["etag"]
    assert "content-encoding" not in plain.headers


async def test_a_browser_downloads_at_most_150_kb_for_all_views_together(port):
    names = [path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.suffix in MEDIA_TYPES]
    answers = [await call(port, f"/page/{name}", headers={"accept-encoding": "gzip"}) for name in names]

    assert len(names) > 15
    assert {answer.status for answer in answers} == {200}
    assert sum(len(answer.body) for answer in answers) <= 150_000


def test_vendored_files_are_as_their_makers_published_them():
    rows = re.findall(r"^\| `(\S+)` \|.*\| `([0-9a-f]{64})` \|$", (VENDOR / "README.md").read_text(), re.MULTILINE)
    found = {path.name: sha256(path.read_bytes()).hexdigest() for path in VENDOR.iterdir() if path.name != "README.md"}

    assert dict(rows) == found
    assert len(found) == 6


def test_the_page_loads_nothing_from_elsewhere_and_has_no_inline_code():
    for path in OWN:
        text = path.read_text()
        assert not re.search(r"(src|href|from|import|fetch|url)\W{1,3}https?://", text), path
        assert "innerHTML" not in text, path
        assert not re.search(r"\son[a-z]+=\"", text), path
        assert not re.search(r"\sstyle=\"", text), path


def test_every_module_that_the_page_imports_is_there():
    for path in (path for path in OWN if path.suffix == ".js"):
        for name in re.findall(r"(?:from|import\()\s*\"(\.[^\"]+)\"", path.read_text()):
            assert (path.parent / name).resolve().is_file(), (path, name)
    for name in re.findall(r"\"/page/([^\"]+)\"", (STATIC / "index.html").read_text()):
        assert (STATIC / name).is_file(), name
