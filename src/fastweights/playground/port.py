"""The place where the page listens: this machine alone."""

import socket

HOST = "127.0.0.1"


def refuse_taken_port(port: int) -> None:
    """Raise a ValueError if something else listens there, or if there is no such port."""
    if not 1 <= port <= 65535:
        raise ValueError(f"port: expected a number from 1 to 65535, got {port}")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise ValueError(f"port: {port} is taken ({error.strerror}); choose another one with --port") from error
