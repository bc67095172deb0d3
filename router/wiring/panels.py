"""The panels of the control plane: which there are, and what each of them reads. And the edge, which serves them."""

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from router.contract.caller import Caller
from router.contract.keys import rights_of
from router.contract.rights import Rights
from router.contract.target import Price
from router.edge.admission import Admission
from router.edge.control.health import Health
from router.edge.http.asgi import App, AsgiApp
from router.house import House
from router.jobs.jobs import read_figures
from router.wiring.built import Built

if TYPE_CHECKING:
    from router.edge.control.metrics import Figures
    from router.edge.control.panel import Panel
    from router.edge.control.savings import Looks


def build_edge(built: Built, is_ready: Callable[[], bool]) -> tuple[Admission, AsgiApp]:
    """Admission to a house, and the ASGI app for connections that are handed over."""
    admission = Admission(built.house)

    def build() -> App:
        from router.edge.control.app import build_control  # FastAPI takes 0.3 s and 9 MB, and a create call needs none of it

        def rights_now(caller: Caller, key: str | None) -> Rights:
            return rights_of(built.house.plan.keys, caller, key, time.time())

        return build_control(list_panels(built, is_ready, admission), rights_now)

    return admission, AsgiApp(admission, build, _build_health(built, is_ready).as_apps())


def list_panels(built: Built, is_ready: Callable[[], bool], admission: Admission) -> "tuple[Panel, ...]":
    """The panels of the control plane, each with what it reads. They are loaded with the first request for one of them."""
    from router.edge.control.explain import Explanations
    from router.edge.control.login import Login
    from router.edge.control.panels import Models, NoticesPanel, Reload, RevokedWork
    from router.edge.control.savings import SavingsFigures
    from router.edge.control.stats import Stats
    from router.edge.control.wrong import Wrong
    from router.jobs.panel import Responses
    from router.page.live import LiveFeed
    from router.page.past import Past
    from router.page.queries import LookingBack
    from router.page.site import Site

    house, state, ledger = built.house, built.house.state, built.ledger
    price_of, looks = partial(_find_price, house), build_looks(built)
    return (
        _build_health(built, is_ready),
        Site(house),
        Models(house, admission),
        Explanations(house, state.entries),
        Stats(house, looks),
        SavingsFigures(build_looks(built, in_groups=True)),
        NoticesPanel(built.notices),
        build_figures(built, looks),
        LiveFeed(house, is_ready, admission.logins, built.notices, built.others),
        LookingBack(house, ledger, price_of),
        Past(ledger, state.entries),
        Responses(house, built.jobs),
        Reload(built.reloader.answer if built.reloader is not None else None),
        RevokedWork(built.key_watch.answer if built.key_watch is not None else None),
        Login(admission),
        Wrong(built.ledger_path, state.entries, lambda: admission.limits),
    )


def _build_health(built: Built, is_ready: Callable[[], bool]) -> Health:
    return Health(is_ready, built.notices)


def build_looks(built: Built, *, in_groups: bool = False) -> "Looks | None":
    """What was spent and saved since some moment, in total or by group too; None without a ledger."""
    from router.edge.control.savings import Looks
    from router.past.savings import add_up, add_up_groups

    ledger = built.ledger
    if ledger is None:
        return None
    return Looks(partial(add_up_groups, ledger) if in_groups else lambda since, caller: add_up(ledger, since, caller).as_json())


def build_figures(built: Built, looks: "Looks | None") -> "Figures":
    """What `/metrics` shows."""
    from router.edge.control.metrics import Figures

    return Figures(built.house, looks, jobs=partial(read_figures, built.jobs), find_usable=built.find_usable)


def _find_price(house: House, name: str) -> Price | None:
    return target.price if (target := house.plan.targets.get(name)) is not None else None
