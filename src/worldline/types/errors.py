"""The two ways a command can fail, and the exit code of each."""


class WorldlineError(Exception):
    """The work failed (exit code 1). The message is one line a user can act on."""

    exit_code = 1


class InputError(WorldlineError):
    """Bad input (exit code 2): names the file, field or flag, and how to mend it."""

    exit_code = 2
