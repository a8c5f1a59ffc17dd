import { expect } from "vitest";
import { AppFailed, ConnectionLost, NotFound, Unauthorized } from "../../../src/client/client.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { clientOf, inPython } from "./site.ts";

const WIDE = "[scaling]\nmax_replicas = 1\nreplica_concurrency = 8\n";
const service = sharedService({ web: serverApp({ toml: WIDE }) });

type Echo = { method: string; path: string; body: string };

/** Whether the server has noticed that a caller left. */
const hasNoticed = (): boolean => service().logs.some(({ text }) => text === "the caller has gone");

verifies(
  "client.server",
  "fetch is the global fetch with address and token; errors of the server are responses",
  async () => {
    const client = clientOf(service());
    const echoed = await client.fetch("web", "/items?a=%20", { method: "PUT", body: "two words" });
    expect([echoed.status, (await echoed.json()) as Echo]).toMatchObject([
      200,
      { method: "PUT", path: "/items?a=%20", body: "two words" },
    ]);
    const missing = await client.fetch("web", "/echo?status=404");
    expect([missing.status, (await missing.json()) as Echo]).toMatchObject([404, { method: "GET" }]);

    const leaving = new AbortController();
    const endless = await client.fetch("web", "forever", { signal: leaving.signal });
    const reader = endless.body?.pipeThrough(new TextDecoderStream()).getReader();
    expect((await reader?.read())?.value).toMatch(/^begun\n/);
    leaving.abort(new Error("enough"));
    await expect(client.fetch("web", "/", { signal: leaving.signal })).rejects.toThrow("enough");
    await until("the server noticed", hasNoticed);
  },
);

verifies("client.server", "fetch throws what the service itself refuses", async () => {
  const client = clientOf(service());
  await expect(client.fetch("none", "/x")).rejects.toThrow(NotFound);
  await expect(clientOf(service(), undefined, { token: "no" }).fetch("web", "/")).rejects.toThrow(
    Unauthorized,
  );
  await expect(client.fetch("web", "/exit")).rejects.toThrow(AppFailed);
  await expect(clientOf(service(), "http://127.0.0.1:9").fetch("web", "/")).rejects.toThrow(ConnectionLost);
});

verifies("client.server", "Python's request does the same", async () => {
  service().logs.length = 0;
  const shown = await inPython(
    service(),
    `
def read(response):
    with response:
        return [response.status, json.load(response)]
def raised(client, *args):
    try:
        client.request(*args)
    except MillraceError as error:
        return [type(error).__name__, error.code]
echoed = read(millrace.request("web", "/items/a b?a=%20", method="PUT", headers={"content-type": "text/plain"}, body=b"two words"))
posted = read(millrace.request("web", "items", body=iter([b"one ", b"two"])))
missing = read(millrace.request("web", "/echo?status=404"))
with millrace.request("web", "/stream") as events:
    lines = [line.decode() for line in events]
with millrace.request("web", "/forever") as endless:
    begun = endless.readline().decode()
show([echoed, posted, missing, lines, begun, [
    raised(millrace, "none", "/x"),
    raised(Millrace(url, project, "no"), "web", "/"),
    raised(millrace, "web", "/exit"),
    raised(Millrace("http://127.0.0.1:9", project, token), "web", "/"),
]])`,
  );
  expect(shown).toMatchObject([
    [200, { method: "PUT", path: "/items/a%20b?a=%20", body: "two words" }],
    [200, { method: "POST", path: "/items", body: "one two" }],
    [404, { method: "GET" }],
    [0, 1, 2].flatMap((number) => [`data: ${number}\n`, "\n"]),
    "begun\n",
    [
      ["NotFound", "app_not_found"],
      ["Unauthorized", "unauthorized"],
      ["AppFailed", "app_crashed"],
      ["ConnectionLost", "connection_lost"],
    ],
  ]);
});
