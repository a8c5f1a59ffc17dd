"""A server that answers whatever its path says, right or wrong, byte by byte."""

import os
import socket
import threading

OK = b"HTTP/1.1 200 OK\r\n"
FINE = OK + b"Content-Length: 2\r\n\r\nok"

#: What is sent, and whether the connection is closed then.
ANSWERS = {
    "/ok": (FINE, False),
    "/nothing": (b"", True),
    "/garbage": (b"hello there\r\n\r\n", True),
    "/too-little": (OK + b"Content-Length: 100\r\n\r\nfew", True),
    "/too-much": (OK + b"Content-Length: 2\r\n\r\nok and more", False),
    "/two-answers": (FINE + FINE, False),
    "/switch": (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", False),
    "/two-lengths": (OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nabc", False),
    "/both": (OK + b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", False),
    "/folded": (OK + b"X: a\r\n b\r\nContent-Length: 2\r\n\r\nok", False),
    "/zero": (OK + b"X: a\0b\r\nContent-Length: 2\r\n\r\nok", False),
    "/split": (OK + b"X: a\nSet-Cookie: b=c\r\nContent-Length: 2\r\n\r\nok", False),
    "/cut-chunk": (OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", True),
    "/bad-chunk": (OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n", False),
    "/interim": (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100, False),
    "/early": (b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno", False),
    "/until-close": (OK + b"\r\nall of it", True),
    "/cookie": (OK + b"Set-Cookie: millrace_x=1\r\nContent-Length: 2\r\n\r\nok", False),
    "/no-content": (b"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n", False),
    "/trailers": (
        OK
        + b"Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n"
        + b"Set-Cookie: millrace_x=1\r\nContent-Length: 5\r\nX-Request-Id: forged\r\n\r\n",
        False,
    ),
    "/go-on": (b"HTTP/1.1 100 Continue\r\n\r\n" + FINE, False),
    "/silent": (None, False),
}


def serve(connection):
    with connection:
        data = b""
        while True:
            while b"\r\n\r\n" not in data:
                piece = connection.recv(65536)
                if not piece:
                    return
                data += piece
            head, _, data = data.partition(b"\r\n\r\n")
            path = head.split(b" ")[1].decode()
            if path == "/told":
                while b"chunked" in head and not data.endswith(b"\r\n\r\n"):
                    data += connection.recv(65536)
                told = head + b"\r\n" + data
                connection.sendall(OK + b"Content-Length: %d\r\n\r\n" % len(told) + told)
                data = b""
                continue
            if path == "/last":
                # As much as the kernel may hold, and its process ends with it.
                body = b"x" * 2_000_000
                connection.sendall(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                os._exit(0)
            if path in ("/endless-headers", "/endless-body"):
                connection.sendall(OK if path == "/endless-headers" else OK + b"\r\n")
                piece = b"X-A: %s\r\n" % (b"a" * 1000)
                while True:
                    connection.sendall(piece)
            answer, closes = ANSWERS.get(path, ANSWERS["/ok"])
            if answer is None:
                while connection.recv(65536):
                    pass
                return
            connection.sendall(answer)
            if closes:
                return


def main():
    listener = socket.create_server(("127.0.0.1", int(os.environ["PORT"])), backlog=256)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=guard, args=(connection,), daemon=True).start()


def guard(connection):
    try:
        serve(connection)
    except OSError:
        pass


main()
