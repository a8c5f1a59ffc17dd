import { open, readdir, readlink } from "node:fs/promises";
import { networkInterfaces } from "node:os";
import { nearestBelow } from "../../src/host/processes.ts";

/** A socket that accepts connections. */
export type Listener = {
  /** Where it can be reached from this machine. */
  readonly host: string;
  readonly port: number;
  /** It can be reached from other machines too. */
  readonly isOpen: boolean;
  /** What the kernel knows it by. */
  readonly inode: string;
};

const LISTENING = "0A";
/** What the first line says, which names the columns. */
const COLUMNS = "local_address";
const READ_BYTES = 16 * 1024;
const ANY = /^0+$/;
/** How to reach a listener on all addresses of IPv6; a host may have none of its own for that. */
const LOCAL_6 = hasLocal6() ? "::1" : "127.0.0.1";
const LOOPBACK_6 = `${"0".repeat(24)}01000000`;
const MAPPED = `${"0".repeat(16)}FFFF0000`;
/** The app decides how many there are: of all, and of one process. */
const MAX_PROCESSES = 256;
const MAX_DESCRIPTORS = 16_384;
const MAX_OWN_DESCRIPTORS = 4096;

/** Everything that listens for TCP connections where that process could connect to it. */
export async function listenersSeenBy(pid: number): Promise<Listener[]> {
  const tables = await Promise.all(["tcp", "tcp6"].map((name) => listeningLines(`/proc/${pid}/net/${name}`)));
  return tables.flat().flatMap((line) => parse(line));
}

/** The lines of those that listen. The kernel puts them before all others, of which a busy machine has thousands. */
async function listeningLines(table: string): Promise<string[]> {
  const file = await open(table).catch(() => null);
  if (!file) return [];
  try {
    const buffer = Buffer.allocUnsafe(READ_BYTES);
    const lines: string[] = [];
    let rest = "";
    for (;;) {
      const { bytesRead } = await file.read(buffer, 0, READ_BYTES);
      const read = (rest + buffer.toString("latin1", 0, bytesRead)).split("\n");
      rest = read.pop() ?? "";
      lines.push(...read.filter(isListening));
      if (bytesRead === 0 || read.some((line) => !isListening(line) && !line.includes(COLUMNS))) return lines;
    }
  } catch {
    return []; // The process has ended meanwhile.
  } finally {
    await file.close();
  }
}

function isListening(line: string): boolean {
  return line.includes(` ${LISTENING} `);
}

/** Which of these sockets some process below that one holds. */
export async function heldBelow(pid: number, inodes: ReadonlySet<string>): Promise<Set<string>> {
  const held = new Set<string>();
  let processes = MAX_PROCESSES;
  let descriptors = MAX_DESCRIPTORS;
  for (const each of nearestBelow(pid)) {
    if (held.size === inodes.size || processes-- === 0) break;
    const folder = `/proc/${each}/fd`;
    // It has just ended, or belongs to another user.
    const names = await readdir(folder).catch(() => []);
    for (const name of names.slice(0, Math.min(descriptors, MAX_OWN_DESCRIPTORS))) {
      descriptors -= 1;
      const target = await readlink(`${folder}/${name}`).catch(() => "");
      const inode = /^socket:\[(\d+)\]$/.exec(target)?.[1];
      if (inode !== undefined && inodes.has(inode)) held.add(inode);
    }
  }
  return held;
}

function hasLocal6(): boolean {
  return Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === "::1"));
}

function parse(line: string): Listener[] {
  const [, local = "", , state, , , , , , inode] = line.trim().split(/\s+/);
  const [address = "", port = ""] = local.split(":");
  if (state !== LISTENING || inode === undefined) return [];
  return [{ ...reach(address), port: Number.parseInt(port, 16), inode }];
}

/** The kernel writes addresses as the machine's own 32-bit numbers, of which all have the low byte first. */
function reach(address: string): { host: string; isOpen: boolean } {
  if (address.length === 8) {
    if (ANY.test(address)) return { host: "127.0.0.1", isOpen: true };
    const host = [6, 4, 2, 0].map((at) => Number.parseInt(address.slice(at, at + 2), 16)).join(".");
    return { host, isOpen: !host.startsWith("127.") };
  }
  // It may or may not take IPv4 as well.
  if (ANY.test(address)) return { host: LOCAL_6, isOpen: true };
  if (address === LOOPBACK_6) return { host: "::1", isOpen: false };
  if (address.startsWith(MAPPED)) return reach(address.slice(MAPPED.length));
  return { host: "::1", isOpen: true };
}
