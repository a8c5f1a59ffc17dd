import type { Readable } from "node:stream";
import type { ByteReader } from "../byte-file.ts";
import { compressed } from "./compressed.ts";
import { BadTar } from "./header.ts";
import type { TarHeader } from "./header.ts";
import { isTooLong, staysInside } from "./inside.ts";
import { Unpackable } from "./pack-folder.ts";
import { TarReader } from "./read.ts";
import { checkedName, readerOf } from "./unpack-folder.ts";
import type { UnpackLimits } from "./unpack-folder.ts";

export type Repacking = Pick<UnpackLimits, "maxEntries" | "maxBytes"> & {
  /** What is not taken over, with nothing in its place. */
  readonly leftOut?: (entry: Pick<TarHeader, "name" | "kind" | "target">) => boolean;
  /** A file of our own beside what came. */
  readonly added?: { readonly name: string; readonly text: string };
};

/** Of all names and links together, which are in memory until the end: five times those of the largest environments. */
const MAX_NAME_CHARS = 64 * 1024 * 1024;
/** Of what stands around an entry's content: its name and its link may take three thousand bytes each. */
const MAX_HEAD_BYTES = 8 * 1024;

/**
 * Takes an archive from whoever sends it, not compressed, and gives it as `packFolder` would: every entry is judged and
 * written anew, so that whoever unpacks it finds nothing that we would not have packed. Throws `BadTar` for what is no
 * archive, is not whole or holds too much, and `Unpackable` for a link that leads outside.
 */
export function repack(
  from: Readable,
  { maxEntries, maxBytes, leftOut = () => false, added }: Repacking,
): AsyncGenerator<Buffer, void, void> {
  return compressed(async (tar) => {
    const reader = new TarReader(atMost(maxBytes + maxEntries * MAX_HEAD_BYTES, readerOf(from)));
    const names = new Set<string>(added && [added.name]);
    let [count, bytes, nameChars] = [0, 0, 0];
    for await (const entry of reader.entries()) {
      count += 1;
      bytes += entry.sizeBytes;
      nameChars += entry.name.length + entry.target.length;
      if (count > maxEntries || bytes > maxBytes || nameChars > MAX_NAME_CHARS)
        throw new BadTar("it holds too much");
      const { kind, mode, modifiedAt, target } = entry;
      const bare = entry.name.replace(/\/$/, "");
      if (leftOut({ name: bare, kind, target })) continue;
      const name = checkedName(entry, names);
      if (kind === "directory") await tar.addDirectory(name, mode, modifiedAt);
      else if (kind === "file") await tar.addPieces(name, entry, entry.content);
      else if (staysInside(name, target, 0) && !isTooLong(target))
        await tar.addLink(name, target, modifiedAt);
      else throw new Unpackable(name, `is a link to ${JSON.stringify(target.slice(0, 200))}`);
    }
    if (added) await tar.addBytes(added.name, Buffer.from(added.text), 0);
  });
}

/** Throws `BadTar` when more comes, which may have no end. */
function atMost(maxBytes: number, from: ByteReader): ByteReader {
  let left = maxBytes;
  return {
    close: async () => await from.close(),
    read: async (into) => {
      const count = await from.read(into);
      left -= count;
      if (left < 0) throw new BadTar("it holds too much");
      return count;
    },
  };
}
