import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { Strangers } from "../../../src/kit/listener/strangers.ts";
import { until } from "../../support/until.ts";

/** A listener for whom everybody stays a stranger, up to four. */
async function listening() {
  const strangers = new Strangers(4);
  const met: Socket[] = [];
  const server = createServer((socket) => {
    socket.on("error", () => {});
    strangers.meet(socket, socket);
    met.push(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const callers: Socket[] = [];
  onTestFinished(() => {
    for (const socket of [...callers, ...met]) socket.destroy();
    server.close();
  });
  /** The service's side of a connection that comes from that address. */
  const callFrom = async (localAddress: string): Promise<Socket> => {
    const { port } = server.address() as AddressInfo;
    const count = met.length;
    callers.push(connect({ port, host: "127.0.0.1", localAddress }).on("error", () => {}));
    await until("it is met", () => met.length > count);
    return met[count]!;
  };
  return { strangers, callFrom };
}

test("a flood from one address turns away its own oldest, and nobody else", async () => {
  const { strangers, callFrom } = await listening();
  const patient = await callFrom("127.0.0.1");
  const flood: Socket[] = [];
  for (let count = 0; count < 12; count += 1) flood.push(await callFrom("127.0.0.2"));
  expect(patient.destroyed).toBe(false);
  expect(flood.map(({ destroyed }) => destroyed)).toEqual(flood.map((_, at) => at < 9));
  expect(strangers.size).toBe(4);
});

test("who is known, or gone, takes no place", async () => {
  const { strangers, callFrom } = await listening();
  const known = await callFrom("127.0.0.1");
  strangers.know(known);
  const gone = await callFrom("127.0.0.1");
  gone.destroy();
  await until("it is forgotten", () => strangers.size === 0);
  for (let count = 0; count < 5; count += 1) await callFrom("127.0.0.1");
  expect(known.destroyed).toBe(false);
  strangers.close();
  await until("none is left", () => strangers.size === 0);
  expect(known.destroyed).toBe(false);
});
