"""What a call of the system must not do."""

import errno


def refuses(number, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except OSError as error:
        assert error.errno == number, f"{errno.errorcode[error.errno]} and not {errno.errorcode[number]}"
    else:
        raise AssertionError(f"is not refused with {errno.errorcode[number]}")
