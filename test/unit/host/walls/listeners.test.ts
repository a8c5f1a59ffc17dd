import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { PYTHON_DIR } from "../../../../src/config/package-files.ts";

/** Stands in for a service: its children ask who listens at a port, and hold what they are told to. */
const HEAD = `
import os, signal, socket, struct, sys
sys.path.insert(0, sys.argv[1])
from millrace_walls.addresses import Address
from millrace_walls.listeners import Listeners
service = os.getpid()
def child(work):
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        work(lambda text: os.write(tell, text.encode()))
        os._exit(0)
    os.close(tell)
    return pid, os.read(told, 1000).decode()
def listening(host, port=0):
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind((host, port))
    server.listen(1)
    return server
def at(server):
    return Address(32, int.from_bytes(socket.inet_aton("127.0.0.1"), "big"), server.getsockname()[1])
def inode(server):
    return os.fstat(server.fileno()).st_ino
`;

const run = (code: string): unknown =>
  JSON.parse(execFileSync("python3", ["-c", HEAD + code, PYTHON_DIR], { encoding: "utf8" }));

test("a file in memory of an app does not pass for a keeper's notes", () => {
  const owners = run(`
import json
def of_the_host(tell):
    server = listening("127.0.0.1")
    tell("%d %d" % (server.getsockname()[1], inode(server)))
    signal.pause()
host, said = child(of_the_host)
port, number = map(int, said.split())
def keep(tell):
    server = listening("127.0.0.1")
    Listeners(service).note(server)
    forged = os.memfd_create("millrace-listeners")
    os.write(forged, struct.pack("=Q", number))
    tell(str(server.getsockname()[1]))
    signal.pause()
keeper, noted = child(keep)
def ask(tell):
    listeners = Listeners(service)
    tell(json.dumps([sorted(listeners.at(Address(32, 0x7F000001, each))) for each in (port, int(noted))]))
print(child(ask)[1])
for each in (host, keeper):
    os.kill(each, signal.SIGKILL)
`);
  expect(owners).toEqual([["other"], ["neighbour"]]);
});

test("a server is found while many others close that the kernel keeps beside it", () => {
  const missed = run(`
server = listening("127.0.0.1")
while not 0x8400 <= server.getsockname()[1]:
    server = listening("127.0.0.1")
def churn(tell):
    tell("ready")
    for _ in range(40):
        held = [listening("127.0.0.1", server.getsockname()[1] ^ 0x8000) for _ in range(700)]
        while held:
            held.pop().close()
churning, _ = child(churn)
listeners = Listeners(0)
missed = 0
while os.waitpid(churning, os.WNOHANG) == (0, 0):
    missed += inode(server) not in listeners._listening(at(server))
print(missed)
`);
  expect(missed).toBe(0);
});
