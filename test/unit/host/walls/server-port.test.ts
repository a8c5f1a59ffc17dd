import { execFileSync } from "node:child_process";
import path from "node:path";
import { expect } from "vitest";
import { REPOSITORY } from "../../../support/source-files.ts";
import { verifies } from "../../../verifies.ts";

/** Does what it is told with the port of a server: declared 8000, its own 21005. */
const SERVER_PORT = `
import json, sys; sys.path.insert(0, ${JSON.stringify(path.join(REPOSITORY, "python"))})
from millrace_walls.server_port import ServerPort
class Log:
    def __init__(self):
        self.lines = []
    def tell(self, text):
        self.lines.append(text)
log = Log()
port = ServerPort(*json.loads(sys.argv[1]), log)
print(json.dumps([[getattr(port, name)(*rest) for name, *rest in json.loads(sys.argv[2])], log.lines]))
`;

type Act = readonly ["to_bind" | "to_connect" | "note_bound" | "note_in_use", number];

/** What each act gave, and what was told. */
function after(acts: readonly Act[], ports = [8000, 21_005]): [(number | null)[], string[]] {
  const args = ["-I", "-S", "-c", SERVER_PORT, JSON.stringify(ports), JSON.stringify(acts)];
  return JSON.parse(execFileSync("python3", args, { encoding: "utf8" })) as ReturnType<typeof after>;
}

verifies(
  "servers.port-in-code.replicas",
  "the declared port stands for the replica's own, and no other port does",
  () => {
    const acts: Act[] = [
      ["to_connect", 8000],
      ["to_bind", 8000],
      ["note_bound", 8000],
      ["to_bind", 8000],
      ["to_bind", 21_005],
      ["note_bound", 21_005],
      ["to_bind", 8000],
      ["to_connect", 8000],
      ["to_bind", 8001],
      ["to_connect", 8001],
      ["to_bind", 0],
    ];
    const own = 21_005;
    expect(after(acts)[0]).toEqual([own, own, null, own, own, null, own, own, 8001, 8001, 0]);
    expect(after(acts, [0, 0])[0]).toEqual([8000, 8000, null, 8000, own, null, 8000, 8000, 8001, 8001, 0]);
  },
);

verifies(
  "servers.port-in-code.replicas",
  "a server that binds PORT first and the declared port after that has both",
  () => {
    const [given] = after([
      ["note_bound", 21_005],
      ["to_connect", 8000],
      ["to_bind", 8000],
      ["note_bound", 8000],
      ["to_connect", 8000],
      ["to_bind", 8000],
    ]);
    expect(given).toEqual([null, 21_005, 8000, null, 8000, 8000]);
  },
);

verifies("servers.second-port", "each port that was in use is told once, and of a few only", () => {
  const ports = [9090, 9090, 8000, 9091, 9092, 9093, 9094];
  const [, told] = after(ports.map((port) => ["note_in_use", port]));
  expect(told.map((text) => /TCP port (\d+)/.exec(text)?.[1])).toEqual(["9090", "9091", "9092", "9093"]);
  for (const text of told) expect(text).toContain("set max_replicas = 1");
  const [, both] = after([
    ["note_bound", 8000],
    ["note_in_use", 21_005],
  ]);
  expect(both).toEqual([expect.stringContaining("the server already listens on 8000")]);
});
