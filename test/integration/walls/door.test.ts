import { execFileSync } from "node:child_process";
import path from "node:path";
import { expect } from "vitest";
import { descriptorsOf } from "../../support/process-tree.ts";
import { testService } from "../../support/service.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { until } from "../../support/until.ts";
import { outerKeeperOf, onlyUpTo, requireOffered } from "../../support/walls/walled.ts";
import { TRIED_LEVELS } from "../../support/walls/tried-levels.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
import os
import socket

TICKET = b"0" * 32
LINE = b"millrace 1 wire " + TICKET

def send(line, descriptors):
    """One message at the door; the app may of course use the descriptor that it was started with."""
    door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=os.dup(3))
    with door:
        socket.send_fds(door, [line], descriptors)

def asked(line, count=1):
    """What comes back for a request with so many descriptors: how many connections, or why none."""
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(count)]
    send(line, [theirs.fileno() for _, theirs in pairs])
    for _, theirs in pairs:
        theirs.close()
    given = [socket.recv_fds(mine, 1, 1)[1] for mine, _ in pairs]
    for mine, _ in pairs:
        mine.close()
    return sum(map(len, given)), given

def forge():
    """None of these gives a connection."""
    lines = (b"x", b"\\0" * 128, b"GET / HTTP/1.1", LINE + b"\\n", LINE + b" 1", LINE + b"\\nmillrace 1 control " + TICKET,
             b"millrace 1 keys " + TICKET, b"millrace 2 wire " + TICKET, LINE.upper(), LINE + b"x" * 100_000)
    wrong = [line[:60].decode() for line in lines if asked(line)[0] != 0]
    wrong += ["%d descriptors" % count for count in (2, 3, 8, 9, 50, 250) if asked(LINE, count)[0] != 0]
    return wrong

def throw():
    """Descriptors that nobody can answer on, and messages without one."""
    read, write = os.pipe()
    mine, theirs = socket.socketpair()
    mine.close()
    with open("main.py") as code:
        for each in (read, write, theirs.fileno(), code.fileno(), 3):
            send(LINE, [each])
    for line in (LINE, b"", b"x"):
        send(line, [])
    for each in (read, write):
        os.close(each)
    theirs.close()
    return True

def unknown():
    """A ticket that nobody gave out gets a connection that the service closes without a word."""
    count, [[descriptor]] = asked(LINE)
    with socket.socket(fileno=descriptor) as connection:
        return [count, connection.recv(1).decode()]

def die():
    os._exit(3)
`;

for (const level of TRIED_LEVELS) {
  verifies(
    "walls.door",
    `on ${level} forged requests get nothing, and the app still forks`,
    async (context) => {
      await requireOffered(level, context);
      const service = await testService({ app: { main: MAIN } }, await onlyUpTo(level));
      const call = async (functionName: string) => await service.call("app", {}, { functionName });
      expect((await call("unknown")).json.result).toEqual([1, ""]);
      const [replica] = service.apps.get("app")!.pool.replicas;
      const outer = outerKeeperOf(replica!.pid, process.pid);
      // The agent may still be closing what it was given for the call before.
      const open = descriptorsOf(outer).size;
      expect((await call("forge")).json.result).toEqual([]);
      expect((await call("throw")).json.result).toBe(true);
      expect((await call("unknown")).json.result).toEqual([1, ""]);
      await until("it has closed what it was given", () => descriptorsOf(outer).size <= open);
      // A new replica comes through the same door.
      expect((await call("die")).status).toBe(502);
      expect((await call("unknown")).json.result).toEqual([1, ""]);
    },
  );
}

const PACE = `
import socket, sys, tempfile
sys.path.insert(0, ${JSON.stringify(path.join(REPOSITORY, "python"))})
from millrace_agent import door

class Clock:
    now = 0.0
    def monotonic(self):
        return self.now

door.time = clock = Clock()
outer, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
asked = door.Door(outer, "/nonexistent")

def answered():
    """How many of more requests than it takes at once."""
    count = 0
    while asked.pause_seconds() == 0:
        inner.send(b"x")
        asked.answer()
        count += 1
    return count

print(answered())
clock.now = 1.0
print(answered(), asked.pause_seconds())
clock.now = 1000.0
print(answered())
inner.close()
print(asked.answer())
`;

verifies("walls.door", "requests are answered 256 at once, and 64 a second after that", () => {
  const said = execFileSync("python3", ["-I", "-c", PACE], { encoding: "utf8" });
  expect(said).toBe(`256\n64 ${1 / 64}\n256\nFalse\n`);
});
