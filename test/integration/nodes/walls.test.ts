import { expect } from "vitest";
import { requireJudged } from "../../support/walls/walled.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { pair } from "./pair.ts";

const APP = {
  main: `
import socket

def run(host, port):
    try:
        socket.create_connection((host, port), timeout=60).close()
        return "connected"
    except OSError as error:
        return error.strerror

def addresses():
    return [each[4][0] for each in socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)]
`,
  toml: "[deployment]\nnetwork = true\n[scaling]\nmax_replicas = 1\n",
};

const nodes = pair({ app: APP }, { isolation: "process" });

verifies(
  "walls.nodes",
  "an app with network = true connects to no node's management API, whichever address it takes",
  async (context) => {
    await requireJudged("process", context);
    const { owner, other } = await nodes.sides("app");
    const otherPort = Number(new URL(other.service.baseUrl).port);
    await until("the walls of the app know the other node", async () => {
      const { json } = await owner.call("app", { host: "127.0.0.1", port: otherPort });
      return json.result === "Permission denied";
    });
    const own = await owner.call("app", {}, { functionName: "addresses" });
    const hosts = ["127.0.0.1", "0.0.0.0", ...(own.json.result as string[])];
    for (const host of hosts) {
      for (const service of [owner, other]) {
        const port = Number(new URL(service.service.baseUrl).port);
        const { json } = await owner.call("app", { host, port });
        expect([host, json.result]).toEqual([host, "Permission denied"]);
      }
    }
    // Its run endpoint is for everybody who has a token.
    const port = Number(new URL(other.service.apiUrl).port);
    expect((await owner.call("app", { host: "127.0.0.1", port })).json.result).toBe("connected");
  },
);
