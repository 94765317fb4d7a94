"""What a store says when it refuses, in one line that says what to do; nothing that the store says is passed on whole.

An error of a store is one of these: FileNotFoundError (there is no such object), FileExistsError, or a PlaceError.
A PlaceError is no OSError on purpose: a file that cannot be read is a fault of that file, and others are read; a store
that refuses ends the work.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from hopwire.errors import PlaceError
from hopwire.places.remote_path import RemotePath

__all__ = ["place_error", "said_plainly"]

VARIABLES = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_SESSION_TOKEN where the key has one",
    "gs": "GOOGLE_SERVICE_ACCOUNT or GOOGLE_APPLICATION_CREDENTIALS",
    "abfss": "AZURE_STORAGE_ACCOUNT_KEY, or AZURE_CLIENT_ID, AZURE_CLIENT_SECRET and AZURE_TENANT_ID",
    "hdfs": "HADOOP_USER_NAME, or the ticket of Kerberos",
}
# fmt: off
MEANINGS = (
    # reason           words of a store, or of the library that reaches it
    ("no_bucket",      r"NoSuchBucket|ContainerNotFound|bucket does not exist"),
    ("expired",        r"ExpiredToken|TokenRefreshRequired|token.{0,40}expired"),
    ("no_credentials", r"169\.254\.169\.254|metadata\.google|no credentials?|CredentialsNotFound"),
    ("credentials",    r"InvalidAccessKeyId|InvalidClientTokenId|SignatureDoesNotMatch|AuthFailure"),
    ("credentials",    r"AuthenticationFailed|InvalidToken|status code: 401|Unauthenticated|valid authentication"),
    ("denied",         r"AccessDenied|status code: 403|Forbidden|Permission ?denied|necessary privileges"),
    ("unreachable",    r"error sending request|Connection refused|dns error|timed? ?out|UnknownHost|connection closed"),
    ("overloaded",     r"status code: 5\d\d|SlowDown|InternalError|ServiceUnavailable"),
    ("region",         r"AuthorizationHeaderMalformed|PermanentRedirect|301 Moved"),
)
LINES = {
    "no_bucket":      "there is no such bucket; make it, or name another",
    "expired":        "the credentials have expired; renew {variables}",
    "no_credentials": "there are no credentials; set {variables}",
    "credentials":    "the store does not take the credentials; look at {variables}",
    "denied":         "these credentials may not {doing}; ask whoever owns the bucket",
    "unreachable":    "the store cannot be reached; is the network there, is the endpoint right?",
    "overloaded":     "the store fails (it says {code}); try again later",
    "region":         "the store is in another region; set AWS_DEFAULT_REGION",
    "refused":        "the store does not let us {doing} (it says {code})",
}
# fmt: on
CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>|status code: (\d{3}[A-Za-z ]{0,40})")


def place_error(place: RemotePath, error: BaseException, doing: str) -> PlaceError:
    """Give the error of a store as one line."""
    text = " ".join(str(error).replace(place.key or "\0", "").replace(place.root, "").split())
    code = CODE.search(text)
    told = next(filter(None, code.groups()), "").strip() if code else ""
    words = {"variables": VARIABLES[place.scheme], "doing": doing, "code": told or type(error).__name__}
    found = (reason for reason, pattern in MEANINGS if re.search(pattern, text, re.IGNORECASE))
    reason = next(found, "refused")
    return PlaceError(f"{place}: {LINES[reason].format(**words)}", reason)


@contextmanager
def said_plainly(place: RemotePath, doing: str) -> Iterator[None]:
    """Meanwhile raise what a store refuses as an error of ours."""
    try:
        yield
    except (PlaceError, FileExistsError):
        raise
    except FileNotFoundError as error:
        if "NoSuchBucket" in str(error) or "ContainerNotFound" in str(error):
            raise place_error(place, error, doing) from None
        raise FileNotFoundError(2, "is not there", str(place)) from None
    except Exception as error:  # libraries of stores have trees of errors of their own
        raise place_error(place, error, doing) from None
