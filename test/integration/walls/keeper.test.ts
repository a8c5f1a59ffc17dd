import { expect } from "vitest";
import { runAltered } from "../../support/walls/altered-host.ts";
import { requireJudged } from "../../support/walls/walled.ts";
import { verifies } from "../../verifies.ts";

/** Its own server takes no more connections, so that a new one waits; another thread ends the attempt. */
const DISCONNECTED = `
import ctypes, errno, json, os, socket, threading
libc = ctypes.CDLL(None, use_errno=True)
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen(0)
held = []
while not held or held[-1].getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == 1:
    held.append(socket.socket())
    held[-1].setblocking(False)
    held[-1].connect_ex(server.getsockname())
client = socket.socket()
ended = []
waiting = threading.Thread(target=lambda: ended.append(client.connect_ex(server.getsockname())))
waiting.start()
while client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != 2:
    pass
libc.connect(client.fileno(), bytes(16), 16)
waiting.join()
other = socket.socket()
other.bind(("127.0.0.1", 0))
print(json.dumps(errno.errorcode[ended[0]]))
`;

/** Each call is interrupted once, a little later each time. */
const INTERRUPTED = `
import ctypes, errno, json, signal, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, False)
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen(10)
family = struct.pack("=H", socket.AF_INET)
target = family + struct.pack("!H", server.getsockname()[1]) + socket.inet_aton("127.0.0.1") + bytes(8)
ends = set()
for microseconds in range(1, 400):
    for call, name in ((libc.bind, family + bytes(14)), (libc.connect, target)):
        with socket.socket() as client:
            signal.setitimer(signal.ITIMER_REAL, microseconds / 1e6)
            failed = call(client.fileno(), name, len(name))
            code = ctypes.get_errno()
            signal.setitimer(signal.ITIMER_REAL, 0)
            ends.add(errno.errorcode[code] if failed else "done")
            if call is libc.connect:
                server.accept()[0].close()
print(json.dumps(sorted(ends)))
`;

verifies(
  "walls.keeper",
  "an app that ends a connection on its way does not hold up its keeper",
  async (context) => {
    await requireJudged("process", context);
    expect(runAltered({ level: "process" }, DISCONNECTED)).toBe("ECONNABORTED");
  },
);

verifies(
  "walls.keeper",
  "calls succeed that a signal interrupts while the keeper answers",
  async (context) => {
    await requireJudged("process", context);
    expect(runAltered({ level: "process" }, INTERRUPTED)).toEqual(["done"]);
  },
);
