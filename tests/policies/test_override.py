"""What a person or an operator asked for by name, strongest channel first."""

from policies.override import OverridePolicy
from router.contract.opinions import Insist, Lean, Rank
from router.contract.signals import Alias, TierLine, Wish
from router.contract.words import Tier
from tests.tools.values import ask, make_signals, make_target, stand

OVERRIDE = OverridePolicy(OverridePolicy.Config())


def test_a_header_outranks_a_session_which_outranks_a_name():
    header = OVERRIDE.judge(ask(headers={"x-tandem-tier": "fast"}), make_signals(alias=Alias("deep", tier=Tier.DEEP)))
    session = OVERRIDE.judge(ask(), make_signals(wish=Wish(Tier.FAST)))

    assert [(opinion.rank, opinion.tier) for opinion in header] == [(Rank.HEADER, Tier.FAST), (Rank.MODEL_NAME, Tier.DEEP)]
    assert [(opinion.rank, opinion.tier) for opinion in session] == [(Rank.SESSION_SCOPE, Tier.FAST)]


def test_a_first_line_outranks_a_session_and_a_header_outranks_the_line():
    header = ask(headers={"x-tandem-tier": "fast"})
    line, cleared = TierLine(Tier.DEEP), TierLine(None)
    wish = Wish(Tier.FAST)

    assert OVERRIDE.judge(header, make_signals(line=line))[0].tier is Tier.FAST
    assert [(opinion.rank, opinion.tier) for opinion in OVERRIDE.judge(ask(), make_signals(line=line, wish=wish))] == [
        (Rank.IN_BAND_LINE, Tier.DEEP)
    ]
    assert OVERRIDE.judge(ask(), make_signals(line=cleared, wish=wish)) == ()


def test_what_a_line_or_the_session_asks_for_outranks_the_models_name():
    alias = Alias("deep", tier=Tier.DEEP)

    for asked in ({"wish": Wish(Tier.FAST)}, {"line": TierLine(Tier.FAST)}):
        assert [opinion.tier for opinion in OVERRIDE.judge(ask(), make_signals(alias=alias, **asked))] == [Tier.FAST]
    for cleared in ({"wish": Wish(None)}, {"line": TierLine(None)}):
        assert OVERRIDE.judge(ask(), make_signals(alias=alias, **cleared)) == ()


def test_auto_in_a_header_clears_what_the_session_was_asked():
    assert OVERRIDE.judge(ask(headers={"x-tandem-tier": "auto"}), make_signals(wish=Wish(Tier.DEEP))) == ()


def test_auto_in_a_header_outranks_the_models_name():
    view = ask(headers={"x-tandem-tier": "auto"})

    assert OVERRIDE.judge(view, make_signals(alias=Alias("deep", tier=Tier.DEEP))) == ()


def test_an_exact_name_insists_and_a_pattern_only_leans():
    exact = OVERRIDE.judge(ask(), make_signals(alias=Alias("sage", target="sage")))
    pattern = OVERRIDE.judge(ask(), make_signals(alias=Alias("claude-haiku", tier=Tier.FAST, is_pattern=True)))

    assert isinstance(exact[0], Insist)
    assert isinstance(pattern[0], Lean)
    assert pattern[0].log_odds == -3.0


def test_a_pattern_that_names_a_target_leans_to_its_tier():
    (opinion,) = OVERRIDE.judge(ask(), make_signals(alias=Alias("pin-x", target="sage", is_pattern=True)))

    assert isinstance(opinion, Lean)
    assert opinion.log_odds > 0


def test_a_wait_longer_than_allowed_rules_out_for_now():
    view = ask(headers={"x-tandem-max-wait": "2"})

    opinions = OVERRIDE.judge(view, make_signals(stand(make_target(), wait=5), stand(make_target("sage", Tier.DEEP))))

    assert [(opinion.target, opinion.lasting, opinion.yields) for opinion in opinions] == [("spark", False, False)]


def test_a_rest_longer_than_allowed_rules_out_only_while_another_can_serve_and_names_no_time():
    resting = stand(make_target()).with_wait(60.0, "spark rests after 5 failures in a row", is_resting=True)

    (opinion,) = OVERRIDE.judge(ask(headers={"x-tandem-max-wait": "2"}), make_signals(resting))

    assert (opinion.yields, opinion.wait_seconds) == (True, None)
    assert opinion.because == "spark rests after 5 failures in a row, and x-tandem-max-wait is 2 s"
