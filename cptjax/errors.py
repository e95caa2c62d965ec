"""What a user did that we cannot work with, said in one line."""

__all__ = ["InputError"]


class InputError(ValueError):
    """Bad input: one line that names the place (file, row, column) and the cure.

    The command line prints it without a traceback and exits with code 2; in Python it is an ordinary ``ValueError``.
    """
