"""The error tree. Each class fixes its HTTP status, its machine `code`, and whether a retry may help.

TandemError
├── RequestError                 the caller can mend it
│   ├── BadRequest               400 invalid_request
│   │   ├── NotAllowed           400 not_allowed        a field that would redirect or unlock something
│   │   ├── UnknownOverride      400 unknown_override   a typo in an x-tandem-* header
│   │   ├── TooDeep              400 too_deep
│   │   ├── ResponseForgotten    400 previous_response_not_found
│   │   ├── Misfit               400 misfit             no target can serve this request, ever
│   │   └── TooLong              400 context_length_exceeded
│   ├── CallerKey                401 caller_key         a target that takes the caller's own key got none, or a wrong one
│   ├── Forbidden                403 forbidden          a foreign Host or Origin
│   ├── NotFound                 404 not_found
│   │   └── UnknownModel         404 model_not_found
│   ├── WrongMethod              405 method_not_allowed
│   ├── BodyTimeout              408 body_timeout
│   ├── BodyTooLarge             413 body_too_large
│   ├── WrongMediaType           415 unsupported_media_type
│   ├── UpgradeRequired          426 upgrade_required
│   └── HeadersTooLarge          431 headers_too_large
├── Unavailable                  503 unavailable        passing: overload, draining
│   └── TiersBusy                429 tiers_busy         passing: every target that could serve is waiting
├── InternalFault                500 internal_error     ours
└── UpstreamError                a target failed
    ├── UpstreamUnreachable      502 upstream_unreachable
    ├── UpstreamTimeout          504 upstream_timeout
    ├── UpstreamRefused          the target's own status; passed on, or tried elsewhere
    ├── UpstreamAuth             502 upstream_auth
    ├── UpstreamModel            502 upstream_model
    ├── UpstreamMalformed        502 upstream_malformed
    └── UpstreamCut              502 upstream_cut       ended without its terminal event
"""


class TandemError(Exception):
    """The root. `message` is for the caller: never a key, a prompt, an address or a path of a machine."""

    status = 500
    code = "internal_error"
    is_retryable = False

    def __init__(self, message: str, *, param: str | None = None, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after_seconds = retry_after_seconds


class RequestError(TandemError):
    """The caller can mend it."""

    status = 400
    code = "invalid_request"


class BadRequest(RequestError):
    """The body or a header is not what the route takes."""


class NotAllowed(BadRequest):
    """A field that would redirect a call or unlock something that the operator holds."""

    code = "not_allowed"


class UnknownOverride(BadRequest):
    """An `x-tandem-*` header, or its value, that we do not know."""

    code = "unknown_override"


class TooDeep(BadRequest):
    """JSON nested beyond the parser's limit."""

    code = "too_deep"


class ResponseForgotten(BadRequest):
    """`previous_response_id` names a response that is not kept for this caller. Send the whole conversation instead."""

    code = "previous_response_not_found"


class Misfit(BadRequest):
    """No target of the tier that was asked for, or of any tier, can serve this request."""

    code = "misfit"


class TooLong(Misfit):
    """A misfit that is about length. Clients compact when they see it, so its words follow a fixed form."""

    code = "context_length_exceeded"


class CallerKey(RequestError):
    """A target that takes the caller's own key was given none, or refused it."""

    status = 401
    code = "caller_key"


class Forbidden(RequestError):
    """A page from elsewhere, or a name that is not ours."""

    status = 403
    code = "forbidden"


class NotFound(RequestError):
    """No such route or record."""

    status = 404
    code = "not_found"


class UnknownModel(NotFound):
    """A model name that neither we nor the config know."""

    code = "model_not_found"


class WrongMethod(RequestError):
    """The route exists, not with this method."""

    status = 405
    code = "method_not_allowed"


class BodyTimeout(RequestError):
    """The body did not arrive in time."""

    status = 408
    code = "body_timeout"


class BodyTooLarge(RequestError):
    """The body is over `limits.max_body_bytes`."""

    status = 413
    code = "body_too_large"


class WrongMediaType(RequestError):
    """The body is not JSON in UTF-8, or is compressed."""

    status = 415
    code = "unsupported_media_type"


class UpgradeRequired(RequestError):
    """A WebSocket upgrade that is not served. Clients fall back to HTTP on this status at once."""

    status = 426
    code = "upgrade_required"


class HeadersTooLarge(RequestError):
    """More headers, or larger ones, than `limits` allows."""

    status = 431
    code = "headers_too_large"


class Unavailable(TandemError):
    """Passing: try again."""

    status = 503
    code = "unavailable"
    is_retryable = True


class TiersBusy(Unavailable):
    """Passing: every target that could serve this must be waited for."""

    status = 429
    code = "tiers_busy"


class InternalFault(TandemError):
    """A defect of ours, reported without its details."""


class UpstreamError(TandemError):
    """A target failed. `is_retryable` says whether another target may be tried while no byte was answered."""

    status = 502
    code = "upstream_error"
    is_retryable = True

    def __init__(self, target: str, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds)
        self.target = target


class UpstreamUnreachable(UpstreamError):
    """No connection, or lost before any answer."""

    code = "upstream_unreachable"


class UpstreamTimeout(UpstreamError):
    """Connected, and then silent for too long."""

    status = 504
    code = "upstream_timeout"


class UpstreamRefused(UpstreamError):
    """The target answered with an error status. Its body is kept, to be passed on as it came."""

    code = "upstream_refused"

    def __init__(
        self,
        target: str,
        status: int,
        body: bytes,
        content_type: str,
        *,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(target, f'target "{target}" answered {status}', retry_after_seconds=retry_after_seconds)
        self.status = status
        self.body = body
        self.content_type = content_type
        self.is_retryable = status in (408, 409, 425, 429) or status >= 500

    @property
    def blames_the_request(self) -> bool:
        """Whether the fault lies in what the caller sent, so that the caller must see the target's own words."""
        return 400 <= self.status < 500 and not self.is_retryable


class UpstreamAuth(UpstreamError):
    """The target refused our key: the operator's to mend, so the caller is not shown its text."""

    code = "upstream_auth"


class UpstreamModel(UpstreamError):
    """The target does not know the model that the config names."""

    code = "upstream_model"


class UpstreamMalformed(UpstreamError):
    """A success that is not an answer: a web page, nothing, or JSON of another shape."""

    code = "upstream_malformed"


class UpstreamCut(UpstreamError):
    """The answer ended without its terminal event."""

    code = "upstream_cut"
