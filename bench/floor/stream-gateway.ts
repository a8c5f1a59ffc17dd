import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer as createSocketServer } from "node:net";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { constants, createGzip } from "node:zlib";
import { announce, endWithParent } from "../child-side.ts";

// The stream floor: the least that carries chunks from a Python generator to SSE readers. Frames as in
// gateway.ts; the messages of one read from the worker leave in one write per reader. No auth, no limits, no
// records, no backpressure, no leaving: `node stream-gateway.ts APP`, an app of bench/apps.
const FRAME_HEAD_BYTES = 9;
const CALL = 1;
const CHUNK = 2;
/** A small window and state: a thousand of them are open. */
const GZIP = { level: 1, windowBits: 12, memLevel: 5 };

type Reader = { text: string; readonly write: (text: string) => void; readonly end: () => void };

const folder = mkdtempSync(join(tmpdir(), "floor-"));
const socketPath = join(folder, "worker.sock");
const readers = new Map<number, Reader>();
let lastCallId = 0;

function readChunks(worker: Socket): void {
  let rest: Buffer | null = null;
  worker.on("data", (data: Buffer) => {
    const bytes: Buffer = rest === null ? data : Buffer.concat([rest, data]);
    const filled: Reader[] = [];
    let offset = 0;
    while (bytes.length - offset >= FRAME_HEAD_BYTES) {
      const start = offset + FRAME_HEAD_BYTES;
      const end = start + bytes.readUInt32LE(offset);
      if (bytes.length < end) break;
      const callId = bytes.readUInt32LE(offset + 4);
      const reader = readers.get(callId);
      if (reader !== undefined && bytes[offset + 8] === CHUNK) {
        if (reader.text === "") filled.push(reader);
        reader.text += `data: ${bytes.latin1Slice(start, end)}\n\n`;
      } else if (reader !== undefined) {
        flush(reader);
        reader.end();
        readers.delete(callId);
      }
      offset = end;
    }
    for (const reader of filled) flush(reader);
    rest = offset === bytes.length ? null : bytes.subarray(offset);
  });
}

function flush(reader: Reader): void {
  if (reader.text === "") return;
  reader.write(reader.text);
  reader.text = "";
}

function plainReader(response: ServerResponse): Reader {
  return {
    text: "",
    write: (text) => void response.write(text, "latin1"),
    end: () => void response.end(),
  };
}

function gzipReader(response: ServerResponse): Reader {
  const gzip = createGzip(GZIP);
  gzip.on("data", (piece: Buffer) => response.write(piece));
  gzip.on("end", () => response.end());
  return {
    text: "",
    write: (text) => {
      gzip.write(text, "latin1");
      gzip.flush(constants.Z_SYNC_FLUSH);
    },
    end: () => void gzip.end(),
  };
}

function open(request: IncomingMessage, response: ServerResponse): Reader {
  const isGzip = request.headers["accept-encoding"] === "gzip";
  response.writeHead(200, {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-request-id": randomUUID(),
    ...(isGzip && { "content-encoding": "gzip" }),
  });
  return isGzip ? gzipReader(response) : plainReader(response);
}

function serve(worker: Socket): void {
  const server = createServer({ noDelay: true }, (request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const body = Buffer.concat(parts);
      const callId = ++lastCallId;
      readers.set(callId, open(request, response));
      const head = Buffer.allocUnsafe(FRAME_HEAD_BYTES);
      head.writeUInt32LE(body.length, 0);
      head.writeUInt32LE(callId, 4);
      head[8] = CALL;
      worker.write(Buffer.concat([head, body]));
    });
  });
  server.listen({ port: 0, host: "127.0.0.1", backlog: 4096 }, () => announce(server));
}

createSocketServer((worker) => {
  readChunks(worker);
  serve(worker);
}).listen(socketPath, () => {
  const script = join(import.meta.dirname, "stream_worker.py");
  const worker = spawn("python3", [script, socketPath, process.argv[2] ?? "tokens"], {
    stdio: ["ignore", "inherit", "inherit"],
  });
  endWithParent(() => {
    worker.kill();
    rmSync(folder, { recursive: true, force: true });
  });
});
