"""Background work leans to deep."""

from policies.background import BackgroundPolicy
from router.contract.words import TurnKind
from tests.tools.values import ask, make_signals


def test_background_work_leans_to_deep_whatever_was_asked():
    (quick,) = BackgroundPolicy().judge(ask("fix the typo"), make_signals(text="fix the typo"))
    (other,) = BackgroundPolicy().judge(ask(), make_signals(kind=TurnKind.SUBAGENT))

    assert quick == other
    assert quick.log_odds == 6.0
    assert quick.names_turn
