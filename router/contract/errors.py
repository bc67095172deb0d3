"""The error tree. Each class fixes its HTTP status, its machine `code`, and whether a retry may help.

TandemError
├── RequestError                 the caller can correct it
│   ├── BadRequest               400 invalid_request
│   │   ├── NotAllowed           400 not_allowed
│   │   ├── UnknownOverride      400 unknown_override
│   │   ├── TooDeep              400 too_deep
│   │   ├── ResponseForgotten    400 previous_response_not_found
│   │   ├── InBackground         400                    `background: true` where no job can be made
│   │   ├── InvalidStreamId      400 invalid_stream_id
│   │   ├── TooManyLanes         400 websocket_stream_limit_reached
│   │   ├── SocketTooOld         400 websocket_connection_limit_reached
│   │   ├── Interrupted          400 interrupted
│   │   ├── Misfit               400 misfit
│   │   └── TooLong              400 context_length_exceeded
│   ├── Unauthorized             401 unauthorized
│   ├── CallerKey                401 caller_key
│   ├── Forbidden                403 forbidden
│   ├── NotPermitted             403 not_permitted
│   ├── NotFound                 404 not_found
│   │   ├── UnknownModel         404 model_not_found
│   │   ├── ItemForgotten        404 item_not_found
│   │   ├── JobGone              404 job_not_found
│   │   └── ThreadForgotten      404 thread_not_found
│   ├── WrongMethod              405 method_not_allowed
│   ├── BodyTimeout              408 body_timeout
│   ├── IdempotencyMismatch      409 idempotency_mismatch
│   ├── BodyTooLarge             413 body_too_large
│   ├── WrongMediaType           415 unsupported_media_type
│   ├── UpgradeRequired          426 upgrade_required
│   ├── RateLimited              429 rate_limited
│   ├── BudgetSpent              429 budget_spent
│   │   └── BudgetHeld           429 budget_held
│   ├── TooManyJobs              429 too_many_jobs
│   ├── HeadersTooLarge          431 headers_too_large
│   └── Superseded               499 superseded
├── Unavailable                  503 unavailable        temporary: overload, shutting down
│   ├── JobsUnavailable          503 jobs_unavailable
│   ├── StoreUnavailable         503 store_unavailable
│   ├── TiersBusy                429 tiers_busy
│   └── InProgress               409 in_progress
├── InternalFault                500 internal_error
└── UpstreamError                a target failed
    ├── UpstreamUnreachable      502 upstream_unreachable
    │   └── UpstreamLost         after the request was sent
    ├── UpstreamTimeout          504 upstream_timeout
    │   └── UpstreamQueued       504 upstream_queued
    ├── UpstreamRefused          the target's own status; passed on, or tried elsewhere
    ├── UpstreamLoading          503 upstream_loading
    ├── UpstreamBarred           only the operator can correct it
    │   ├── UpstreamAuth         502 upstream_auth
    │   └── UpstreamModel        502 upstream_model
    ├── UpstreamMalformed        502 upstream_malformed
    └── UpstreamCut              502 upstream_cut
"""

from typing import NamedTuple, Self

from router.contract.allowance import Left
from router.contract.plan_use import UsedUp
from router.contract.secret import mask_keys
from router.contract.words import AccountFault


class TandemError(Exception):
    """The root. `message` is for the caller: never a key, a prompt, an address or a path of a machine."""

    status = 500
    code = "internal_error"
    is_retryable = False
    """Whether another target may be tried, while nothing has been sent to the caller."""
    told: tuple[tuple[str, str], ...] = ()
    """Headers on what is left of the caller's own limits, once they were asked for."""

    def __init_subclass__(cls, *, status: int | None = None, code: str | None = None) -> None:
        cls.status = cls.status if status is None else status
        if code is not None:
            cls.code = code  # only classes with a code of their own are listed in the reference

    def __init__(self, message: str, *, param: str | None = None, retry_after_seconds: float | None = None) -> None:
        self.message = mask_keys(message)  # some repeat what the request said
        super().__init__(self.message)
        self.param = param if param is None else mask_keys(param)
        self.retry_after_seconds = retry_after_seconds

    def reworded(self, message: str, **changes: object) -> Self:
        """A copy with another message and changed attributes."""
        message = mask_keys(message)
        other = self.__class__.__new__(self.__class__)
        other.__dict__.update(self.__dict__, message=message, **changes)
        other.args = (message,)
        return other

    def without_frames(self) -> Self:
        """Drop the traceback: its frames would keep the request in memory."""
        self.__traceback__ = None
        return self


