import { once } from "node:events";
import { chmodSync } from "node:fs";
import { createServer } from "node:net";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { runAltered, temporaryFolder } from "../../support/walls/altered-host.ts";
import { requireJudged } from "../../support/walls/walled.ts";
import { verifies } from "../../verifies.ts";

/** Beside it, a program of the host listens at a name without a path, and at the path that it is told. */
const PROGRAM = `
import errno, json, os, socket, sys
def ended(attempt):
    try:
        attempt()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
def of_the_host():
    return next(line.split("@")[1].strip() for line in open("/proc/net/unix") if "millrace-old-kernel" in line)
def datagrams():
    """As NCCL passes descriptors on."""
    first, second = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
    first.bind("\\0tmp/nccl-socket-0")
    child = os.fork()
    if child == 0:
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, (1).to_bytes(4, sys.byteorder))
        second.sendmsg([b"x"], [rights], 0, "\\0tmp/nccl-socket-0")
        os._exit(0)
    os.waitpid(child, 0)
    first.settimeout(60)
    assert socket.recv_fds(first, 1, 1)[0] == b"x" and not os.get_inheritable(first.fileno())
def many():
    """The keeper gets a signal around each of them, when the process ends that made it."""
    for _ in range(100):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
            made.bind("")
def long_name():
    server, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    server.bind("\\0" + "n" * 107)
    server.listen()
    client.connect("\\0" + "n" * 107)
def own_name():
    server, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    server.bind("")
    server.listen()
    client.connect(server.getsockname())
def beside():
    os.chdir(os.environ["HOME"])
    os.umask(0o077)
    server, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    server.bind("own.sock")
    server.listen()
    client.connect("./own.sock")
    status = os.stat("own.sock")
    return [oct(status.st_mode), status.st_uid == os.getuid(), server.accept()[0].getsockopt(1, 17, 12)[4:8] == os.getuid().to_bytes(4, "little")]
def link_out():
    os.symlink(sys.argv[1], "link")
    socket.socket(socket.AF_UNIX).connect("link")
print(json.dumps({
    "datagrams": ended(datagrams),
    "many datagrams": ended(many),
    "datagrams of the host": ended(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", "\\0millrace-old-datagrams")),
    "of the host": ended(lambda: socket.socket(socket.AF_UNIX).connect("\\0" + of_the_host())),
    "long name": ended(long_name),
    "own name": ended(own_name),
    "beside": beside(),
    "link out": ended(link_out),
    "elsewhere": ended(lambda: socket.socket(socket.AF_UNIX).bind("/etc/planted.sock")),
}))
`;

verifies(
  "walls.old-kernel",
  "without Landlock's scopes the keeper keeps an app's unix sockets apart, with the rights of the app",
  async (context) => {
    await requireJudged("userns", context);
    const withPath = path.join(temporaryFolder(), "host.sock");
    for (const name of ["\0millrace-old-kernel", withPath]) {
      const server = createServer().listen(name);
      await once(server, "listening");
      onTestFinished(() => void server.close());
    }
    chmodSync(path.dirname(withPath), 0o777);
    chmodSync(withPath, 0o777);
    const ends = {
      datagrams: "EPERM",
      "many datagrams": "EPERM",
      "datagrams of the host": "EPERM",
      "of the host": "ECONNREFUSED",
      "long name": "done",
      "own name": "done",
      beside: ["0o140700", true, true],
    };
    const own = { datagrams: "done", "many datagrams": "done", "datagrams of the host": "ECONNREFUSED" };
    const apart = { ...ends, ...own, "link out": "ENOENT", elsewhere: "EROFS" };
    expect(runAltered({ level: "userns", landlock: 5 }, PROGRAM, withPath)).toEqual(apart);
    if (process.getuid?.() === 0)
      expect(runAltered({ level: "uid", landlock: 5 }, PROGRAM, withPath)).toEqual(apart);
    // Here the app could see the other's path, so that no link is followed at all.
    await requireJudged("landlock", context);
    const beside = { ...ends, "link out": "ECONNREFUSED", elsewhere: "EACCES" };
    expect(runAltered({ level: "landlock" }, PROGRAM, withPath)).toEqual(beside);
  },
);
