"""What is kept of a finished request: little, and never its words."""

from router.contract.facts import AttemptEnded, AttemptOpened, Read, ResponseCompleted
from router.telemetry.finished import AnsweredBy, gather
from tests.router.telemetry.traced import CANARY, SPARK, called, failed, finish
from tests.tools.exchanges import make_decided

FIRST = (Read(make_decided().view), make_decided())


def test_a_failed_attempt_is_kept_without_its_error_whose_frames_hold_the_request():
    exchange, recorded = finish("req_1", *FIRST, *called(1.0, 2.0, failed()))

    finished = gather(exchange, recorded, None)

    assert [type(fact) for fact in finished.facts] == [AttemptOpened, AttemptEnded]
    assert finished.facts[-1].error is None
    assert finished.facts[-1].attempt.error == "upstream_timeout"
    assert CANARY not in repr(finished)


def test_of_a_whole_response_only_the_name_of_its_model_is_kept_and_a_long_one_is_cut():
    long = ResponseCompleted(SPARK, {"model": "m" * 500, "output": CANARY})
    odd = ResponseCompleted(SPARK, {"model": {"not": "a name"}})
    exchange, recorded = finish("req_1", *FIRST, long, odd)

    assert gather(exchange, recorded, None).facts == [AnsweredBy("m" * 128)]
