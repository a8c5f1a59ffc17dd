"""Starts the agent of a seat below its actor: `python3 -I …/agent.py PID`, with its order on stdin."""

import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from millrace_agent.start import main
from millrace_worker import linux

# An actor that Ray kills says nothing to what it started.
linux.die_with_parent(int(sys.argv.pop()), signal.SIGTERM)
main()
