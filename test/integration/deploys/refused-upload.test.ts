import { once } from "node:events";
import { connect } from "node:net";
import { expect } from "vitest";
import { DeployClient } from "../../support/deploy-client.ts";
import { testService } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";

const PIECE = Buffer.alloc(256 * 1024);
const PIECES = 12;

verifies(
  "deploy.upload.refused",
  "whoever uploads to a disk without room can send on and hears why",
  async () => {
    const { service } = await testService({}, { diskReserve: "1000TB" });
    const { baseUrl, owner } = service;
    const { uploadUrl } = await new DeployClient({ ...owner, baseUrl }, "app").begin();
    const { hostname, port, pathname, search } = new URL(uploadUrl);
    const socket = connect({ host: hostname, port: Number(port) });
    const head = [
      `PUT ${pathname}${search} HTTP/1.1`,
      "Host: upload",
      `Content-Length: ${PIECE.length * PIECES}`,
    ];
    socket.write(`${head.join("\r\n")}\r\n\r\n`);
    socket.write(PIECE);
    const [answer] = (await once(socket, "data")) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 503 [^]*MILLRACE_DISK_RESERVE/);
    // A sender that looks for its answer when all is sent finds the connection as it was.
    for (let piece = 1; piece < PIECES; piece++) {
      await new Promise<void>((resolve, reject) => {
        socket.write(PIECE, (error) => (error ? reject(error) : resolve()));
      });
    }
    socket.end();
    const [hadError] = (await once(socket, "close")) as [boolean];
    expect([answer.toString(), hadError]).toEqual([expect.anything(), false]);
  },
);
