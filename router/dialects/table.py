"""The table of dialects: everything keyed by dialect is looked up here."""

from collections.abc import Mapping
from types import MappingProxyType

from router.contract.words import Dialect
from router.dialects.chat.spec import CHAT
from router.dialects.completions import COMPLETIONS
from router.dialects.messages.spec import MESSAGES
from router.dialects.responses.spec import RESPONSES
from router.dialects.spec import DialectSpec

SPECS: Mapping[Dialect, DialectSpec] = MappingProxyType({spec.name: spec for spec in (RESPONSES, COMPLETIONS, MESSAGES, CHAT)})
"""In the order in which a body without a path is tried: chat, which takes any, is last."""
