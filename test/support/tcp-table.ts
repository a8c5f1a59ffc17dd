import { readFileSync } from "node:fs";

/** What the kernel says of one end of a connection. */
export type TcpEnd = {
  /** Given to the kernel to send, and not yet at the other end. */
  readonly unsentBytes: number;
  /** Come from the other end, and not yet read. */
  readonly unreadBytes: number;
};

/** The end at `from` of an open connection between two ports of this machine; null when there is none. */
export function tcpEnd(from: number, to: number): TcpEnd | null {
  const hex = (port: number): string => port.toString(16).toUpperCase().padStart(4, "0");
  const row = new RegExp(`^ *\\d+: \\w+:${hex(from)} \\w+:${hex(to)} 01 (\\w+):(\\w+) `, "m");
  const [, unsent, unread] = row.exec(readFileSync("/proc/net/tcp", "utf8")) ?? [];
  if (unsent === undefined || unread === undefined) return null;
  return { unsentBytes: Number.parseInt(unsent, 16), unreadBytes: Number.parseInt(unread, 16) };
}
