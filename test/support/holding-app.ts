/**
 * The Python of an app whose calls a test holds: `hold` leaves the file `entered-<pid>` and answers once the test has
 * left the file `go`; `run` sleeps as long as it is told to. Both answer with their process. Tests add what else they
 * need behind it.
 */
export const HOLDING_APP = `
import os
import time

def run(seconds=0):
    time.sleep(seconds)
    return os.getpid()

def hold():
    open("entered-%d" % os.getpid(), "w").close()
    while not os.path.exists("go"):
        time.sleep(0.005)
    return os.getpid()
`;
