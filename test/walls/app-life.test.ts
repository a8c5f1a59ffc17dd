import { WALL_LEVELS } from "../../src/host/walls/walls.ts";
import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { runtimeDir } from "../../src/kit/runtime-dir.ts";
import { testService } from "../support/service.ts";
import { onlyUpTo, requireOffered } from "../support/walls/walled.ts";
import { verifies } from "../verifies.ts";

const MAIN = `
import getpass
import grp
import multiprocessing
import multiprocessing.shared_memory
import os
import pwd
import socket

def write():
    with open("main.py", "a") as code:
        code.write("# changed\\n")
    with open("output.txt", "w") as output:
        output.write("mine")
    return sorted(os.listdir("."))

def read():
    with open("main.py") as code, open("output.txt") as output:
        return [code.read().endswith("# changed\\n"), output.read(), os.path.exists("/cortex/output.txt")]

def die():
    os._exit(3)

def square(queue, number):
    queue.put(number * number)

def processes():
    queue = multiprocessing.Queue()
    child = multiprocessing.Process(target=square, args=(queue, 7))
    child.start()
    answer = queue.get()
    child.join()
    memory = multiprocessing.shared_memory.SharedMemory(create=True, size=16)
    memory.buf[0] = 5
    again = multiprocessing.shared_memory.SharedMemory(memory.name)
    seen = again.buf[0]
    again.close()
    memory.close()
    memory.unlink()
    with multiprocessing.Lock():
        return [answer, seen]

def terminal():
    ours, theirs = os.openpty()
    os.write(theirs, b"hello")
    return os.read(ours, 5).decode()

def names():
    with open("/var/tmp/mine", "w") as file:
        file.write("mine")
    own = pwd.getpwuid(os.getuid())
    group = grp.getgrgid(os.getgid()).gr_name
    return [getpass.getuser(), own.pw_name, group, os.path.samefile(own.pw_dir, os.environ["HOME"]), pwd.getpwuid(0).pw_name]

def talk():
    place = os.path.join(os.environ["HOME"], "own.sock")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(place)
        server.listen()
        client.connect(place)
    os.unlink(place)
    return True

def ask_service(sockets):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(sockets + "/control.sock")
        client.sendall(b"POST /storage HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 2\\r\\n\\r\\n{}")
        answer = client.recv(1000).decode()
    try:
        open(sockets + "/control.key").close()
        key = "read"
    except OSError as error:
        key = type(error).__name__
    return [answer.split()[1], key]
`;

verifies(
  "walls.working-folder",
  "what an app writes beside its code is its own, and stays with its template",
  async (context) => {
    for (const level of ["userns", "uid"] as const) {
      await requireOffered(level, context);
      const service = await testService({ app: { main: MAIN } }, await onlyUpTo(level));
      const result = async (functionName: string) =>
        (await service.call("app", {}, { functionName })).json.result;
      const before = readdirSync(service.bundleDir("app")).toSorted();
      expect(await result("write")).toEqual(expect.arrayContaining(["main.py", "output.txt"]));
      expect((await service.call("app", {}, { functionName: "die" })).status).toBe(502);
      // Another process, of the same template.
      expect(await result("read")).toEqual([true, "mine", true]);
      expect(readdirSync(service.bundleDir("app")).toSorted()).toEqual(before);
      expect(readFileSync(path.join(service.bundleDir("app"), "main.py"), "utf8")).toBe(MAIN);
    }
  },
);

verifies(
  "walls.working-folder",
  "on landlock a write there is refused with the file's name",
  async (context) => {
    await requireOffered("landlock", context);
    const service = await testService({ app: { main: MAIN } }, await onlyUpTo("landlock"));
    const { status, json } = await service.call("app", {}, { functionName: "write" });
    expect([status, json.message]).toEqual([500, expect.stringMatching(/PermissionError.*main\.py/)]);
  },
);

for (const level of WALL_LEVELS) {
  verifies("walls.processes", `on ${level} an app of several processes works`, async (context) => {
    await requireOffered(level, context);
    const service = await testService({ app: { main: MAIN } }, await onlyUpTo(level));
    expect((await service.call("app", {}, { functionName: "processes" })).json.result).toEqual([49, 5]);
    if (level === "process" || level === "landlock") return;
    expect((await service.call("app", {}, { functionName: "terminal" })).json.result).toBe("hello");
  });
}

verifies(
  "walls.unix-sockets",
  "an app has unix sockets if it asks for them, or sees no others",
  async (context) => {
    const asking = "[deployment]\nunix_sockets = true\n";
    for (const level of WALL_LEVELS) {
      await requireOffered(level, context);
      const apps = { asks: { main: MAIN, toml: asking }, not: { main: MAIN } };
      const service = await testService(apps, await onlyUpTo(level));
      expect((await service.call("asks", {}, { functionName: "talk" })).json.result).toBe(true);
      expect((await service.call("not", {}, { functionName: "talk" })).status).toBe(
        level === "process" || level === "landlock" ? 500 : 200,
      );
      if (level !== "landlock") continue;
      const sockets = runtimeDir(service.settings.dataDir);
      const asked = await service.call("asks", { sockets }, { functionName: "ask_service" });
      expect(asked.json.result).toEqual(["403", "PermissionError"]);
    }
  },
);

verifies("walls.names", "on uid an app's user has a name, beside those of the host", async (context) => {
  await requireOffered("uid", context);
  const service = await testService({ app: { main: MAIN } }, await onlyUpTo("uid"));
  const { json } = await service.call("app", {}, { functionName: "names" });
  expect(json.result).toEqual(["app", "app", "app", true, "root"]);
});
