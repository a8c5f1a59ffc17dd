import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { once } from "node:events";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, type TestContext, vi } from "vitest";
import { WebSocket } from "ws";
import { MILLRACE } from "../../support/command-line.ts";
import { commandsOf, tryCommand } from "../../support/document-commands.ts";
import { sharedService } from "../../support/shared-service.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { wheelsOf } from "../../support/wheels.ts";
import { verifies } from "../../verifies.ts";

const service = sharedService();
let home = "";
let wheels: string | null = null;

beforeAll(async () => {
  wheels = await wheelsOf("fastapi", "uvicorn", "websockets");
  // The builds find them there, and ask no index.
  vi.stubEnv("PIP_FIND_LINKS", wheels ?? "");
  vi.stubEnv("PIP_NO_INDEX", "1");
  home = mkdtempSync(path.join(tmpdir(), "millrace-examples-"));
  symlinkSync(MILLRACE, path.join(home, "millrace"));
  symlinkSync(path.join(REPOSITORY, "examples"), path.join(home, "examples"));
});

afterAll(() => {
  vi.unstubAllEnvs();
  rmSync(home, { recursive: true, force: true });
});

/** Runs the commands of an example's README; gives what each printed. */
async function readme(name: string, context: TestContext): Promise<string[]> {
  context.skip(wheels === null, `NOT TESTED: the packages of examples/${name} cannot be had here`);
  const { baseUrl, apiUrl, owner } = service().service;
  const env = {
    PATH: `${home}:${process.env["PATH"]}`,
    XDG_CONFIG_HOME: path.join(home, "config"),
    MILLRACE_URL: baseUrl,
    MILLRACE_API_URL: apiUrl,
    MILLRACE_TOKEN: owner.token,
  };
  const printed: string[] = [];
  for (const command of commandsOf(`examples/${name}/README.md`)) {
    printed.push(await tryCommand(command, { cwd: home, env }));
  }
  return printed;
}

describe("the examples with packages", () => {
  verifies(["examples.work", "docs.blocks"], "fastapi checks orders and streams ticks", async (context) => {
    const [deployed, ordered, ticks] = await readme("fastapi", context);
    expect(deployed).toContain("fastapi is deployed");
    expect(JSON.parse(ordered ?? "")).toEqual({ item: "wheel", count: 2, price: 240 });
    expect(ticks).toBe("tick 1\ntick 2\ntick 3\n");
    const wrong = await service().call("fastapi", { item: "gate", count: 0 }, { functionName: "orders" });
    expect([wrong.status, wrong.json.detail]).toEqual([
      422,
      [expect.objectContaining({ loc: ["body", "count"] })],
    ]);
  });

  verifies(
    ["examples.work", "docs.blocks"],
    "rooms passes messages to everyone in a room",
    async (context) => {
      const [deployed] = await readme("rooms", context);
      expect(deployed).toContain("rooms is deployed");
      const [ada, bo, other] = await Promise.all([enter("hall"), enter("hall"), enter("cellar")]);
      const heard = [once(ada, "message"), once(bo, "message")];
      ada.send("who is there?");
      for (const [data] of await Promise.all(heard)) expect(String(data)).toBe("who is there?");
      other.send("nobody");
      expect(String((await once(other, "message"))[0])).toBe("nobody");
      for (const visitor of [ada, bo, other]) visitor.close();
      await Promise.all([ada, bo, other].map(async (visitor) => await once(visitor, "close")));
    },
  );
});

async function enter(room: string): Promise<WebSocket> {
  const { token } = service().service.owner;
  const socket = new WebSocket(service().url("rooms", room).replace(/^http/, "ws"), {
    headers: { authorization: `Bearer ${token}` },
  });
  await once(socket, "open");
  return socket;
}
