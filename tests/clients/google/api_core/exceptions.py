"""The errors of the stand-in."""


class GoogleAPICallError(Exception):
    pass


class NotFound(GoogleAPICallError):
    pass


class Conflict(GoogleAPICallError):
    pass


class Forbidden(GoogleAPICallError):
    pass


class TooManyRequests(GoogleAPICallError):
    pass


class ServiceUnavailable(GoogleAPICallError):
    pass
