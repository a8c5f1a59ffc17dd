import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { expect, test } from "vitest";
import { REPOSITORY } from "../../support/source-files.ts";

/** A replica that reads one frame whose answer nobody takes; it says so if it lives on. */
const ORPHAN = `
import socket, sys, threading
sys.path.insert(0, sys.argv[1])
from millrace_worker import frames, serve
class Orphan:
    def __init__(self, control):
        self.control = control
    def withdraw(self, call_id):
        return True
ours, theirs = socket.socketpair()
theirs.sendall(frames.pack(getattr(frames, sys.argv[2]), 0 if sys.argv[2] == "PING" else 1))
theirs.close()
thread = threading.Thread(target=serve._read_control, args=(Orphan(ours),))
thread.start()
thread.join()
print("lives on", flush=True)
`;

test.each(["PING", "WITHDRAW"])(
  "a replica ends when the service has gone before it could answer %s",
  async (frame) => {
    const child = spawn("python3", ["-c", ORPHAN, path.join(REPOSITORY, "python"), frame], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    let said = "";
    child.stdout.on("data", (data: Buffer) => (said += data.toString()));
    const [code] = await once(child, "close");
    expect([code, said]).toEqual([1, ""]);
  },
);
