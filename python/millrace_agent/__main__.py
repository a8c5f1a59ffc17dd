"""Starts an agent: `python3 -I …/millrace_agent [ORDER.json]`; without a file the order is read from stdin."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

if sys.argv[1:2] == ["--check"]:
    from millrace_agent import check

    check.main(sys.argv[2:])

from millrace_agent.start import main

main()
