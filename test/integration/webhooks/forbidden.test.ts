import { type AddressInfo, createServer } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { AddressRanges } from "../../../src/kit/ip-addresses.ts";
import { systemClock } from "../../../src/kit/clock.ts";
import { nameResolver, type Resolve, Sender } from "../../../src/runs/webhooks/sender.ts";
import { FORBIDDEN_URLS } from "../../support/forbidden-urls.ts";
import { NameServer } from "../../support/name-server.ts";
import { until } from "../../support/until.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";

const NOTHING = new AddressRanges([]);

/** Something private that listens on every address of this machine. */
async function privateListener(): Promise<{ port: number; connections: () => number }> {
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    socket.destroy();
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, resolve);
  });
  onTestFinished(() => void server.close());
  return { port: (server.address() as AddressInfo).port, connections: () => connections };
}

async function errorOf(sender: Sender, url: string): Promise<string | null | undefined> {
  const posting = { url: new URL(url), headers: {}, body: Buffer.from("{}") };
  return (await sender.send(posting, new AbortController().signal))?.error;
}

function testSender(allow: AddressRanges, resolve?: Resolve): Sender {
  const sender = new Sender({ allow, clock: systemClock, ...(resolve && { resolve }) });
  onTestFinished(() => sender.close());
  return sender;
}

verifies(
  ["webhook.private", "webhook.connect-check"],
  "no forbidden address that gets as far as a connection is connected to",
  async () => {
    const { port, connections } = await privateListener();
    // Names of the list answer with this machine's addresses, as a hostile name server would.
    const sender = testSender(NOTHING, () => Promise.resolve(["127.0.0.1", "::1"]));
    const urls = FORBIDDEN_URLS.map((url) => url.replaceAll("PORT", String(port)))
      .filter((url) => /^https?:/.test(url) && URL.canParse(url))
      .map((url) => {
        const parsed = new URL(url);
        parsed.port = String(port);
        return parsed.href;
      });
    expect(urls.length).toBeGreaterThan(60);
    const errors = await Promise.all(urls.map((url) => errorOf(sender, url)));
    expect(new Set(errors)).toEqual(new Set(["address_refused"]));
    expect(connections()).toBe(0);
  },
);

test("a name server that first tells a public address and then a private one gets no connection", async () => {
  const { port, connections } = await privateListener();
  const names = await NameServer.open();
  const sender = testSender(NOTHING, nameResolver([names.address]));
  const url = `http://rebind.example:${port}/`;
  // What stands at the public address is not this test's business: it is broken off once it was asked for.
  names.answer = () => ["93.184.215.14"];
  const abort = new AbortController();
  const posting = { url: new URL(url), headers: {}, body: Buffer.from("{}") };
  const first = sender.send(posting, abort.signal);
  await until("the name was asked for", () => names.asked.length > 0);
  abort.abort();
  await first;
  for (const addresses of [
    ["127.0.0.1"],
    ["93.184.215.14", "127.0.0.1"],
    ["::1"],
    ["93.184.215.14", "::1"],
  ]) {
    names.answer = () => addresses;
    expect(await errorOf(sender, url)).toBe("address_refused");
  }
  expect(connections()).toBe(0);
});

test("a name is looked up where the name servers know it, and nowhere else", async () => {
  const target = await WebhookTarget.open();
  const { port } = new URL(target.url);
  const names = await NameServer.open();
  const sender = testSender(new AddressRanges(["127.0.0.1/32"]), nameResolver([names.address]));
  names.answer = (name) => (name === "hook.example" ? ["127.0.0.1"] : []);
  expect(await errorOf(sender, `http://hook.example:${port}/`)).toBe(null);
  expect(await errorOf(sender, `http://HOOK.example.:${port}/`)).toBe(null);
  expect(await errorOf(sender, `http://other.example:${port}/`)).toBe("name_not_found");
  expect(target.received).toHaveLength(2);
});

test("the name is asked once for a connection, and that answer is connected to", async () => {
  const target = await WebhookTarget.open();
  const { port } = new URL(target.url);
  const { port: otherPort, connections } = await privateListener();
  let asked = 0;
  const resolve: Resolve = () => {
    asked += 1;
    return Promise.resolve(asked === 1 ? ["127.0.0.1"] : ["127.0.0.2"]);
  };
  const sender = testSender(new AddressRanges(["127.0.0.1/32"]), resolve);
  expect(await errorOf(sender, `http://pinned.example:${port}/`)).toBe(null);
  expect(asked).toBe(1);
  expect(target.received[0]?.headers.host).toBe(`pinned.example:${port}`);
  expect(await errorOf(sender, `http://pinned.example:${otherPort}/`)).toBe("address_refused");
  expect(connections()).toBe(0);
});

test.each([
  [["93.184.215.14", "127.0.0.1"]],
  [["2606:4700:4700::1111", "::1"]],
  [["93.184.215.14", "::ffff:127.0.0.1"]],
  [["169.254.169.254"]],
  [["fe80::1%lo"]],
])("one private address among a name's addresses spoils it: %o", async (addresses) => {
  const { port, connections } = await privateListener();
  const sender = testSender(NOTHING, () => Promise.resolve(addresses));
  expect(await errorOf(sender, `http://mixed.example:${port}/`)).toBe("address_refused");
  expect(connections()).toBe(0);
});

verifies(
  "settings.webhook-allow.effect",
  "what is inside the allowed ranges is reached, and nothing else that is private",
  async () => {
    const target = await WebhookTarget.open();
    const { port } = new URL(target.url);
    const sender = testSender(new AddressRanges(["127.0.0.1/32"]), () => Promise.resolve(["127.0.0.1"]));
    expect(await errorOf(sender, target.url)).toBe(null);
    expect(await errorOf(sender, `http://name.example:${port}/`)).toBe(null);
    const { connections } = target;
    expect(await errorOf(sender, `http://127.0.0.2:${port}/`)).toBe("address_refused");
    expect(await errorOf(sender, `http://[::1]:${port}/`)).toBe("address_refused");
    expect(await errorOf(sender, `http://0.0.0.0:${port}/`)).toBe("address_refused");
    expect(target.connections).toBe(connections);
  },
);
