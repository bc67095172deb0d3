"""The table of dialects, the only one: everything keyed by dialect is looked up here."""

from collections.abc import Mapping
from types import MappingProxyType

from router.contract.words import Dialect
from router.dialects.chat.spec import CHAT
from router.dialects.completions import COMPLETIONS
from router.dialects.messages.spec import MESSAGES
from router.dialects.responses.spec import RESPONSES
from router.dialects.spec import DialectSpec

SPECS: Mapping[Dialect, DialectSpec] = MappingProxyType({spec.name: spec for spec in (RESPONSES, COMPLETIONS, MESSAGES, CHAT)})
"""A body without a path is tried in this order: chat, which takes any, is last."""