class RequestError(TandemError, status=400, code="invalid_request"):
    """The message says what to correct."""


class BadRequest(RequestError):
    """The body or a header is not valid for this route."""


class NotAllowed(BadRequest, code="not_allowed"):
    """A field that only the operator may set."""


class UnknownOverride(BadRequest, code="unknown_override"):
    """Unknown `x-tandem-*` header, value or tier."""


class TooDeep(BadRequest, code="too_deep"):
    """JSON nested too deeply."""


class ResponseForgotten(BadRequest, code="previous_response_not_found"):
    """Not kept for this caller. Send the whole conversation."""


class InBackground(BadRequest):
    """`background: true`. The house makes a job of it; elsewhere it is a bad request."""

    def __init__(self) -> None:
        super().__init__("background: not supported here. Leave it out and keep the connection open", param="background")


class InvalidStreamId(BadRequest, code="invalid_stream_id"):
    """`stream_id` must be 1 to 256 of `A-Z a-z 0-9 _ . -`."""


class TooManyLanes(BadRequest, code="websocket_stream_limit_reached"):
    """Too many named lanes on a WebSocket. Reuse one."""


class SocketTooOld(BadRequest, code="websocket_connection_limit_reached"):
    """A WebSocket ends after an hour. Open another."""


class Interrupted(BadRequest, code="interrupted"):
    """A newer WebSocket message came, or a job's process ended."""


class Misfit(BadRequest, code="misfit"):
    """No target, or none of the requested tier, can serve it."""


class TooLong(Misfit, code="context_length_exceeded"):
    """The prompt is too long. Compact it."""


class Unauthorized(RequestError, status=401, code="unauthorized"):
    """The router's key is missing, wrong, expired or revoked."""

    def __init__(self) -> None:
        # Claude Code shows only "Not logged in" for words that name the header of Anthropic's own keys.
        super().__init__(
            "Tandem, the router between this client and its models, needs a valid key of its own, in x-tandem-key or as "
            "Authorization: Bearer. Ask its operator for one. This is not about your login or API key for the models"
        )


class CallerKey(RequestError, status=401, code="caller_key"):
    """The target needs your own key, or rejected it."""


class Forbidden(RequestError, status=403, code="forbidden"):
    """`Host` is not loopback, another web page asks, or `x-tandem-page` is missing."""


class NotPermitted(RequestError, status=403, code="not_permitted"):
    """The key or the config forbids it: see the message."""


class NotFound(RequestError, status=404, code="not_found"):
    """No such route or record, or it is off."""


class UnknownModel(NotFound, code="model_not_found"):
    """The message lists known names."""


class ItemForgotten(NotFound, code="item_not_found"):
    """Not kept for this caller. Send the item itself."""


class JobGone(NotFound, code="job_not_found"):
    """Deleted, expired, over, or never this caller's."""


class ThreadForgotten(NotFound, code="thread_not_found"):
    """Threads are not kept. Send the whole conversation."""


class WrongMethod(RequestError, status=405, code="method_not_allowed"):
    """Use a method of `allow`."""

    def __init__(self, message: str, *, allowed: str) -> None:
        super().__init__(message)
        self.allowed = allowed


class BodyTimeout(RequestError, status=408, code="body_timeout"):
    """The request did not arrive in time."""


class IdempotencyMismatch(RequestError, status=409, code="idempotency_mismatch"):
    """Used for a different request. Use a new key."""


class BodyTooLarge(RequestError, status=413, code="body_too_large"):
    """Too large, or expands too much."""


class WrongMediaType(RequestError, status=415, code="unsupported_media_type"):
    """Another content type, charset or compression."""


class UpgradeRequired(RequestError, status=426, code="upgrade_required"):
    """Too many WebSockets, or an invalid handshake. Use HTTP."""


class RateLimited(RequestError, status=429, code="rate_limited"):
    """A limit or share of the key, too many polls, or wrong keys."""

    def __init__(self, message: str, *, retry_after_seconds: float | None = None, left: tuple[Left, ...] = ()) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds)
        self.left = left


class BudgetSpent(RequestError, status=429, code="budget_spent"):
    """Too little is left. A 429 without `retry-after`: the request exceeds the whole budget."""


