"""Runs a program in a terminal of so many columns: stdin is what is typed, stdout what the screen gets."""

import fcntl
import os
import pty
import select
import struct
import sys
import termios

ROWS = 24

columns, *argv = sys.argv[1:]
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(argv[0], argv)
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, int(columns), 0, 0))
watched = [terminal, 0]
while True:
    ready = select.select(watched, [], [])[0]
    if 0 in ready:
        typed = os.read(0, 65536)
        if typed:
            os.write(terminal, typed)
        else:
            watched.remove(0)
    if terminal in ready:
        try:
            shown = os.read(terminal, 65536)
        except OSError:  # Linux says so when the last program has left the terminal.
            break
        if not shown:
            break
        os.write(1, shown)
_, status = os.waitpid(pid, 0)
os._exit(os.waitstatus_to_exitcode(status) & 255)
