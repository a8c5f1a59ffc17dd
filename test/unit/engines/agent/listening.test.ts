import { expect, test } from "vitest";
import { agentPython } from "./agent-python.ts";

/** `born(*addresses)` starts a process that listens there, and gives its ports. */
const SERVERS = `
import signal, socket
from millrace_agent import listening
from millrace_agent.listening import OwnServer

started = []
def idle():
    pid = os.fork()
    if pid > 0:
        started.append(pid)
    else:
        signal.pause()
    return pid

def born(*addresses):
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        servers = [listen(address) for address in addresses]
        os.write(tell, json.dumps([each.getsockname()[1] for each in servers]).encode())
        signal.pause()
    started.append(pid)
    return json.loads(os.read(told, 1000))

def listen(address):
    host, port = address
    server = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(address)
    server.listen()
    return server

def say(value):
    for pid in started:
        os.kill(pid, signal.SIGKILL)
    print(json.dumps(value))
`;

const own = (fields: object) => ({ is: true, host: "127.0.0.1", is_fixed: false, is_open: false, ...fields });

test("those that listen are found among many connections, however late they came", () => {
  const code = `
first = listen(("127.0.0.1", 0))
port = first.getsockname()[1]
clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
second = listen(("0.0.0.0", 0))
open_port = second.getsockname()[1]
seen = [listening.seen_by(os.getpid(), each) for each in (port, open_port)]
say([len(each) for each in seen] + [listening.is_reached_from_outside(each) for each in seen] + [listening.seen_by(0, port)])`;
  expect(agentPython(SERVERS + code)).toEqual([1, 1, false, true, []]);
});

test("a server is found on the port that it was given, or on the one in its code, and nobody else's", () => {
  const code = `
(inner, outer) = born(("127.0.0.1", 0), ("0.0.0.0", 0))
us = os.getpid()
stranger = idle()
found = [OwnServer(inner, outer).place(us), OwnServer(outer, outer).place(us), OwnServer(1, inner).place(us)]
# Below another process, neither is its own.
found += [OwnServer(inner, 1).place(stranger), OwnServer(1, inner).place(stranger), OwnServer(1, 1).place(us)]
say([{key: value for key, value in each.items() if key not in ("port", "taken")} for each in found]
    + [found[0]["port"] == inner, found[2]["port"] == inner, found[3]["taken"] == inner])`;
  expect(agentPython(SERVERS + code)).toEqual([
    own({}),
    own({ is_open: true }),
    own({ is_fixed: true }),
    { is: false },
    { is: false },
    { is: false },
    true,
    true,
    true,
  ]);
});

test("a port that another process shares is not the server's", () => {
  const code = `
(port,) = born(("127.0.0.1", 0))
mine = OwnServer(port, port)
before = mine.place(os.getpid())["is"]
ours = listen(("127.0.0.1", port))
say([before, mine.place(os.getpid()) == {"is": False, "taken": port}])`;
  expect(agentPython(SERVERS + code)).toEqual([true, true]);
});

test("a server is found behind a hundred other processes of its app", () => {
  const code = `
for _ in range(100):
    idle()
(port,) = born(("127.0.0.1", 0))
say(OwnServer(port, port).place(os.getpid())["is"])`;
  expect(agentPython(SERVERS + code)).toBe(true);
});