class BudgetHeld(BudgetSpent, code="budget_held"):
    """Running requests hold the rest."""


class TooManyJobs(RequestError, status=429, code="too_many_jobs"):
    """No room for another background job."""


class HeadersTooLarge(RequestError, status=431, code="headers_too_large"):
    """More or larger headers than `limits` allows."""


class Superseded(RequestError, status=499, code="superseded"):
    """A newer request with the same `x-tandem-supersede` came."""


class Unavailable(TandemError, status=503, code="unavailable"):
    """Overload, also of targets, shutdown, or a failing ledger."""

    is_retryable = True


class JobsUnavailable(Unavailable, code="jobs_unavailable"):
    """Background jobs cannot be stored or read."""


class StoreUnavailable(Unavailable, code="store_unavailable"):
    """A store is unavailable."""


class TiersBusy(Unavailable, status=429, code="tiers_busy"):
    """Every target that could serve is busy or failed."""


class InProgress(Unavailable, status=409, code="in_progress"):
    """That `Idempotency-Key` is still running."""


class InternalFault(TandemError):
    """A bug in Tandem, reported without details."""


class UpstreamError(TandemError, status=502, code="upstream_error"):
    """A target's error without a code of its own."""

    is_retryable = True
    was_tried_again = False
    """Whether several attempts were made, so that the caller need not retry."""

    def __init__(self, target: str, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds)
        self.target = target


class UpstreamUnreachable(UpstreamError, code="upstream_unreachable"):
    """The connection to the target failed or was lost."""


class UpstreamLost(UpstreamUnreachable):
    """The target closed the connection after it received the request: it may have worked on it."""


class UpstreamTimeout(UpstreamError, status=504, code="upstream_timeout"):
    """The target, or the whole request, took too long."""


class UpstreamQueued(UpstreamTimeout, code="upstream_queued"):
    """The target did not begin in time; another was asked."""


class Sent(NamedTuple):
    """An answer as a plan sent it, for its client."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class UpstreamRefused(UpstreamError, code="upstream_refused"):
    """The target's refusal, passed on; 502 where it failed."""

    used_up: UsedUp | None = None
    """Until when the caller's plan refuses, if it is one."""

    def __init__(
        self,
        target: str,
        status: int,
        body: bytes,
        content_type: str,
        *,
        retry_after_seconds: float | None = None,
        as_sent: Sent | None = None,
    ) -> None:
        super().__init__(target, f'target "{target}" answered {status}', retry_after_seconds=retry_after_seconds)
        self.as_sent = as_sent
        """A plan's own refusal, for its client. It may be an error in a stream that began well."""
        self.status = status
        self.body = body
        self.content_type = content_type
        self.is_retryable = status in (408, 409, 425, 429, 498) or status >= 500  # 498: Groq has no room for this class of work

    @property
    def blames_the_request(self) -> bool:
        """Whether the target rejects the request itself: the caller must see its words."""
        return 400 <= self.status < 500 and not self.is_retryable


class UpstreamLoading(UpstreamError, status=503, code="upstream_loading"):
    """The target is loading its model."""

    def __init__(self, target: str, words: str, *, retry_after_seconds: float | None = None) -> None:
        retry_after_seconds = 2.0 if retry_after_seconds is None else retry_after_seconds  # polled by then
        super().__init__(target, f'{target} is loading its model ("{words}")', retry_after_seconds=retry_after_seconds)
        self.words = words


class UpstreamBarred(UpstreamError):
    """The target serves no request with this configuration. `words` are its own, for the operator only."""

    fault = AccountFault.KEY

    def __init__(self, target: str, message: str, fault: AccountFault | None = None, words: str = "") -> None:
        super().__init__(target, message)
        self.fault = fault or self.fault
        self.words = words


class UpstreamAuth(UpstreamBarred, code="upstream_auth"):
    """The target's API key, credit or region: ask the operator."""


class UpstreamModel(UpstreamBarred, code="upstream_model"):
    """The target does not know the configured model or path."""

    fault = AccountFault.MODEL


class UpstreamMalformed(UpstreamError, code="upstream_malformed"):
    """An unusable answer, such as a web page."""


class UpstreamCut(UpstreamError, code="upstream_cut"):
    """The answer ended early, or a job's exceeds 64 MB."""
