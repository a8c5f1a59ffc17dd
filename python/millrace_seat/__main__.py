"""Starts an agent: `python3 -I …/millrace_seat [ORDER.json]`; without a file the order is read from stdin."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

if sys.argv[1:2] == ["--check"]:
    from millrace_seat import check

    check.main(sys.argv[2:])

from millrace_seat.start import main

main()
