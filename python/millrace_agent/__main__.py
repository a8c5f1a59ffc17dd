"""Starts an agent: `python3 -I …/millrace_agent [ORDER.json]`; without a file it reads the order from stdin."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

if sys.argv[1:2] == ["--check"]:
    from millrace_agent import check

    check.main(sys.argv[2:])

try:
    from millrace_agent.start import main
except ImportError as error:
    # One line instead of a traceback: build logs and answers to callers quote it.
    sys.exit("Python %d.%d lacks a module that the agent needs: %s" % (*sys.version_info[:2], error))

main()
