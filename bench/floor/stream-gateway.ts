import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createSocketServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { announce, endWithParent } from "../child-side.ts";

// The stream floor: the least that carries chunks from a Python generator to SSE readers. Frames as in
// gateway.ts; the messages of one read from the worker leave in one write per reader. No auth, no limits, no
// records, no backpressure, no leaving: `node stream-gateway.ts APP`, an app of bench/apps.
const FRAME_HEAD_BYTES = 9;
const CALL = 1;
const CHUNK = 2;
/** Deflate, no name, no time, operating system unknown. */
const GZIP_HEAD = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);
const STORED_HEAD_BYTES = 5;
const GZIP_TAIL_BYTES = 10;

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
        reader.text += `data: ${bytes.toString("latin1", start, end)}\n\n`;
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

/**
 * The least that is gzip: blocks stored as they are. A zlib stream per reader, flushed for each message, takes three
 * times the CPU and has p99 delays of 40 to 140 ms from its thread pool; beside it nobody could be too slow.
 */
function gzipReader(response: ServerResponse): Reader {
  let crc = 0;
  let plainBytes = 0;
  response.write(GZIP_HEAD);
  return {
    text: "",
    write: (text) => {
      const block = Buffer.allocUnsafe(STORED_HEAD_BYTES + text.length);
      block[0] = 0;
      block.writeUInt16LE(text.length, 1);
      block.writeUInt16LE(text.length ^ 0xffff, 3);
      block.write(text, STORED_HEAD_BYTES, "latin1");
      crc = crc32(block.subarray(STORED_HEAD_BYTES), crc);
      plainBytes += text.length;
      response.write(block);
    },
    end: () => {
      const tail = Buffer.alloc(GZIP_TAIL_BYTES);
      tail[0] = 3;
      tail.writeUInt32LE(crc, 2);
      tail.writeUInt32LE(plainBytes, 6);
      response.end(tail);
    },
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
