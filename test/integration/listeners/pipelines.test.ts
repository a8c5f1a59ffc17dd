import { rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect } from "vitest";
import { MAX_PIPELINED } from "../../../src/kit/listener.ts";
import { RawConnection, rawRequest } from "../../support/raw-http.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { APPS, LISTENERS } from "./both.ts";

const service = sharedService(APPS);

/** Lets calls go that are held, or holds those to come. */
async function hold(isHeld: boolean): Promise<void> {
  const { settings, service: of } = service();
  const file = path.join(settings.dataDir, "storage", of.owner.projectId, "enough");
  await (isHeld ? rm(file, { force: true }) : writeFile(file, ""));
}

/** What ends HTTP on a connection, or is refused before it is a request of ours. */
const ODD = {
  "an expectation": rawRequest("GET /v2/notifications HTTP/1.1", ["Host: x", "Expect: cake"]),
  "an upgrade": rawRequest("GET /ws-logs?projectID=x HTTP/1.1", [
    "Host: x",
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
  ]),
  "what is no request": "GET /\r\n\r\n",
};

for (const listener of LISTENERS) {
  const { name } = listener;
  verifies(
    "hardening.order",
    `${name} answers what takes long before what it refuses at once behind it`,
    async () => {
      for (const [what, odd] of Object.entries(ODD)) {
        await hold(true);
        await using connection = await RawConnection.open(listener.url(service()));
        connection.send(listener.held(service()) + odd);
        await using other = await RawConnection.open(listener.url(service()));
        other.send(listener.open(service()));
        await other.answer();
        await hold(false);
        const [first, second] = [await connection.answer(0), await connection.answer(1)];
        // A sign-in with a wrong password, or a call that was held; then the refusal.
        const wanted = name === "the run endpoint" ? '"result":"held"' : "password is wrong";
        expect([what, first.body]).toEqual([what, expect.stringContaining(wanted)]);
        expect([what, second.status >= 400 && !second.body.includes(wanted)]).toEqual([what, true]);
      }
    },
  );

  verifies(
    "hardening.pipelined",
    `${name} ends a connection that asks on and on and takes nothing`,
    async () => {
      await using greedy = await RawConnection.open(listener.url(service()));
      greedy.socket.pause();
      greedy.send(listener.open(service()).repeat(20 * MAX_PIPELINED));
      await using other = await RawConnection.open(listener.url(service()));
      other.send(listener.open(service()));
      expect(await other.answer()).toMatchObject({ status: 200 });
      greedy.socket.resume();
      await greedy.closed();
      expect(greedy.answers.length).toBeLessThan(20 * MAX_PIPELINED);
    },
  );

  verifies("hardening.pipelined", `${name} answers as many as a connection may have open`, async () => {
    await using connection = await RawConnection.open(listener.url(service()));
    connection.send(listener.open(service()).repeat(MAX_PIPELINED));
    await connection.answer(MAX_PIPELINED - 1);
    expect(new Set(connection.answers.map(({ status }) => status))).toEqual(new Set([200]));
    connection.send(listener.open(service()));
    expect(await connection.answer(MAX_PIPELINED)).toMatchObject({ status: 200 });
  });
}
