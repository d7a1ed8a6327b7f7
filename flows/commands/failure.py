"""What ends a command before it could answer: one line, exit code 2."""


class Failure(Exception):
    """The question could not be answered as asked: arguments, files, environment. The message is one line."""
