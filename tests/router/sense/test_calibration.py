import inspect
import json.decoder

from router.contract.caller import Caller, SessionKey
from router.contract.signals import TokenCount
from router.sense.calibration import Calibration
from router.sense.exact import ExactCounter
from router.sense.tokens import HIGH, LOW
from tests.tools.http import call, chat


def estimate(tokens: int) -> TokenCount:
    return TokenCount(tokens, int(tokens * LOW), int(tokens * HIGH))


def test_a_prompt_counted_before_is_known_to_half_a_percent():
    calibration = Calibration()
    calibration.note(SessionKey(Caller("me"), "s"), 110_000, 123_066)

    again = calibration.narrow(SessionKey(Caller("me"), "s"), estimate(110_000))

    assert (again.tokens, again.low > 122_000, again.high < 124_000) == (123_066, True, True)


def test_what_a_session_grew_by_is_estimated_and_widens_the_band():
    calibration = Calibration()
    calibration.note(SessionKey(Caller("me"), "s"), 100_000, 110_000)

    grown = calibration.narrow(SessionKey(Caller("me"), "s"), estimate(120_000))

    assert grown.tokens == 130_000
    assert grown.high - grown.low > 10_000
    assert grown.high - grown.low < estimate(120_000).high - estimate(120_000).low


def test_a_session_that_shrank_or_is_anothers_is_estimated_afresh():
    calibration = Calibration()
    calibration.note(SessionKey(Caller("me"), "s"), 100_000, 110_000)

    assert calibration.narrow(SessionKey(Caller("me"), "s"), estimate(50_000)) == estimate(50_000)
    assert calibration.narrow(SessionKey(Caller("you"), "s"), estimate(100_000)) == estimate(100_000)
    assert calibration.narrow(SessionKey(Caller("me"), "t"), estimate(100_000)) == estimate(100_000)


async def test_a_session_near_a_limit_is_counted_once_and_not_at_every_call(simulated, monkeypatch):
    counted = []
    count = ExactCounter.count

    async def counting(self, view):
        counted.append(view.id)
        return await count(self, view)

    monkeypatch.setattr(ExactCounter, "count", counting)
    source = inspect.getsource(json.decoder)
    body = chat(source * (410_000 // len(source))) | {"model": "fast"}
    replies = [await call(simulated.port, "/tandem/explain", body) for _ in range(4)]

    assert len(counted) == 1
    assert {reply.json["prompt_tokens"] for reply in replies[1:]} == {replies[0].json["prompt_tokens"]}
