import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createSocketServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { announce, endWithParent } from "../child-side.ts";

// The floor: the least that can carry a call from HTTP to a Python function and back. One Python worker on a
// unix socket, every call handed over at once; no auth, no limits, no records, no errors.
// A frame is u32 length, u32 call id, u8 type, then the payload, little-endian.
const FRAME_HEAD_BYTES = 9;
const CALL = 1;

const folder = mkdtempSync(join(tmpdir(), "floor-"));
const socketPath = join(folder, "worker.sock");
const waiting = new Map<number, (reply: Buffer) => void>();
let lastCallId = 0;

function readReplies(worker: Socket): void {
  let rest: Buffer | null = null;
  worker.on("data", (data: Buffer) => {
    const bytes: Buffer = rest === null ? data : Buffer.concat([rest, data]);
    let offset = 0;
    while (bytes.length - offset >= FRAME_HEAD_BYTES) {
      const end = offset + FRAME_HEAD_BYTES + bytes.readUInt32LE(offset);
      if (bytes.length < end) break;
      const callId = bytes.readUInt32LE(offset + 4);
      const answer = waiting.get(callId);
      waiting.delete(callId);
      answer?.(bytes.subarray(offset + FRAME_HEAD_BYTES, end));
      offset = end;
    }
    rest = offset === bytes.length ? null : bytes.subarray(offset);
  });
}

function callsTo(worker: Socket): (body: Buffer, answer: (reply: Buffer) => void) => void {
  let isCorked = false;
  const flush = () => {
    isCorked = false;
    worker.uncork();
  };
  return (body, answer) => {
    lastCallId = (lastCallId + 1) >>> 0;
    waiting.set(lastCallId, answer);
    const head = Buffer.allocUnsafe(FRAME_HEAD_BYTES);
    head.writeUInt32LE(body.length, 0);
    head.writeUInt32LE(lastCallId, 4);
    head[8] = CALL;
    // The frames of one turn of the loop leave in one write.
    if (!isCorked) {
      isCorked = true;
      worker.cork();
      setImmediate(flush);
    }
    worker.write(head);
    worker.write(body);
  };
}

function serve(worker: Socket): void {
  const call = callsTo(worker);
  const server = createServer((req, res) => {
    const parts: Buffer[] = [];
    req.on("data", (part: Buffer) => parts.push(part));
    req.on("end", () => {
      const [only] = parts;
      const body = only !== undefined && parts.length === 1 ? only : Buffer.concat(parts);
      const runId = randomUUID();
      call(body, (reply) => {
        const text = `{"run_id":"${runId}",${reply.toString("latin1", 1)}`;
        res.writeHead(200, {
          "content-type": "application/json",
          "content-length": text.length,
          "x-request-id": runId,
        });
        res.end(text, "latin1");
      });
    });
  });
  server.listen(0, "127.0.0.1", () => announce(server));
}

createSocketServer((worker) => {
  readReplies(worker);
  serve(worker);
}).listen(socketPath, () => {
  const worker = spawn("python3", [join(import.meta.dirname, "worker.py"), socketPath], {
    stdio: ["ignore", "inherit", "inherit"],
  });
  endWithParent(() => {
    worker.kill();
    rmSync(folder, { recursive: true, force: true });
  });
});
