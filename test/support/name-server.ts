import { createSocket, type Socket } from "node:dgram";
import { isIP } from "node:net";
import { onTestFinished } from "vitest";

const HEADER_BYTES = 12;
const TYPES = { 1: 4, 28: 6 } as const;
/** The name of an answer: the one that stands right after the header. */
const SAME_NAME = 0xc0_0c;
const RESPONSE = 0x81_80;
const NO_SUCH_NAME = 0x81_83;

/** A real name server on loopback that says what a test tells it. */
export class NameServer {
  readonly asked: string[] = [];
  /** The addresses of a name, of both families; none: there is no such name. */
  answer: (name: string) => readonly string[] = () => [];
  readonly #socket: Socket = createSocket("udp4");

  static async open(): Promise<NameServer> {
    const server = new NameServer();
    const socket = server.#socket;
    socket.on("message", (query, from) => socket.send(server.#reply(query), from.port, from.address));
    await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
    onTestFinished(() => new Promise<void>((resolve) => socket.close(resolve)));
    return server;
  }

  get address(): string {
    return `127.0.0.1:${this.#socket.address().port}`;
  }

  #reply(query: Buffer): Buffer {
    const labels: string[] = [];
    let at = HEADER_BYTES;
    for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
      labels.push(query.toString("latin1", at + 1, at + 1 + length));
      at += 1 + length;
    }
    const type = query.readUInt16BE(at + 1);
    const question = query.subarray(HEADER_BYTES, at + 5);
    const name = labels.join(".").toLowerCase();
    this.asked.push(name);
    const known = this.answer(name);
    const family = TYPES[type as keyof typeof TYPES];
    const records = known.filter((address) => isIP(address) === family).map((a) => record(type, a));
    const head = Buffer.alloc(HEADER_BYTES);
    query.copy(head, 0, 0, 2);
    head.writeUInt16BE(known.length > 0 ? RESPONSE : NO_SUCH_NAME, 2);
    head.writeUInt16BE(1, 4);
    head.writeUInt16BE(records.length, 6);
    return Buffer.concat([head, question, ...records]);
  }
}

function record(type: number, address: string): Buffer {
  const data = type === 1 ? Buffer.from(address.split(".").map(Number)) : ipv6Bytes(address);
  const head = Buffer.alloc(12);
  head.writeUInt16BE(SAME_NAME, 0);
  head.writeUInt16BE(type, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(data.length, 10);
  return Buffer.concat([head, data]);
}

function ipv6Bytes(address: string): Buffer {
  const [left = "", right = ""] = address.split("::");
  const groups = (text: string): string[] => text.split(":").filter((group) => group !== "");
  const missing = 8 - groups(left).length - groups(right).length;
  const all = [...groups(left), ...Array.from({ length: missing }, () => "0"), ...groups(right)];
  return Buffer.from(all.map((group) => group.padStart(4, "0")).join(""), "hex");
}
