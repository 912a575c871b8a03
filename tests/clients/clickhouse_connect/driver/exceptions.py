"""The errors of the stand-in."""


class Error(Exception):
    pass


class DatabaseError(Error):
    pass


class OperationalError(DatabaseError):
    pass


class StreamFailureError(Error):
    pass
