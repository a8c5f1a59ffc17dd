import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import type { WallLevel } from "../../../src/host/walls/walls.ts";
import { copyHarness, runAltered, temporaryFolder } from "../../support/walls/altered-host.ts";
import { TRIED_LEVELS } from "../../support/walls/tried-levels.ts";
import { requireJudged } from "../../support/walls/walled.ts";
import { verifies } from "../../verifies.ts";

/** A user that owns nothing here. To root, no process can hide. */
const NOBODY = 65_534;
const SYSTEM_PYTHON = "/usr/bin/python3";
const IS_ROOT = process.getuid?.() === 0;

/** As an ordinary user, no service has the level `uid`. */
const WALL_LEVELS = new Set<WallLevel>(TRIED_LEVELS.map((level) => (level === "uid" ? "userns" : level)));

for (const level of WALL_LEVELS)
  verifies(
    "walls.hidden",
    `on ${level} an app that hides its processes is nobody's server, and keeps no other app from connecting`,
    async (context) => {
      await requireJudged(level, context);
      if (IS_ROOT && !existsSync(SYSTEM_PYTHON)) {
        process.stderr.write(`\nNOT TESTED: ${SYSTEM_PYTHON} is needed for an ordinary user\n`);
        context.skip(`${SYSTEM_PYTHON} is needed for an ordinary user`);
      }
      const folder = temporaryFolder(IS_ROOT ? NOBODY : undefined);
      const { harness, support } = copyHarness(folder);
      const answer = execFileSync(
        IS_ROOT ? SYSTEM_PYTHON : "python3",
        [path.join(support, "two-apps.py"), harness, path.join(folder, "apps"), level],
        { encoding: "utf8", cwd: folder, ...(IS_ROOT && { uid: NOBODY, gid: NOBODY }) },
      );
      // A server of the app that hides, at a port of its choosing and at another; one of the host; its own.
      const reached = ["EACCES", "EACCES", "connected", "connected"];
      expect(JSON.parse(answer)).toEqual({ dumpable: reached, unreadable: reached });
    },
  );

/** It is told to keep off 127.0.0.66, and listens itself where it would be judged to go. */
const UNSPECIFIED = `
import errno, json, socket
def served(host, port=0):
    server = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    server.bind((host, port))
    server.listen()
    return server
def reached(source, target, port):
    with socket.socket(socket.AF_INET6 if ":" in target else socket.AF_INET) as client:
        if ":" in target:
            client.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if source:
            client.bind((source, 0))
        code = client.connect_ex((target, port))
        return errno.errorcode[code] if code else client.getpeername()[0]
plain = served("127.0.0.1")
port = plain.getsockname()[1]
others = [served("127.0.0.5", port), served("127.0.0.66", port), served("::1", port)]
print(json.dumps({
    "plain": reached("", "0.0.0.0", port),
    "plain IPv6": reached("", "::", port),
    "plain mapped": reached("", "::ffff:0.0.0.0", port),
    "bound": reached("127.0.0.5", "0.0.0.0", port),
    "bound, denied": reached("127.0.0.66", "0.0.0.0", port),
    "bound, mapped": reached("::ffff:127.0.0.5", "::ffff:0.0.0.0", port),
    "bound, mapped, denied": reached("::ffff:127.0.0.66", "::ffff:0.0.0.0", port),
    "bound, mapped, IPv6": reached("::ffff:127.0.0.66", "::", port),
    "bound to IPv6": reached("::1", "::", port),
}))
`;

verifies("walls.unspecified", "an unspecified address leads where it is judged to lead", async (context) => {
  await requireJudged("process", context);
  const fields = { network: "true", management_port: "1", denied: "127.0.0.66/32" };
  expect(runAltered({ level: "process", fields }, UNSPECIFIED)).toEqual({
    plain: "127.0.0.1",
    "plain IPv6": "::1",
    "plain mapped": "::ffff:127.0.0.1",
    bound: "127.0.0.5",
    "bound, denied": "EACCES",
    "bound, mapped": "::ffff:127.0.0.5",
    "bound, mapped, denied": "EACCES",
    "bound, mapped, IPv6": "::ffff:127.0.0.1",
    "bound to IPv6": "::1",
  });
});
