import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, onTestFinished } from "vitest";
import { checkServer, checkStart } from "../../../src/replicas/server/checks.ts";
import { systemClock } from "../../../src/kit/clock.ts";
import { verifies } from "../../verifies.ts";

verifies("servers.busy", "only the first check of a server without endpoints connects", async () => {
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    socket.destroy();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const place = { kind: "listening", host: "127.0.0.1", port, isFixed: false, isOpen: false } as const;
  const taken = once(server, "connection");
  expect(await checkStart(place, null, systemClock)).toBeNull();
  await taken;
  for (let check = 0; check < 9; check++) expect(await checkServer(place, null, systemClock)).toBeNull();
  // The next connection that it takes is the second.
  const next = once(server, "connection");
  await checkStart(place, null, systemClock);
  await next;
  expect(connections).toBe(2);
  expect(await checkServer({ kind: "nowhere" }, null, systemClock)).toBe("nothing listens on its port");
});
