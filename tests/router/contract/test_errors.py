"""The tree of errors: each class says its status and code, and a refusal who is to blame."""

import inspect
import re

from router.contract import errors
from router.contract.errors import TandemError, Unavailable, UpstreamError, UpstreamRefused, UpstreamTimeout

CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, TandemError)]
DRAWN = dict(re.findall(r"[├└]── (\w+) +(\d{3} \w+)", errors.__doc__))


def test_the_drawing_of_the_tree_gives_the_status_and_code_of_the_class(subtests):
    for kind in [kind for kind in CLASSES if kind.__name__ in DRAWN]:
        with subtests.test(kind=kind):
            assert f"{kind.status} {kind.code}" == DRAWN[kind.__name__]


def test_every_class_that_is_raised_is_drawn():
    drawn = set(re.findall(r"[├└]── (\w+)", errors.__doc__))

    assert drawn == {kind.__name__ for kind in CLASSES} - {"TandemError"}


def test_a_refusal_is_tried_elsewhere_or_blamed_on_the_request_by_its_status(subtests):
    for status, is_retryable, blames_the_request in [
        (400, False, True),
        (404, False, True),
        (408, True, False),
        (409, True, False),
        (413, False, True),
        (422, False, True),
        (425, True, False),
        (429, True, False),
        (499, False, True),
        (500, True, False),
        (529, True, False),
        (302, False, False),
    ]:
        with subtests.test(status=status, is_retryable=is_retryable, blames_the_request=blames_the_request):
            refused = UpstreamRefused("spark", status, b"{}", "application/json")

            assert (refused.is_retryable, refused.blames_the_request) == (is_retryable, blames_the_request)


def test_a_refusal_keeps_the_targets_own_answer_and_says_its_status_and_name_alone():
    refused = UpstreamRefused("spark", 418, b'{"secret": 1}', "application/json", retry_after_seconds=7)

    assert (refused.status, refused.body, refused.content_type) == (418, b'{"secret": 1}', "application/json")
    assert refused.message == str(refused) == 'target "spark" answered 418'
    assert (refused.target, refused.retry_after_seconds) == ("spark", 7)


def test_what_passes_may_be_tried_again_and_what_the_caller_must_mend_may_not():
    retryable = {kind for kind in CLASSES if kind.is_retryable}

    assert retryable == {kind for kind in CLASSES if issubclass(kind, UpstreamError | Unavailable)}
    assert UpstreamTimeout in retryable
